/** What a table's columns hold: guessed from all of their values, in one pass. */
import type { ColumnKind, PreviewColumn } from '../protocol/preview.ts';
import { DataError } from '../util/errors.ts';
import { isNumber } from './formats/csv.ts';

/** Different words of a column that are still categories: each is an input of its own. */
export const MAX_CATEGORIES = 100;
/** From this share of numbers on, what is none is a mistake. */
const MOSTLY = 0.9;
/** What programs write in place of a number that is missing. In a column of words these are words: a class may be called "none". */
const MARKERS = new Set(['na', 'n/a', '#n/a', '<na>', 'nan', 'null', 'none', '?', '-', '--', '.']);

/** Whether a field stands for a missing number; an empty one is missing in every column. */
export function isMarker(field: string): boolean {
  return MARKERS.has(field.trim().toLowerCase());
}

export class Column {
  readonly name: string;
  readonly #isTarget: boolean;
  #empty = 0;
  /** Rows by {@link isMarker marker}, as it is written. */
  readonly #markers = new Map<string, number>();
  /** Fields that are neither empty nor markers. */
  #filled = 0;
  #numbers = 0;
  /** Rows by value that is no marker, until there are too many. */
  readonly #counts = new Map<string, number>();
  #isCounting = true;
  /** The first that is no number. */
  #word: { field: string; line: number } | null = null;

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
    if (isNumber(value)) this.#numbers++;
    else this.#word ??= { field: value, line };
    if (!this.#isCounting) return;
    this.#counts.set(value, (this.#counts.get(value) ?? 0) + 1);
    this.#isCounting = this.#counts.size <= MAX_CATEGORIES;
  }

  get missing(): number {
    return this.#empty + (this.#isOfWords ? 0 : [...this.#markers.values()].reduce((sum, rows) => sum + rows, 0));
  }

  get kind(): ColumnKind {
    if (this.#isOfWords) return this.values === null ? 'text' : 'category';
    return this.#filled === 0 ? 'empty' : 'number';
  }

  /** Values that are not missing, in the order of their code units, with their rows; `null` where there are too many. */
  get values(): [value: string, rows: number][] | null {
    const values = [...this.#counts, ...(this.#isOfWords ? this.#markers : [])];
    if (!this.#isCounting || values.length > MAX_CATEGORIES) return null;
    return values.sort(([a], [b]) => (a < b ? -1 : 1));
  }

  /**
   * Whether markers are words: beside other words, and in a target that has nothing else. A feature that has nothing else is of no
   * use, and fits other tabs' numbers and words alike.
   */
  get #isOfWords(): boolean {
    return this.#filled === 0 ? this.#isTarget && this.#markers.size > 0 : this.#numbers < this.#filled;
  }

  /** @throws DataError, with the line, where nearly all is numbers. */
  check(file: string): void {
    const { field, line } = this.#word ?? { field: '', line: 0 };
    if (line === 0 || this.#numbers < MOSTLY * this.#filled) return;
    throw new DataError(
      `${file}, line ${line}: ${JSON.stringify(field)} in column ${JSON.stringify(this.name)} is not a number, and ${this.#numbers} ` +
        'others are. Correct it, or leave it empty.',
    );
  }

  get preview(): PreviewColumn {
    return {
      name: this.name,
      kind: this.kind,
      missing: this.missing,
      distinct: this.values?.length ?? null,
    };
  }
}
