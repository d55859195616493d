/** Detects the kinds of a table's columns from all of their values, in one pass. */
import {
  DECIMAL_MARKS,
  type ColumnKind,
  type DataNote,
  type DecimalMark,
  type PreviewColumn,
} from '../../spec/preview.ts';
import { DataError } from '../../util/errors.ts';
import { isMarker, isNumber, numberOf } from '../formats/numbers.ts';

/** Maximum number of distinct words of a category. Each word is an input of the model. */
export const MAX_CATEGORIES = 100;
/**
 * If at least this share of a column's values are numbers, all other values are regarded as
 * mistakes.
 */
const MOSTLY = 0.9;
/** Matches a currency sign before a number, or a currency or percent sign after it. */
const SIGNS = /^([+-]?)[$€£¥]\s*|\s*[%$€£¥]$/u;
interface Place {
  field: string;
  line: number;
}

/** A problem with a field. */
interface Doubt {
  place: Place;
  /** The end of the error message, which begins with the field and its column. */
  what: string;
}

export class Column {
  readonly name: string;
  readonly #isTarget: boolean;
  #empty = 0;
  /** Number of rows for each text that is a {@link isMarker marker}. */
  readonly #markers = new Map<string, number>();
  /** Number of fields that are neither empty nor markers. */
  #filled = 0;
  /**
   * For each decimal mark: the number of fields that can be read as numbers with this mark, and the
   * first field that cannot.
   */
  readonly #numbers: Record<DecimalMark, number> = { point: 0, comma: 0 };
  readonly #strangers: Record<DecimalMark, Place | null> = { point: null, comma: null };
  /**
   * The first field that is not a number with either decimal mark, and the number of such fields.
   */
  #word: Place | null = null;
  #words = 0;
  /**
   * Number of fields that consist of a number and a currency or percent sign, and the first such
   * field.
   */
  #signs = 0;
  #sign: Place | null = null;
  /**
   * The first number that contains a point, and the first that contains a comma. The character may
   * be a decimal mark or a thousands separator.
   */
  readonly #marked: Record<DecimalMark, Place | null> = { point: null, comma: null };
  #mark: DecimalMark | null = null;
  #doubt: Doubt | null = null;
  /**
   * Number of rows with each value, without markers. Counting stops when there are too many
   * different values.
   */
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

  /** The texts that stand for a missing value, each with its number of rows. */
  get gaps(): [field: string, rows: number][] {
    const markers = this.#isOfWords ? [] : [...this.#markers];
    return this.#empty === 0 ? markers : [['', this.#empty], ...markers];
  }

  get kind(): ColumnKind {
    if (this.#isOfWords) return this.values === null ? 'text' : 'category';
    return this.#filled === 0 ? 'empty' : 'number';
  }

  /**
   * The different values, each with its number of rows, without missing values. They are sorted by
   * code units. `null` if there are too many values.
   */
  get values(): [value: string, rows: number][] | null {
    const values = [...this.#counts, ...(this.#isOfWords ? this.#markers : [])];
    if (!this.#isCounting || values.length > MAX_CATEGORIES) return null;
    return values.sort(([a], [b]) => (a < b ? -1 : 1));
  }

  /**
   * Whether markers are treated as words. This is so if the other values cannot all be read as
   * numbers with the same decimal mark, or if the column is a target that has only markers. An
   * input that has only markers is treated as empty, so that it matches both numbers and words of
   * other tabs.
   */
  get #isOfWords(): boolean {
    return this.#filled === 0
      ? this.#isTarget && this.#markers.size > 0
      : DECIMAL_MARKS.every((mark) => this.#numbers[mark] < this.#filled);
  }

  /**
   * The decimal mark of the column's numbers. `null` if the numbers contain neither points nor
   * commas, if their mark is unclear, or if the column does not contain numbers.
   */
  get mark(): DecimalMark | null {
    return this.#mark;
  }

  /**
   * The only decimal mark with which all values can be read as numbers. `null` if both marks are
   * possible or the column does not contain numbers.
   */
  get sureMark(): DecimalMark | null {
    if (this.kind !== 'number') return null;
    if (this.#strangers.comma !== null) return 'point';
    return this.#strangers.point === null ? null : 'comma';
  }

  /**
   * Decides the decimal mark of numbers that can be read with both marks, such as 1.234.
   *
   * @param sure the decimal marks of all columns that have a {@link sureMark}.
   */
  settleMark(sure: ReadonlySet<DecimalMark>, separator: string): void {
    this.#mark = this.sureMark;
    const { point, comma } = this.#marked;
    const place = comma ?? point;
    if (this.kind !== 'number' || this.#mark !== null || place === null) return;
    if (sure.size === 1) {
      [this.#mark = null] = sure;
    } else if (sure.size === 0 && (comma === null || (separator === ',' && point === null))) {
      // Most programs write decimal points. If commas separate columns, a comma in a quoted number
      // separates thousands.
      this.#mark = 'point';
    } else {
      const why =
        sure.size === 0
          ? 'nothing in the file shows the decimal mark'
          : 'some other columns have decimal points and some have decimal commas';
      const both = `${numberOf(place.field, 'point')} or ${numberOf(place.field, 'comma')}`;
      this.#doubt = {
        place,
        what: `may be ${both}, because ${why}. Write all numbers with a decimal point and without thousands separators.`,
      };
    }
  }

  /**
   * @throws DataError if most values are numbers but some are not, or if the decimal mark is
   *   unclear. The error names the line.
   */
  check(file: string): void {
    const doubt = this.#doubt ?? this.#slip;
    if (doubt === null) return;
    const { place, what } = doubt;
    const field = `${JSON.stringify(place.field)} in column ${JSON.stringify(this.name)}`;
    throw new DataError(`${file}, line ${place.line}: ${field} ${what}`);
  }

  /**
   * The first mistake in a column whose values are mostly numbers: a field that is not a number or
   * has another decimal mark. If most values have a currency or percent sign, this is the first
   * value with a sign.
   */
  get #slip(): Doubt | null {
    if (this.#sign !== null && this.#signs >= MOSTLY * this.#filled) {
      const others = this.#signs - 1;
      return {
        place: this.#sign,
        what: `has a currency or percent sign, like ${others} other values of the column. Remove the signs.`,
      };
    }
    const numbers = this.#filled - this.#words;
    if (!this.#isOfWords || numbers < MOSTLY * this.#filled) return null;
    if (this.#word !== null) {
      return {
        place: this.#word,
        what: `is not a number, but ${numbers} other values of the column are numbers. Correct the value, or leave it empty.`,
      };
    }
    const usual = this.#numbers.comma > this.#numbers.point ? 'comma' : 'point';
    const place = this.#strangers[usual];
    const what = `has another decimal mark than the ${this.#numbers[usual]} other numbers of the column. Use the same decimal mark in all of them.`;
    return place && { place, what };
  }

  /** Notes about an input column. */
  get notes(): DataNote[] {
    const { name, kind } = this;
    if (kind === 'text') return [{ kind: 'column-of-text', count: this.#filled, name, example: this.#word!.field }];
    if (kind !== 'empty') return [];
    const [[example, rows] = ['', 0]] = this.#markers;
    return [{ kind: 'column-empty', count: this.#empty + rows, name, example }];
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

/** Decides the {@link Column.mark decimal mark} of each column of a file. */
export function settleMarks(columns: readonly Column[], separator: string): void {
  const sure = new Set(columns.flatMap(({ sureMark }) => sureMark ?? []));
  for (const column of columns) column.settleMark(sure, separator);
}
