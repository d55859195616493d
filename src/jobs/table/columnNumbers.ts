/** Collects the numbers of a column. Numbers with different units are collected separately. */
import type { DecimalMark } from '../../spec/preview.ts';
import { mayHaveThousandsMark, numberWithoutUnit, type NumberWithUnit } from '../../formats/numbers.ts';
import { isShareUnit, nameOfUnit } from '../../formats/units.ts';
import { MAX_DATA_NUMBER } from '../../formats/moments.ts';

/** The character code of the digit 0. */
const ZERO = 0x30;

export interface TableFieldWithLine {
  field: string;
  line: number;
}

/** A field, and the number of rows that have it. `line` is the line of the first of these rows. */
export interface CountedTableField extends TableFieldWithLine {
  times: number;
}

export interface ColumnProblem {
  place: TableFieldWithLine;
  /**
   * The second half of an error message about the field. The first half names the file, the line,
   * the column and the field.
   */
  what: string;
}

/** The numbers of a column that have the same unit. */
export class NumbersOfUnit {
  readonly unit: string;
  readonly first: TableFieldWithLine;
  count = 0;
  /**
   * For each decimal mark: the number of fields that can be read as numbers with this mark, and the
   * first field that cannot.
   */
  readonly fits: Record<DecimalMark, number> = { point: 0, comma: 0 };
  readonly strangers: Record<DecimalMark, TableFieldWithLine | null> = { point: null, comma: null };
  /**
   * The first number that contains a point, and the first that contains a comma. The character may
   * be a decimal mark or a thousands separator.
   */
  readonly marked: Record<DecimalMark, TableFieldWithLine | null> = { point: null, comma: null };
  /** Number of fields whose number is written in an unusual way, such as (5) for -5. */
  rewritten = 0;
  firstRewritten: TableFieldWithLine | null = null;
  /** The first number that is larger than {@link MAX_DATA_NUMBER}. */
  huge: TableFieldWithLine | null = null;

  constructor(unit: string, first: TableFieldWithLine) {
    this.unit = unit;
    this.first = first;
  }

  /** Adds a number that `NumberReader.simple` returned. It is at most {@link MAX_DATA_NUMBER}. */
  addSimple(text: string, { field, line, times }: CountedTableField): void {
    this.count += times;
    const mark = text.includes('.') ? 'point' : text.includes(',') ? 'comma' : null;
    const other = mark === 'point' ? 'comma' : 'point';
    this.fits[mark ?? 'comma'] += times;
    if (mark === null || mayHaveThousandsMark(text)) this.fits[other] += times;
    else this.strangers[other] ??= { field, line };
    if (mark !== null) this.marked[mark] ??= { field, line };
    this.#addNotation(text, { field, line, times });
  }

  /**
   * Adds a number without a unit in its usual notation. Does nothing and returns `false` if its
   * text is needed, because it is the first number of its kind.
   *
   * @param mark the number's only mark; `null` for an integer.
   * @param mayGroup whether the mark may separate thousands.
   */
  addCounted(mark: DecimalMark | null, mayGroup: boolean): boolean {
    if (mark === null) {
      this.fits.point++;
      this.fits.comma++;
    } else {
      const other = mark === 'point' ? 'comma' : 'point';
      if (this.marked[mark] === null || (!mayGroup && this.strangers[other] === null)) return false;
      this.fits[mark]++;
      if (mayGroup) this.fits[other]++;
    }
    this.count++;
    return true;
  }

  /**
   * Adds an amount if it is a number with at least one of the two decimal marks. Returns whether it
   * was added.
   */
  add(amount: NumberWithUnit, { field, line, times }: CountedTableField): boolean {
    const { text } = amount;
    const hasPoint = text.includes('.');
    const hasComma = text.includes(',');
    const isInteger = !hasPoint && !hasComma;
    const asPoint = numberWithoutUnit(amount, 'point');
    const asComma = isInteger ? asPoint : numberWithoutUnit(amount, 'comma');
    const value = asPoint ?? asComma;
    if (value === null) return false;
    const [point, comma] = [asPoint !== null, asComma !== null];
    if (Math.abs(value) > MAX_DATA_NUMBER) this.huge ??= { field, line };
    this.count += times;
    if (point) this.fits.point += times;
    else this.strangers.point ??= { field, line };
    if (comma) this.fits.comma += times;
    else this.strangers.comma ??= { field, line };
    if (hasPoint) this.marked.point ??= { field, line };
    if (hasComma) this.marked.comma ??= { field, line };
    this.#addNotation(text, { field, line, times });
    return true;
  }

  #addNotation(text: string, { field, line, times }: CountedTableField): void {
    const isPadded = text.charCodeAt(0) === ZERO && /^0\d/.test(text);
    if (this.unit !== '' || (text === field && !isPadded)) return;
    this.rewritten += times;
    this.firstRewritten ??= { field, line };
  }
}

/** Returns a problem if numbers of a column have different units. */
export function problemOfMixedUnits(numbers: readonly NumbersOfUnit[]): ColumnProblem | null {
  const [usual, other] = numbers.toSorted((a, b) => b.count - a.count);
  if (usual === undefined || other === undefined) return null;
  const third = numbers.length > 2 || (usual.unit !== '' && other.unit !== '');
  if (!third && !isShareUnit(`${usual.unit}${other.unit}`)) return null;
  return {
    place: other.first,
    what: `has ${nameOfUnit(other.unit)}, but ${usual.count} other values of the column, such as ${JSON.stringify(usual.first.field)}, have ${nameOfUnit(usual.unit)}. Write all numbers in the same unit.`,
  };
}
