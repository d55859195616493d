/**
 * The values of a table's rows, in as few bytes as they need. Rows are stored in blocks. In each
 * block, a column has the smallest type that holds its values exactly. Blocks beyond a budget are
 * kept in a `Blob`, which browsers may move to the disk.
 *
 * A cell is a number or a code. Codes stand for texts, such as the words of a category.
 */
import { DECIMAL_MARKS, type DecimalMark } from '../../spec/preview.ts';
import { systemClock, EventLoopYielder } from '../../util/clock.ts';
import { PartialFile } from '../../formats/partialFile.ts';
import { maxKeptSampleBytes } from '../sampleMemory.ts';

export const TABLE_BLOCK_ROWS = 4096;
/** Longest time without a yield, ms. */
const STRETCH_MS = 50;
/** Numbers with at most this number of decimals may be stored as integers. */
const MAX_DECIMALS = 9;
const MAX_INT = 2 ** 31 - 1;

/** The code of cells with a number. */
export const NUMBER_CELL_CODE = 0;

const [INT8, INT16, INT32, FLOAT32, FLOAT64] = [0, 1, 2, 3, 4];
const BYTES = [1, 2, 4, 4, 8];

/** Where a block has the numbers of a column: number = stored value / scale. */
interface Numbers {
  type: number;
  scale: number;
  /** Position in the row. */
  at: number;
}

interface Layout {
  /** Position of the code in the row, and its bytes. Without bytes, all cells are numbers. */
  codeAt: number;
  codeBytes: number;
  /**
   * Numbers, as they are read with each decimal mark; `null` if no number can be read with this
   * mark, or if all numbers are the same with the other mark.
   */
  numbers: Record<DecimalMark, Numbers | null>;
}

interface Block {
  rows: number;
  /** Bytes per row. */
  stride: number;
  columns: readonly Layout[];
  /** `null` if the block is not in memory. */
  view: DataView | null;
  /** Position of the block in the file of blocks that are not in memory. */
  at: number;
}

/** The cells of one column in the block that is being filled. */
export class ColumnCells {
  readonly codes = new Uint16Array(TABLE_BLOCK_ROWS);
  /**
   * Numbers, as they are read with each decimal mark; NaN if they cannot be read with this mark.
   */
  readonly point = new Float64Array(TABLE_BLOCK_ROWS);
  readonly comma = new Float64Array(TABLE_BLOCK_ROWS);
}

/** One row. For each column, a code, and if it is {@link NUMBER_CELL_CODE}, a number. */
export interface PackedRow {
  codes: Uint16Array;
  numbers: Float64Array;
}

export class PackedRows {
  /** The cells of the next block. They are written at the index {@link next}. */
  readonly cells: readonly ColumnCells[];
  next = 0;
  readonly #name: string;
  readonly #most: number;
  readonly #blocks: Block[] = [];
  #bytes = 0;
  readonly #spilled: Blob[] = [];
  #spilledBytes = 0;
  #file: PartialFile | null = null;
  #marks: readonly DecimalMark[] = [];
  readonly #row: PackedRow;

  /** @param most maximum number of bytes of blocks in memory. */
  constructor(name: string, columns: number, most = maxKeptSampleBytes()) {
    this.#name = name;
    this.#most = most;
    this.cells = Array.from({ length: columns }, () => new ColumnCells());
    this.#row = { codes: new Uint16Array(columns), numbers: new Float64Array(columns) };
  }

  /**
   * Ends the row at {@link next}.
   *
   * @param excludes returns whether a column is known not to have this decimal mark.
   */
  endRow(excludes: (column: number, mark: DecimalMark) => boolean): void {
    this.next++;
    if (this.next === TABLE_BLOCK_ROWS) this.#pack(excludes);
  }

  /** Ends the last row. From now on, rows can be read. */
  end(excludes: (column: number, mark: DecimalMark) => boolean, marks: readonly DecimalMark[]): void {
    if (this.next > 0) this.#pack(excludes);
    this.#marks = marks;
    if (this.#spilledBytes > 0) this.#file = new PartialFile(this.#name, new Blob(this.#spilled));
  }

  #pack(excludes: (column: number, mark: DecimalMark) => boolean): void {
    const rows = this.next;
    this.next = 0;
    let stride = 0;
    const place = (bytes: number): number => (stride += bytes) - bytes;
    const columns = this.cells.map(({ codes, point, comma }, i): Layout => {
      const most = codes.subarray(0, rows).reduce((a, b) => Math.max(a, b), 0);
      const codeBytes = most === 0 ? 0 : most < 256 ? 1 : 2;
      const isUsed = codes.subarray(0, rows).includes(NUMBER_CELL_CODE);
      const numbers = (mark: DecimalMark, values: Float64Array): Numbers | null => {
        if (!isUsed || excludes(i, mark)) return null;
        const packed = typeOf(values, codes, rows);
        return { ...packed, at: place(BYTES[packed.type]!) };
      };
      const isSame = !excludes(i, 'point') && point.every((value, row) => row >= rows || value === comma[row]);
      return {
        codeBytes,
        codeAt: place(codeBytes),
        numbers: { point: numbers('point', point), comma: isSame ? null : numbers('comma', comma) },
      };
    });
    const view = new DataView(new ArrayBuffer(stride * rows));
    for (const [i, { codeAt, codeBytes, numbers }] of columns.entries()) {
      const cells = this.cells[i]!;
      for (let row = 0; row < rows; row++) {
        if (codeBytes === 1) view.setUint8(row * stride + codeAt, cells.codes[row]!);
        else if (codeBytes === 2) view.setUint16(row * stride + codeAt, cells.codes[row]!);
      }
      for (const mark of DECIMAL_MARKS) {
        if (numbers[mark] !== null) write(view, stride, numbers[mark], cells[mark], rows);
      }
    }
    const isKept = this.#bytes + view.byteLength <= this.#most;
    this.#blocks.push({ rows, stride, columns, view: isKept ? view : null, at: this.#spilledBytes });
    if (isKept) {
      this.#bytes += view.byteLength;
      return;
    }
    this.#spilled.push(new Blob([view]));
    this.#spilledBytes += view.byteLength;
  }

  /**
   * Calls `visit` with rows, in the given order. Returns a promise if rows are not in memory.
   *
   * @param visit receives the index in `rows`, and the row, which is valid until `visit` returns.
   */
  read(rows: ArrayLike<number>, visit: (i: number, row: PackedRow) => void): void | Promise<void> {
    for (let i = 0; i < rows.length; i++) {
      const { view } = this.#blockOf(rows[i]!);
      if (view === null) return this.#readLater(rows, i, visit);
      this.#visit(rows[i]!, view, i, visit);
    }
  }

  async #readLater(rows: ArrayLike<number>, first: number, visit: (i: number, row: PackedRow) => void): Promise<void> {
    const later = Array.from({ length: rows.length - first }, (_, i) => rows[first + i]!);
    const views = await Promise.all(
      later.map(async (row) => {
        const { view, at, stride } = this.#blockOf(row);
        if (view !== null) return view;
        const from = at + (row % TABLE_BLOCK_ROWS) * stride;
        return viewOf(await this.#file!.read(from, from + stride));
      }),
    );
    for (const [i, view] of views.entries()) this.#visit(later[i]!, view, first + i, visit);
  }

  /** Calls `visit` with rows, which are sorted. */
  async scan(rows: Uint32Array, visit: (row: PackedRow) => void): Promise<void> {
    let next = 0;
    for await (const { block, view, first } of this.#views()) {
      const end = first + block.rows;
      for (; next < rows.length && rows[next]! < end; next++) {
        this.#decode(block, view, (rows[next]! - first) * block.stride);
        visit(this.#row);
      }
    }
  }

  /** Calls `visit` with the code of a column in each row. */
  async scanCodes(column: number, visit: (code: number) => void): Promise<void> {
    for await (const { block, view } of this.#views()) {
      const layout = block.columns[column]!;
      for (let row = 0; row < block.rows; row++) visit(readCode(view, row * block.stride, layout));
    }
  }

  /** Yields the blocks in order. `first` is the first row of a block. */
  async *#views(): AsyncGenerator<{ block: Block; view: DataView; first: number }> {
    const yielder = new EventLoopYielder(systemClock, STRETCH_MS);
    for (const [i, block] of this.#blocks.entries()) {
      const { at, stride, rows } = block;
      yield {
        block,
        view: block.view ?? viewOf(await this.#file!.read(at, at + stride * rows)),
        first: i * TABLE_BLOCK_ROWS,
      };
      await yielder.yieldIfDue();
    }
  }

  #blockOf(row: number): Block {
    return this.#blocks[Math.floor(row / TABLE_BLOCK_ROWS)]!;
  }

  /** @param view the row's block, or the row alone. */
  #visit(row: number, view: DataView, i: number, visit: (i: number, row: PackedRow) => void): void {
    const block = this.#blockOf(row);
    this.#decode(block, view, view.byteLength === block.stride ? 0 : (row % TABLE_BLOCK_ROWS) * block.stride);
    visit(i, this.#row);
  }

  #decode({ columns }: Block, view: DataView, at: number): void {
    const { codes, numbers: out } = this.#row;
    for (let i = 0; i < columns.length; i++) {
      const { numbers } = columns[i]!;
      codes[i] = readCode(view, at, columns[i]!);
      if (codes[i] !== NUMBER_CELL_CODE) continue;
      const other = this.#marks[i] === 'comma' ? 'point' : 'comma';
      const read = numbers[this.#marks[i]!] ?? numbers[other];
      out[i] = read === null ? NaN : numberAt(view, at + read.at, read);
    }
  }
}

/** @param row position of the row. */
function readCode(view: DataView, row: number, { codeAt: at, codeBytes }: Layout): number {
  if (codeBytes === 0) return NUMBER_CELL_CODE;
  return codeBytes === 1 ? view.getUint8(row + at) : view.getUint16(row + at);
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array<ArrayBuffer>): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}

/** Returns the smallest type that holds the numbers exactly. */
function typeOf(values: Float64Array, codes: Uint16Array, rows: number): { type: number; scale: number } {
  let [decimals, scale, most, row] = [0, 1, 0, 0];
  for (; row < rows; row++) {
    const value = values[row]!;
    if (codes[row] !== NUMBER_CELL_CODE) continue;
    let whole = Math.round(value * scale);
    // For a decimal number, the quotient and `value` are the same float: the nearest to that
    // number.
    while (whole / scale !== value && decimals < MAX_DECIMALS) {
      scale = 10 ** ++decimals;
      whole = Math.round(value * scale);
    }
    if (whole / scale !== value || Object.is(value, -0)) break;
    most = Math.max(most, Math.abs(value));
  }
  most = Math.round(most * scale);
  if (row === rows && most <= MAX_INT) return { type: most < 2 ** 7 ? INT8 : most < 2 ** 15 ? INT16 : INT32, scale };
  const isShort = values.every(
    (value, i) => i >= rows || codes[i] !== NUMBER_CELL_CODE || Object.is(Math.fround(value), value),
  );
  return { type: isShort ? FLOAT32 : FLOAT64, scale: 1 };
}

/** Writes a column's numbers. A cell with a code has a number here, too, which is never read. */
function write(view: DataView, stride: number, { type, scale, at }: Numbers, values: Float64Array, rows: number): void {
  for (let row = 0; row < rows; row++) {
    const place = row * stride + at;
    const value = values[row]!;
    if (type === INT8) view.setInt8(place, Math.round(value * scale));
    else if (type === INT16) view.setInt16(place, Math.round(value * scale));
    else if (type === INT32) view.setInt32(place, Math.round(value * scale));
    else if (type === FLOAT32) view.setFloat32(place, value);
    else view.setFloat64(place, value);
  }
}

function numberAt(view: DataView, at: number, { type, scale }: Numbers): number {
  if (type === INT8) return view.getInt8(at) / scale;
  if (type === INT16) return view.getInt16(at) / scale;
  if (type === INT32) return view.getInt32(at) / scale;
  return type === FLOAT32 ? view.getFloat32(at) : view.getFloat64(at);
}
