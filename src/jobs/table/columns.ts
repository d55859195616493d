/** Detects the kinds of a table's columns from all of their values, in one pass. */
import { DECIMAL_MARKS, type ColumnKind, type DecimalMark, type PreviewColumn } from '../../spec/preview.ts';
import { DataError } from '../../util/errors.ts';
import { isMarker, isNumber, numberOf } from '../formats/numbers.ts';

/** Most distinct words of a category; each becomes an input. */
export const MAX_CATEGORIES = 100;
/** From this share of numbers on, other values count as mistakes. */
const MOSTLY = 0.9;
/** Currency and percent signs beside a number. */
const SIGNS = /^([+-]?)[$€£¥]\s*|\s*[%$€£¥]$/u;
interface Place {
  field: string;
  line: number;
}

/** A problem with a field. */
interface Doubt {
  place: Place;
  /** The end of the message, after the field and its column. */
  what: string;
}

export class Column {
  readonly name: string;
  readonly #isTarget: boolean;
  #empty = 0;
  /** Number of rows by {@link isMarker marker}, as written. */
  readonly #markers = new Map<string, number>();
  /** Number of fields that are neither empty nor markers. */
  #filled = 0;
  /** Number of those that are numbers with this decimal mark, and the first one that is not. */
  readonly #numbers: Record<DecimalMark, number> = { point: 0, comma: 0 };
  readonly #strangers: Record<DecimalMark, Place | null> = { point: null, comma: null };
  /** The first field that is not a number with either mark. */
  #word: Place | null = null;
  #words = 0;
  /** Number of words that are numbers with a sign beside them, and the first one. */
  #signs = 0;
  #sign: Place | null = null;
  /** The first number that contains this mark, as a decimal mark or as a thousands separator. */
  readonly #marked: Record<DecimalMark, Place | null> = { point: null, comma: null };
  #mark: DecimalMark | null = null;
  #doubt: Doubt | null = null;
  /** Number of rows by value, without markers; counting stops when there are too many values. */
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

  /** Number of rows with a missing value, by the field's text. */
  get gaps(): [field: string, rows: number][] {
    const markers = this.#isOfWords ? [] : [...this.#markers];
    return this.#empty === 0 ? markers : [['', this.#empty], ...markers];
  }

  get kind(): ColumnKind {
    if (this.#isOfWords) return this.values === null ? 'text' : 'category';
    return this.#filled === 0 ? 'empty' : 'number';
  }

  /**
   * Number of rows by value, without missing ones, in code unit order; `null` if there are too many
   * values.
   */
  get values(): [value: string, rows: number][] | null {
    const values = [...this.#counts, ...(this.#isOfWords ? this.#markers : [])];
    if (!this.#isCounting || values.length > MAX_CATEGORIES) return null;
    return values.sort(([a], [b]) => (a < b ? -1 : 1));
  }

  /**
   * Whether markers count as words: if the column has other words, or if it is a target that has
   * only markers. A feature that has only markers is useless; counting it as empty lets it match
   * numbers and words of other tabs.
   */
  get #isOfWords(): boolean {
    return this.#filled === 0
      ? this.#isTarget && this.#markers.size > 0
      : DECIMAL_MARKS.every((mark) => this.#numbers[mark] < this.#filled);
  }

  /**
   * The decimal mark of the column's numbers; `null` if they contain no marks, or it is not a
   * column of numbers.
   */
  get mark(): DecimalMark | null {
    return this.#mark;
  }

  /**
   * The only decimal mark with which all numbers can be read; `null` if both are possible, or it is
   * not a column of numbers.
   */
  get sureMark(): DecimalMark | null {
    if (this.kind !== 'number') return null;
    if (this.#strangers.comma !== null) return 'point';
    return this.#strangers.point === null ? null : 'comma';
  }

  /**
   * Decides the decimal mark of numbers that can be read with both marks, such as 1.234.
   *
   * @param sure the marks of columns with a {@link sureMark}.
   */
  settleMark(sure: ReadonlySet<DecimalMark>, separator: string): void {
    this.#mark = this.sureMark;
    const { point, comma } = this.#marked;
    const place = comma ?? point;
    if (this.kind !== 'number' || this.#mark !== null || place === null) return;
    if (sure.size === 1) {
      [this.#mark = null] = sure;
    } else if (sure.size === 0 && (comma === null || (separator === ',' && point === null))) {
      // Programs write decimal points. If commas separate columns, a quoted comma separates
      // thousands.
      this.#mark = 'point';
    } else {
      const why = sure.size === 0 ? 'nothing in the file shows which' : 'the other columns have both decimal marks';
      const both = `${numberOf(place.field, 'point')} or ${numberOf(place.field, 'comma')}`;
      this.#doubt = {
        place,
        what: `may be ${both}: ${why}. Write all numbers with a decimal point and without thousands separators.`,
      };
    }
  }

  /**
   * @throws DataError, with the line, if nearly all values are numbers but some are not, or the
   *   decimal mark is unclear.
   */
  check(file: string): void {
    const doubt = this.#doubt ?? this.#slip;
    if (doubt === null) return;
    const { place, what } = doubt;
    const field = `${JSON.stringify(place.field)} in column ${JSON.stringify(this.name)}`;
    throw new DataError(`${file}, line ${place.line}: ${field} ${what}`);
  }

  /**
   * The first field that is not a number while nearly all others are, or that has a sign like
   * nearly all others.
   */
  get #slip(): Doubt | null {
    if (this.#sign !== null && this.#signs >= MOSTLY * this.#filled) {
      const others = this.#signs - 1;
      return {
        place: this.#sign,
        what: `has a sign beside its number, like ${others} others. Remove the signs.`,
      };
    }
    const numbers = this.#filled - this.#words;
    if (!this.#isOfWords || numbers < MOSTLY * this.#filled) return null;
    if (this.#word !== null) {
      return { place: this.#word, what: `is not a number, but ${numbers} others are. Correct it, or leave it empty.` };
    }
    const usual = this.#numbers.comma > this.#numbers.point ? 'comma' : 'point';
    const place = this.#strangers[usual];
    const what = `has another decimal mark than the ${this.#numbers[usual]} other numbers. Use the same mark in all of them.`;
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

/** Decides the {@link Column.mark decimal mark} of each column of a file. */
export function settleMarks(columns: readonly Column[], separator: string): void {
  const sure = new Set(columns.flatMap(({ sureMark }) => sureMark ?? []));
  for (const column of columns) column.settleMark(sure, separator);
}
