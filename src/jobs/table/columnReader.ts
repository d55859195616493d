/**
 * Reads the fields of a column, once: it counts them for the column's kind, and writes them as
 * cells. Fields of columns with few different values are found by their bytes. In other columns,
 * the usual numbers are read from their bytes. Only the remaining fields become strings.
 */
import { numberWithoutUnit } from '../../formats/numbers.ts';
import { csvFieldOfValue } from '../../formats/parquet.ts';
import { asciiTextOf, type CsvRecords } from '../../formats/csvRecords.ts';
import type { DecimalMark } from '../../spec/preview.ts';
import type { TableColumn } from './columns.ts';
import { NUMBER_CELL_CODE, type ColumnCells } from './packedRows.ts';

/** The code of a text that is not kept, because the column has too many different texts. */
const UNKEPT = 1;
const MAX_CODES = 2 ** 16;
/** Number of slots for fields that are found by their bytes. At most half of them are used. */
const SLOTS = 1024;
/**
 * An integer with at most this number of digits is exact as a float64, and so is a power of ten
 * with at most {@link POWERS} zeros. The quotient of both is therefore the float64 that is nearest
 * to a decimal number.
 */
const EXACT_DIGITS = 15;
/** A number with more characters is read from its text. */
const MAX_LENGTH = 30;
/**
 * A larger number with an exponent is also read from its text, because it may be a program's code
 * for missing values.
 */
const MAX_EXPONENTIAL = 1e36;
const POWERS = Float64Array.from({ length: EXACT_DIGITS + 1 }, (_, i) => 10 ** i);
const [SPACE, PLUS, COMMA, MINUS, POINT, UPPER_E, LOWER_E] = [0x20, 0x2b, 0x2c, 0x2d, 0x2e, 0x45, 0x65];
const [ZERO, TWO, THREE, NINE] = [0x30, 0x32, 0x33, 0x39];

/** A field that is found by its bytes. */
interface Slot {
  bytes: Uint8Array;
  code: number;
}

export class ColumnReader {
  readonly column: TableColumn;
  /**
   * For each code, the trimmed text; `null` if the code stands for numbers or for several texts.
   */
  readonly texts: (string | null)[] = [null, null];
  readonly #cells: ColumnCells;
  readonly #codes = new Map<string, number>();
  readonly #slots: (Slot | undefined)[] = Array.from({ length: SLOTS });
  #used = 0;
  readonly #codesOfNumbers = new Map<number, number>();
  /** For each code, the first line, and the number of rows that the column has not counted yet. */
  readonly #lines: number[] = [];
  readonly #uncounted: number[] = [];

  constructor(column: TableColumn, cells: ColumnCells) {
    this.column = column;
    this.#cells = cells;
  }

  /** Reads field `i` of a record, and writes the cell `at`. */
  read(record: CsvRecords, i: number, at: number): void {
    if (!record.isVerbatim(i)) return this.readText(record.field(i), record.line, at);
    const { bytes } = record;
    const [from, to] = [record.starts[i]!, record.ends[i]!];
    if (!this.column.isCounting) {
      if (!this.#readNumber(bytes, from, to, at)) this.readText(record.field(i), record.line, at);
      return;
    }
    let hash = 0;
    for (let k = from; k < to; k++) hash = Math.imul(hash, 31) + bytes[k]!;
    let place = (hash ^ (hash >>> 15)) & (SLOTS - 1);
    for (let slot = this.#slots[place]; slot !== undefined; slot = this.#slots[place]) {
      if (isEqual(slot.bytes, bytes, from, to)) {
        this.#cells.codes[at] = slot.code;
        this.#uncounted[slot.code]!++;
        return;
      }
      place = (place + 1) & (SLOTS - 1);
    }
    this.readText(record.field(i), record.line, at);
    const code = this.#cells.codes[at]!;
    if (code === NUMBER_CELL_CODE || this.#used >= SLOTS / 2) return;
    this.#used++;
    this.#slots[place] = { bytes: bytes.slice(from, to), code };
  }

  /** Reads a value of a file whose format has types. */
  readValue(value: unknown, line: number, at: number): void {
    if (typeof value !== 'number' || !Number.isFinite(value)) return this.readText(csvFieldOfValue(value), line, at);
    const { codes, point, comma } = this.#cells;
    if (!this.column.isCounting) {
      const isInteger = Number.isInteger(value);
      // As in CSV, numbers that may stand for missing values are counted by their text.
      const isUsual = Math.abs(value) < MAX_EXPONENTIAL && !(isInteger && Math.abs(value % 10) >= 7);
      if (isUsual && this.column.addCounted(isInteger ? null : 'point', false)) {
        codes[at] = NUMBER_CELL_CODE;
        point[at] = value;
        comma[at] = isInteger ? value : NaN;
        return;
      }
    }
    const known = this.#codesOfNumbers.get(value);
    if (this.column.isCounting && known !== undefined) {
      codes[at] = known;
      this.#uncounted[known]!++;
      return;
    }
    this.readText(csvFieldOfValue(value), line, at);
    if (codes[at] !== NUMBER_CELL_CODE) this.#codesOfNumbers.set(value, codes[at]!);
  }

  readText(field: string, line: number, at: number): void {
    const { codes, point, comma } = this.#cells;
    const wasCounting = this.column.isCounting;
    const amount = this.column.add(field, line);
    if (!this.column.isCounting) {
      if (wasCounting) this.count();
      point[at] = (amount && numberWithoutUnit(amount, 'point')) ?? NaN;
      comma[at] = (amount && numberWithoutUnit(amount, 'comma')) ?? NaN;
      codes[at] = NUMBER_CELL_CODE;
      if (!Number.isNaN(point[at]) || !Number.isNaN(comma[at])) return;
    }
    codes[at] = this.#codeOf(field.trim(), line);
  }

  /**
   * Returns the code of a text. A column of words has the same codes for words before and after the
   * decision that it has too many of them.
   */
  #codeOf(text: string, line: number): number {
    const known = this.#codes.get(text);
    if (known !== undefined) return known;
    if (this.texts.length === MAX_CODES) return UNKEPT;
    const code = this.texts.push(text) - 1;
    this.#codes.set(text, code);
    this.#lines[code] = line;
    this.#uncounted[code] = 0;
    return code;
  }

  /** Lets the column count the fields that were found by their bytes. */
  count(): void {
    for (const [code, times] of this.#uncounted.entries()) {
      if (times > 0) this.column.add(this.texts[code]!, this.#lines[code]!, times);
      this.#uncounted[code] = 0;
    }
  }

  /**
   * Reads the usual notations of numbers, such as -12.5, 3,25 and 1.5e-7. Returns `false` if the
   * field is something else, or if the column needs its text. In this case, nothing has changed.
   */
  #readNumber(bytes: Uint8Array, start: number, end: number, at: number): boolean {
    let [from, to] = [start, end];
    while (from < to && bytes[from] === SPACE) from++;
    while (from < to && bytes[to - 1] === SPACE) to--;
    if (to - from > MAX_LENGTH) return false;
    const isNegative = bytes[from] === MINUS;
    let k = isNegative ? from + 1 : from;
    const first = k;
    let [digits, mantissa, markAt] = [0, 0, -1];
    let mark: DecimalMark | null = null;
    for (; k < to; k++) {
      const byte = bytes[k]!;
      if (byte >= ZERO && byte <= NINE) {
        mantissa = 10 * mantissa + (byte - ZERO);
        digits++;
      } else if ((byte === POINT || byte === COMMA) && mark === null && digits > 0) {
        mark = byte === POINT ? 'point' : 'comma';
        markAt = k;
      } else break;
    }
    const lead = bytes[first]!;
    // There must be digits before and after the mark, and no needless zero in front.
    if (digits === 0 || k - 1 === markAt || (lead === ZERO && digits > 1 && markAt !== first + 1)) return false;
    const decimals = mark === null ? 0 : k - 1 - markAt;
    const isGrouped = decimals === 3 && markAt - first <= 3 && lead !== ZERO;
    let value: number;
    if (k === to && digits <= EXACT_DIGITS) {
      value = mantissa / POWERS[decimals]!;
    } else {
      if ((k < to && !isExponent(bytes, k, to)) || mark === 'comma' || isGrouped) return false;
      value = Math.abs(Number(asciiTextOf(bytes, from, to)));
      if (value > MAX_EXPONENTIAL || (digits > EXACT_DIGITS && Number.isInteger(value))) return false;
    }
    // Numbers that may stand for missing values, such as 999, begin and end with these digits.
    const isLead = lead === NINE || lead === THREE || lead === TWO;
    if (isLead && Number.isInteger(value) && value % 10 >= 7) return false;
    if (!this.column.addCounted(mark, isGrouped)) return false;
    const signed = isNegative ? -value : value;
    const other = mark === null ? signed : isGrouped ? (isNegative ? -mantissa : mantissa) : NaN;
    const { codes, point, comma } = this.#cells;
    codes[at] = NUMBER_CELL_CODE;
    point[at] = mark === 'comma' ? other : signed;
    comma[at] = mark === 'comma' ? signed : other;
    return true;
  }
}

function isEqual(slot: Uint8Array, bytes: Uint8Array, from: number, to: number): boolean {
  if (slot.length !== to - from) return false;
  for (let k = 0; k < slot.length; k++) if (slot[k] !== bytes[from + k]) return false;
  return true;
}

/** Returns whether the bytes are an exponent, such as e-07. */
function isExponent(bytes: Uint8Array, from: number, to: number): boolean {
  if (bytes[from] !== LOWER_E && bytes[from] !== UPPER_E) return false;
  const first = bytes[from + 1] === PLUS || bytes[from + 1] === MINUS ? from + 2 : from + 1;
  if (first === to) return false;
  for (let k = first; k < to; k++) if (bytes[k]! < ZERO || bytes[k]! > NINE) return false;
  return true;
}
