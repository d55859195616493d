/** What a table's columns hold: guessed from all of their values, in one pass. */
import type { ColumnKind, PreviewColumn } from '../protocol/preview.ts';
import { DataError } from '../util/errors.ts';
import { isNumber } from './formats/csv.ts';

/** Different words of a column that are still categories: each is an input of its own. */
export const MAX_CATEGORIES = 100;
/** From this share of numbers on, what is none is a mistake. */
const MOSTLY = 0.9;
/** What programs write where they have nothing. */
const MISSING = new Set(['', 'na', 'n/a', 'nan', 'null', 'none', '?', '-']);

export function isMissing(field: string): boolean {
  return MISSING.has(field.trim().toLowerCase());
}

export class Column {
  readonly name: string;
  #filled = 0;
  #missing = 0;
  #numbers = 0;
  /** Rows by value, until there are too many. */
  readonly #counts = new Map<string, number>();
  #isCounting = true;
  /** The first that is no number. */
  #word: { field: string; line: number } | null = null;

  constructor(name: string) {
    this.name = name;
  }

  add(field: string, line: number): void {
    if (isMissing(field)) {
      this.#missing++;
      return;
    }
    this.#filled++;
    const value = field.trim();
    if (isNumber(value)) this.#numbers++;
    else this.#word ??= { field: value, line };
    if (!this.#isCounting) return;
    this.#counts.set(value, (this.#counts.get(value) ?? 0) + 1);
    this.#isCounting = this.#counts.size <= MAX_CATEGORIES;
  }

  get missing(): number {
    return this.#missing;
  }

  get kind(): ColumnKind {
    if (this.#filled === 0) return 'empty';
    if (this.#numbers === this.#filled) return 'number';
    return this.#isCounting ? 'category' : 'text';
  }

  /** Values that are not missing, in the order of their code units, with their rows; `null` where there are too many. */
  get values(): [value: string, rows: number][] | null {
    return this.#isCounting ? [...this.#counts].sort(([a], [b]) => (a < b ? -1 : 1)) : null;
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
      missing: this.#missing,
      distinct: this.#isCounting ? this.#counts.size : null,
    };
  }
}
