/** Detects the kinds of a table's columns from all of their values, in one pass. */
import {
  DECIMAL_MARKS,
  type ColumnKind,
  type DataNote,
  type DecimalMark,
  type PreviewColumn,
} from '../../spec/preview.ts';
import { DataError } from '../../util/errors.ts';
import { isMissingValueMarker, mayBeMissingValueCode } from '../../formats/missing.ts';
import {
  parseNumberWithUnit,
  NumberReader,
  parseNumberField,
  numberWithoutUnit,
  type NumberWithUnit,
} from '../../formats/numbers.ts';
import { keyOfUnit, quantitiesOfUnit } from '../../formats/units.ts';
import { firstConfusableNames } from '../../formats/classNames.ts';
import { MAX_DATA_NUMBER } from '../../formats/moments.ts';
import { NumbersOfUnit, problemOfMixedUnits, type ColumnProblem, type TableFieldWithLine } from './columnNumbers.ts';

/** Maximum number of distinct words of a category. Each word is an input of the model. */
export const MAX_CATEGORIES = 100;
/**
 * If at least this share of a column's values are numbers, all other values are regarded as
 * mistakes.
 */
const MOSTLY = 0.9;
/** If a column has more different units than this, they are treated as words. */
const MAX_UNITS = 12;
/**
 * Words in a column are mistakes if it has at most FEW_WORDS different words and more than
 * MANY_NUMBERS different numbers.
 */
const FEW_WORDS = 3;
const MANY_NUMBERS = 20;

/** How the values of a column are read. This is decided after all values are known. */
interface Reading {
  /** The numbers whose units are read. Numbers with other units are words. */
  numbers: readonly NumbersOfUnit[];
  /**
   * `count`: number of fields that are numbers. `fits`: how many of them can be read with each
   * decimal mark.
   */
  count: number;
  fits: Record<DecimalMark, number>;
  strangers: Record<DecimalMark, TableFieldWithLine | null>;
  marked: Record<DecimalMark, TableFieldWithLine | null>;
  /** The first field that is not a number. */
  word: TableFieldWithLine | null;
  /** Whether markers of missing values are treated as words, too. */
  isOfWords: boolean;
}

export class TableColumn {
  readonly name: string;
  readonly #isTarget: boolean;
  #empty = 0;
  /**
   * Number of rows for each text that is a {@link isMissingValueMarker marker} of a missing value.
   */
  readonly #markers = new Map<string, number>();
  /** Number of fields that are neither empty nor markers. */
  #filled = 0;
  /**
   * The numbers of the column, grouped by the keys of their units. Numbers without a unit have an
   * empty key.
   */
  readonly #numbers = new Map<string, NumbersOfUnit>();
  /** The objects of `#numbers`, by each spelling of their unit. */
  readonly #byUnit = new Map<string, NumbersOfUnit>();
  readonly #reader = new NumberReader();
  /** Whether the numbers have too many different units. */
  #hasManyUnits = false;
  /**
   * The first field that is not a number. `#words` has the first few different fields of this kind.
   */
  #word: TableFieldWithLine | null = null;
  readonly #words = new Set<string>();
  #mark: DecimalMark | null = null;
  /** A number whose decimal mark is guessed, because no other number of the file shows it. */
  #guessed: TableFieldWithLine | null = null;
  /**
   * Number of rows for each number that {@link mayBeMissingValueCode may stand for a missing
   * value}.
   */
  readonly #suspects = new Map<string, number>();
  #doubt: ColumnProblem | null = null;
  #reading: Reading | null = null;
  /**
   * Number of rows with each value, except markers. Counting stops when there are too many
   * different values.
   */
  readonly #counts = new Map<string, number>();
  isCounting = true;

  constructor(name: string, isTarget: boolean) {
    this.name = name;
    this.#isTarget = isTarget;
  }

  /**
   * Adds a field.
   *
   * @param times number of rows with this field.
   * @returns the number in the field; `null` if the field is not a number.
   */
  add(field: string, line: number, times = 1): NumberWithUnit | null {
    const value = field.trim();
    if (value === '') {
      this.#empty += times;
      return null;
    }
    const simple = this.#reader.simple(value);
    if (simple === null && isMissingValueMarker(value)) {
      this.#markers.set(value, (this.#markers.get(value) ?? 0) + times);
      return null;
    }
    const amount = simple ?? this.#reader.amount(value);
    const numbers = amount && this.#numbersOf(amount.unit, value, line);
    if (amount !== null && mayBeMissingValueCode(amount.text)) {
      this.#suspects.set(amount.text, (this.#suspects.get(amount.text) ?? 0) + times);
    }
    const found = { field: value, line, times };
    if (numbers !== null && simple !== null) numbers.addSimple(simple.text, found);
    else if (numbers === null || !numbers.add(amount!, found)) this.#addWord(value, line);
    this.#filled += times;
    if (this.isCounting) {
      this.#counts.set(value, (this.#counts.get(value) ?? 0) + times);
      this.isCounting = this.#counts.size <= MAX_CATEGORIES;
    }
    return amount;
  }

  /**
   * Adds a number without its text. Does nothing and returns `false` if the text matters; see
   * {@link NumbersOfUnit.addCounted}. The column must have too many different values to be
   * {@link isCounting counted}.
   */
  addCounted(mark: DecimalMark | null, isGrouped: boolean): boolean {
    if (this.#byUnit.get('')?.addCounted(mark, isGrouped) !== true) return false;
    this.#filled++;
    return true;
  }

  /** Returns whether the column is known to have a value that is not a number with this mark. */
  excludes(mark: DecimalMark): boolean {
    return [...this.#numbers.values()].some(({ strangers }) => strangers[mark] !== null);
  }

  #addWord(field: string, line: number): void {
    this.#word ??= { field, line };
    if (this.#words.size <= FEW_WORDS) this.#words.add(field);
  }

  /**
   * Returns the object that collects the numbers with this unit; `null` if there are too many
   * different units.
   */
  #numbersOf(unit: string, field: string, line: number): NumbersOfUnit | null {
    const known = this.#byUnit.get(unit);
    if (known !== undefined) return known;
    const key = keyOfUnit(unit);
    if (unit !== '' && !this.#numbers.has(key) && this.#numbers.size > MAX_UNITS) {
      this.#hasManyUnits = true;
      return null;
    }
    const numbers = this.#numbers.get(key) ?? new NumbersOfUnit(unit, { field, line });
    this.#numbers.set(key, numbers);
    this.#byUnit.set(unit, numbers);
    return numbers;
  }

  /** Decides which units are read. Use it only after all values were added. */
  get #read(): Reading {
    if (this.#reading !== null) return this.#reading;
    const all = [...this.#numbers.values()].filter(({ count }) => count > 0);
    const withUnit = all.filter(({ unit }) => unit !== '');
    const numbers = this.#isCoherent(withUnit) ? all : all.filter(({ unit }) => unit === '');
    const left = all.filter((one) => !numbers.includes(one));
    const sum = (of: (one: NumbersOfUnit) => number): number => numbers.reduce((total, one) => total + of(one), 0);
    const first = (of: (one: NumbersOfUnit) => TableFieldWithLine | null): TableFieldWithLine | null =>
      earliest(numbers.map(of));
    const fits = { point: sum((one) => one.fits.point), comma: sum((one) => one.fits.comma) };
    this.#reading = {
      numbers,
      count: sum(({ count }) => count),
      fits,
      strangers: { point: first((one) => one.strangers.point), comma: first((one) => one.strangers.comma) },
      marked: { point: first((one) => one.marked.point), comma: first((one) => one.marked.comma) },
      word: earliest([this.#word, ...left.map((one) => one.first)]),
      isOfWords:
        this.#filled === 0
          ? this.#isTarget && this.#markers.size > 0
          : DECIMAL_MARKS.every((mark) => fits[mark] < this.#filled),
    };
    return this.#reading;
  }

  /**
   * Returns whether the texts after numbers are units: either all are equal, or all are units of
   * one quantity, such as kg and lb. For example, the letters of the house numbers 1, 2a and 2b are
   * not units.
   */
  #isCoherent(withUnit: readonly NumbersOfUnit[]): boolean {
    if (this.#hasManyUnits) return false;
    const quantities = withUnit.map(({ unit }) => quantitiesOfUnit(unit));
    const isOfOneQuantity =
      quantities.length > 0 && quantities[0]!.some((one) => quantities.every((others) => others.includes(one)));
    if (isOfOneQuantity || withUnit.length === 0) return true;
    return withUnit.length === 1 && 2 * withUnit[0]!.count >= this.#filled;
  }

  /** The unit of the column's numbers; empty if they have none. */
  get unit(): string {
    return this.kind === 'number' ? (this.#read.numbers.find(({ unit }) => unit !== '')?.unit ?? '') : '';
  }

  /** The texts that stand for a missing value, each with its number of rows. */
  get gaps(): [field: string, rows: number][] {
    const markers = this.#isOfWords ? [] : [...this.#markers];
    return this.#empty === 0 ? markers : [['', this.#empty], ...markers];
  }

  /**
   * Numbers that occur several times and may stand for missing values, each with its number of
   * rows.
   */
  get suspects(): [text: string, rows: number][] {
    return this.kind === 'number' ? [...this.#suspects].filter(([, rows]) => rows > 1) : [];
  }

  get kind(): ColumnKind {
    if (this.#isOfWords) return this.values === null ? 'text' : 'category';
    return this.#filled === 0 ? 'empty' : 'number';
  }

  /**
   * The different values except missing values, each with its number of rows, sorted by code units.
   * `null` if there are too many.
   */
  get values(): [value: string, rows: number][] | null {
    const values = [...this.#counts, ...(this.#isOfWords ? this.#markers : [])];
    if (!this.isCounting || values.length > MAX_CATEGORIES) return null;
    return values.sort(([a], [b]) => (a < b ? -1 : 1));
  }

  /**
   * Whether markers of missing values are treated as words. This is the case if the other values
   * cannot all be read as numbers with the same decimal mark, or if the column is a target that has
   * only markers. An input that has only markers is treated as empty instead. As an empty column,
   * it matches the columns of other tabs, which may have numbers or words.
   */
  get #isOfWords(): boolean {
    return this.#read.isOfWords;
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
    const { strangers } = this.#read;
    if (strangers.comma !== null) return 'point';
    return strangers.point === null ? null : 'comma';
  }

  /**
   * Decides the decimal mark of numbers that can be read with both marks, such as 1.234.
   *
   * @param sure the decimal marks of all columns that have a {@link sureMark}.
   */
  settleMark(sure: ReadonlySet<DecimalMark>, separator: string): void {
    this.#mark = this.sureMark;
    const { point, comma } = this.#read.marked;
    const place = comma ?? point;
    if (this.kind !== 'number' || this.#mark !== null || place === null) return;
    if (sure.size === 1) {
      [this.#mark = null] = sure;
    } else if (sure.size === 0 && (comma === null || (separator === ',' && point === null))) {
      // Most programs write decimal points. If commas separate columns, a comma in a quoted number
      // separates thousands.
      this.#mark = 'point';
      this.#guessed = place;
    } else {
      const why =
        sure.size === 0
          ? 'nothing in the file shows the decimal mark'
          : 'some other columns have decimal points and some have decimal commas';
      const amount = parseNumberWithUnit(place.field)!;
      const both = `${numberWithoutUnit(amount, 'point')} or ${numberWithoutUnit(amount, 'comma')}`;
      this.#doubt = {
        place,
        what: `may be ${both}, because ${why}. Write all numbers with a decimal point and without thousands separators.`,
      };
    }
  }

  /**
   * @param unit how the file's rows are numbered.
   * @throws DataError if most values are numbers but some are not, or if the decimal mark is
   *   unclear. The error names the line.
   */
  check(file: string, unit: 'line' | 'row' = 'line'): void {
    const doubt = this.#doubt ?? this.#slip;
    if (doubt === null) return;
    const { place, what } = doubt;
    const field = `${JSON.stringify(place.field)} in column ${JSON.stringify(this.name)}`;
    throw new DataError(`${file}, ${unit} ${place.line}: ${field} ${what}`);
  }

  /**
   * The first mistake in a column whose values are mostly numbers: a field that is not a number, or
   * has a different decimal mark or unit than the others.
   */
  get #slip(): ColumnProblem | null {
    const { numbers, count, fits, strangers, word } = this.#read;
    const huge = earliest(numbers.map((one) => one.huge));
    if (huge !== null && !this.#isOfWords) {
      return {
        place: huge,
        what: `is too large. Numbers may be at most ${MAX_DATA_NUMBER} in size. Use a larger unit, or leave the field empty.`,
      };
    }
    if (this.#isFewWords || (count > 0 && count >= MOSTLY * this.#filled)) {
      if (word !== null) {
        return {
          place: word,
          what: `is not a number, but ${count} other values of the column are numbers. Correct the value, leave it empty, or remove the line if it is not data.`,
        };
      }
      if (this.#isOfWords) {
        const usual = fits.comma > fits.point ? 'comma' : 'point';
        const place = strangers[usual];
        const what = `has another decimal mark than the ${fits[usual]} other numbers of the column. Use the same decimal mark in all of them.`;
        return place && { place, what };
      }
      return problemOfMixedUnits(numbers);
    }
    return null;
  }

  /**
   * Whether the column has few different words and many different numbers. The number of rows with
   * words does not matter.
   */
  get #isFewWords(): boolean {
    const words = this.#words.size;
    const isMany = !this.isCounting || this.#counts.size - words > MANY_NUMBERS;
    const hasOthers = this.#read.numbers.length < this.#numbers.size;
    return this.#read.count > MANY_NUMBERS && words > 0 && words <= FEW_WORDS && isMany && !hasOthers;
  }

  /** Notes about values of this column that are left out, changed or guessed. */
  get notes(): DataNote[] {
    const { name, kind } = this;
    const { numbers, count, word, strangers } = this.#read;
    const stranger = (word ?? strangers.point)?.field ?? '';
    const note = (noted: DataNote['kind'], rows: number, example: string): DataNote => ({
      kind: noted,
      count: rows,
      name,
      example,
    });
    switch (kind) {
      case 'text':
        return this.#isTarget ? [] : [note('column-of-text', this.#filled, stranger)];
      case 'empty': {
        const [[example] = ['']] = [...this.#markers].sort(([, a], [, b]) => b - a);
        const rows = [...this.#markers.values()].reduce((sum, one) => sum + one, this.#empty);
        return this.#isTarget ? [] : [note('column-empty', rows, example)];
      }
      case 'category': {
        const twins = this.#isTarget ? null : firstConfusableNames(this.values!.map(([value]) => value));
        return [
          ...(count > 0 && 2 * count >= this.#filled
            ? [note('numbers-as-words', count, stranger)]
            : this.#digitsAsWords.map(([value, rows]) => note('digits-as-words', rows, value))),
          ...(twins === null ? [] : [note('words-alike', 2, twins.join(' / '))]),
        ];
      }
      case 'number': {
        const unit = numbers.find((one) => one.unit !== '');
        const plain = numbers.find((one) => one.unit === '');
        const rewritten = numbers.filter((one) => one.firstRewritten !== null);
        return [
          ...(this.#isTarget ? [] : [...this.#markers].map(([field, rows]) => note('marker', rows, field))),
          ...(this.#guessed === null ? [] : [note('mark-guessed', count, equation(this.#guessed.field, this.mark))]),
          ...(unit === undefined ? [] : [note('unit', unit.count, unit.first.field)]),
          ...(unit === undefined || plain === undefined ? [] : [note('unit-missing', plain.count, plain.first.field)]),
          ...rewritten.map((one) => note('notation', one.rewritten, equation(one.firstRewritten!.field, this.mark))),
        ];
      }
      default:
        return kind satisfies never;
    }
  }

  /**
   * The first word with digits and the number of rows with such words, if at least half of the rows
   * have one. Words that begin with letters count only if there are many different values.
   */
  get #digitsAsWords(): [word: string, rows: number][] {
    const values = this.values!;
    const pattern = values.length > MANY_NUMBERS ? /\p{N}/u : /^[^\p{L}]*\p{N}/u;
    const found = values.filter(([value]) => pattern.test(value));
    const rows = found.reduce((sum, [, one]) => sum + one, 0);
    return rows > 0 && 2 * rows >= this.#filled ? [[found[0]![0], rows]] : [];
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

/** Decides the {@link TableColumn.mark decimal mark} of each column of a file. */
export function settleDecimalMarks(columns: readonly TableColumn[], separator: string): void {
  const sure = new Set(columns.flatMap(({ sureMark }) => sureMark ?? []));
  for (const column of columns) column.settleMark(sure, separator);
}

/** Returns a field and the number that is read from it. */
function equation(field: string, mark: DecimalMark | null): string {
  return `${field} = ${parseNumberField(field, mark ?? 'point')}`;
}

function earliest(places: readonly (TableFieldWithLine | null)[]): TableFieldWithLine | null {
  return places.reduce((a, b) => (a === null || (b !== null && b.line < a.line) ? b : a), null);
}
