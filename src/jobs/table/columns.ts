/** What a table's columns hold: guessed from all of their values, in one pass. */
import { DECIMAL_MARKS, type ColumnKind, type DecimalMark, type PreviewColumn } from '../../spec/preview.ts';
import { DataError } from '../../util/errors.ts';
import { isMarker, isNumber, numberOf } from '../formats/numbers.ts';

/** Different words of a column that are still categories: each is an input of its own. */
export const MAX_CATEGORIES = 100;
/** From this share of numbers on, what is none is a mistake. */
const MOSTLY = 0.9;
/** Signs beside prices and shares. */
const SIGNS = /^([+-]?)[$€£¥]\s*|\s*[%$€£¥]$/u;
interface Place {
  field: string;
  line: number;
}

/** A reason to refuse a field. */
interface Doubt {
  place: Place;
  /** Says so behind the field and its column. */
  what: string;
}

export class Column {
  readonly name: string;
  readonly #isTarget: boolean;
  #empty = 0;
  /** Rows by {@link isMarker marker}, as it is written. */
  readonly #markers = new Map<string, number>();
  /** Fields that are neither empty nor markers. */
  #filled = 0;
  /** Those that are numbers with a decimal mark, and the first that is not. */
  readonly #numbers: Record<DecimalMark, number> = { point: 0, comma: 0 };
  readonly #strangers: Record<DecimalMark, Place | null> = { point: null, comma: null };
  /** The first that is not a number with either. */
  #word: Place | null = null;
  #words = 0;
  /** Words that are numbers with a sign beside them, and the first. */
  #signs = 0;
  #sign: Place | null = null;
  /** The first number with this mark in it, whatever it stands for. */
  readonly #marked: Record<DecimalMark, Place | null> = { point: null, comma: null };
  #mark: DecimalMark | null = null;
  #doubt: Doubt | null = null;
  /** Rows by value that is no marker, until there are too many. */
  readonly #counts = new Map<string, number>();
  #isCounting = true;

  constructor(name: string, isTarget: boolean) {
    this.name = name;
    this.#isTarget = isTarget;
  }

  add(field: string, line: number): void {
    const value = field.trim();
    if (value === '') {
      this.#empty++;
      return;
    }
    if (isMarker(value)) {
      this.#markers.set(value, (this.#markers.get(value) ?? 0) + 1);
      return;
    }
    this.#filled++;
    this.#addNumber(value, line);
    if (!this.#isCounting) return;
    this.#counts.set(value, (this.#counts.get(value) ?? 0) + 1);
    this.#isCounting = this.#counts.size <= MAX_CATEGORIES;
  }

  #addNumber(field: string, line: number): void {
    const fits = { point: numberOf(field, 'point') !== null, comma: numberOf(field, 'comma') !== null };
    for (const mark of DECIMAL_MARKS) {
      if (fits[mark]) this.#numbers[mark]++;
      else this.#strangers[mark] ??= { field, line };
    }
    if (!fits.point && !fits.comma) {
      this.#words++;
      this.#word ??= { field, line };
      if (SIGNS.test(field) && isNumber(field.replace(SIGNS, '$1'))) {
        this.#signs++;
        this.#sign ??= { field, line };
      }
      return;
    }
    if (field.includes('.')) this.#marked.point ??= { field, line };
    if (field.includes(',')) this.#marked.comma ??= { field, line };
  }

  /** Rows in which a value is missing, by what stands there. */
  get gaps(): [field: string, rows: number][] {
    const markers = this.#isOfWords ? [] : [...this.#markers];
    return this.#empty === 0 ? markers : [['', this.#empty], ...markers];
  }

  get kind(): ColumnKind {
    if (this.#isOfWords) return this.values === null ? 'text' : 'category';
    return this.#filled === 0 ? 'empty' : 'number';
  }

  /**
   * Values that are not missing, in the order of their code units, with their rows; `null` where
   * there are too many.
   */
  get values(): [value: string, rows: number][] | null {
    const values = [...this.#counts, ...(this.#isOfWords ? this.#markers : [])];
    if (!this.#isCounting || values.length > MAX_CATEGORIES) return null;
    return values.sort(([a], [b]) => (a < b ? -1 : 1));
  }

  /**
   * Whether markers are words: beside other words, and in a target that has nothing else. A feature
   * that has nothing else is of no use, and fits other tabs' numbers and words alike.
   */
  get #isOfWords(): boolean {
    return this.#filled === 0
      ? this.#isTarget && this.#markers.size > 0
      : DECIMAL_MARKS.every((mark) => this.#numbers[mark] < this.#filled);
  }

  /**
   * The decimal mark that its numbers are read with; `null`: they have no marks, or it is not a
   * column of numbers.
   */
  get mark(): DecimalMark | null {
    return this.#mark;
  }

  /**
   * The only decimal mark that all of its numbers can be read with; `null`: both, or it is not a
   * column of numbers.
   */
  get sureMark(): DecimalMark | null {
    if (this.kind !== 'number') return null;
    if (this.#strangers.comma !== null) return 'point';
    return this.#strangers.point === null ? null : 'comma';
  }

  /**
   * Settles the decimal mark that numbers are read with, where all of them can be read with both,
   * as 1.234 can.
   *
   * @param sure the marks of columns that have a {@link sureMark}.
   */
  settleMark(sure: ReadonlySet<DecimalMark>, separator: string): void {
    this.#mark = this.sureMark;
    const { point, comma } = this.#marked;
    const place = comma ?? point;
    if (this.kind !== 'number' || this.#mark !== null || place === null) return;
    if (sure.size === 1) {
      [this.#mark = null] = sure;
    } else if (sure.size === 0 && (comma === null || (separator === ',' && point === null))) {
      // As programs write numbers; and where a comma separates columns, one in quotes is between
      // thousands.
      this.#mark = 'point';
    } else {
      const why = sure.size === 0 ? 'nothing in the file says which' : 'the other columns have both decimal marks';
      const both = `${numberOf(place.field, 'point')} or ${numberOf(place.field, 'comma')}`;
      this.#doubt = {
        place,
        what: `is ${both}, and ${why}. Write all numbers with a decimal point, and none between thousands.`,
      };
    }
  }

  /**
   * @throws DataError, with the line, where nearly all is numbers, or nothing tells which numbers
   *   these are.
   */
  check(file: string): void {
    const doubt = this.#doubt ?? this.#slip;
    if (doubt === null) return;
    const { place, what } = doubt;
    const field = `${JSON.stringify(place.field)} in column ${JSON.stringify(this.name)}`;
    throw new DataError(`${file}, line ${place.line}: ${field} ${what}`);
  }

  /**
   * The first field that is not a number as nearly all others are, or has a sign beside it as these
   * have.
   */
  get #slip(): Doubt | null {
    if (this.#sign !== null && this.#signs >= MOSTLY * this.#filled) {
      const others = this.#signs - 1;
      return {
        place: this.#sign,
        what: `has a sign beside its number, as ${others} others have. Write the numbers alone.`,
      };
    }
    const numbers = this.#filled - this.#words;
    if (!this.#isOfWords || numbers < MOSTLY * this.#filled) return null;
    if (this.#word !== null) {
      return { place: this.#word, what: `is not a number, and ${numbers} others are. Correct it, or leave it empty.` };
    }
    const usual = this.#numbers.comma > this.#numbers.point ? 'comma' : 'point';
    const place = this.#strangers[usual];
    const what = `has another decimal mark than the ${this.#numbers[usual]} other numbers. Write them all with the same.`;
    return place && { place, what };
  }

  get preview(): PreviewColumn {
    return {
      name: this.name,
      kind: this.kind,
      mark: this.mark,
      missing: this.gaps.reduce((sum, [, rows]) => sum + rows, 0),
      distinct: this.values?.length ?? null,
    };
  }
}

/** Settles which {@link Column.mark decimal mark} each column of a file has. */
export function settleMarks(columns: readonly Column[], separator: string): void {
  const sure = new Set(columns.flatMap(({ sureMark }) => sureMark ?? []));
  for (const column of columns) column.settleMark(sure, separator);
}
