/**
 * Reader for CSV files of any size. A first pass finds where each record begins. Then, any row can
 * be read by its index. A record ends at a line end outside quotes. Papa Parse splits a record with
 * quotes into its fields.
 *
 * Source: RFC 4180, and the variants that spreadsheets write: other separators, a byte order mark,
 * any line ends.
 */
import Papa from 'papaparse';
import { DataError } from '../util/errors.ts';
import { hexOf } from '../util/hex.ts';
import { canonical } from './classNames.ts';
import { isHeader } from './csvHeader.ts';
import { BOM, columnsOf, fits, shapeOf, startOf, type Format, type Start } from './csvShape.ts';
import { isNumber } from './numbers.ts';
import { PartialFile } from './partialFile.ts';

/** Number of bytes that are read at a time. */
const CHUNK_BYTES = 1024 * 1024;
/**
 * Maximum length of a record. A longer record is usually the result of a quote that was never
 * closed.
 */
const MAX_RECORD_BYTES = 1024 * 1024;
/** Number of lines used to detect the separator. */
const GUESS_LINES = 20;
/** To detect a header, the first line is compared with this number of lines below it. */
const HEADER_LINES = 1000;
const SEPARATORS = [',', ';', '\t', '|'];
const [LF, CR, QUOTE] = [0x0a, 0x0d, 0x22];

/**
 * Files that are not CSV, but that users may choose instead. For each format: the first bytes of
 * its files, with one character per byte; then the name of the format, and advice.
 */
const OTHERS: readonly (readonly [start: RegExp | string, advice: string])[] = [
  ['PK\x03\x04', 'a zip file or an Excel workbook. Export the sheet as CSV'],
  ['\xd0\xcf\x11\xe0', 'an old Excel workbook. Export the sheet as CSV'],
  [/^\xff\xfe|^\xfe\xff/, 'UTF-16 text. Save it as UTF-8'],
  ['\x1f\x8b', 'a gzip file. Unpack it'],
  [/^%PDF-/, 'a PDF document. Export its table as CSV'],
  [/^(\xef\xbb\xbf)?\s*<(!doctype|html|\?xml|table)/i, 'a web page or XML. Export its table as CSV'],
  [/^(\xef\xbb\xbf)?\s*(\[\s*)*\{\s*"/, 'JSON. Convert it to CSV'],
  [/^(\x89PNG|\xff\xd8\xff|GIF8)/, 'a picture. Choose the job images'],
  [/^PAR1/, 'a Parquet file. Convert it to CSV'],
  [/^ARROW1|^FEA1/, 'a Feather or Arrow file. Convert it to CSV'],
  [/^SQLite format 3/, 'a SQLite database. Export its table as CSV'],
  [/^\$FL[23]@/, 'a file of SPSS. Export it as CSV'],
  [/^<stata_dta>/, 'a file of Stata. Export it as CSV'],
  [/^\x89HDF/, 'an HDF5 file. Convert its table to CSV'],
  [/^@relation\s/i, 'an ARFF file of Weka. Convert it to CSV'],
];
/** Number of bytes at the start of a file that are compared with {@link OTHERS}. */
const START_BYTES = 64;
/** An error about a file that is not CSV shows this number of its first bytes. */
const SHOWN_BYTES = 4;

/**
 * A function that receives one row.
 *
 * @param line number of the line, from 1, at which the record begins.
 * @param offset position of the record's first byte in the file.
 */
type Visit = (fields: readonly string[], row: number, line: number, offset: number) => void;
/**
 * Receives the number of bytes read so far. It is not called for files of at most
 * {@link CHUNK_BYTES}.
 */
type OnBytes = (bytes: number) => void;

interface CsvRecord {
  fields: string[];
  /** Number of the line at which the record begins, and position of its first byte in the file. */
  line: number;
  offset: number;
}

export class CsvFile {
  readonly name: string;
  /** Names from the first line. If it is not a header, the names are "column 1", "column 2", ... */
  readonly columns: readonly string[];
  readonly hasHeader: boolean;
  /** If each row begins with its name, for which there is no column: the name of the first row. */
  rowName: string | null = null;
  readonly #format: Format;
  readonly #file: PartialFile;
  /** Offset of each row in the file, followed by the end of the last row. */
  #offsets: Float64Array<ArrayBuffer> = new Float64Array(1024);
  #rows = 0;

  private constructor(file: PartialFile, format: Format, columns: readonly string[], hasHeader: boolean) {
    this.name = file.name;
    this.columns = columns;
    this.#file = file;
    this.#format = format;
    this.hasHeader = hasHeader;
  }

  /**
   * Reads the column names, then all rows.
   *
   * @param begin is called with the column names before the first row. It returns the function that
   *   receives the rows.
   * @param onbytes receives the progress of reading all rows.
   * @throws (rejects) DataError if the file is not CSV, records have different numbers of fields,
   *   or a quote is not closed. Errors of the function that receives the rows are passed on.
   */
  static async open(
    name: string,
    blob: Blob,
    begin: (columns: readonly string[]) => Visit,
    onbytes?: OnBytes,
  ): Promise<CsvFile> {
    const file = new PartialFile(name, blob);
    const head = await file.read(0, CHUNK_BYTES);
    const beginning = String.fromCharCode(...head.subarray(0, START_BYTES));
    const other = OTHERS.find(([start]) =>
      typeof start === 'string' ? beginning.startsWith(start) : start.test(beginning),
    );
    if (other !== undefined) {
      const bytes = hexOf(head.subarray(0, SHOWN_BYTES), ' ');
      throw new DataError(`${name} is not CSV: it starts with ${bytes} at byte 0, like ${other[1]}.`);
    }
    const start = startOf(head);
    const { separator, records } = guess(name, head, head.length === file.size, start);
    const first = records[0] ?? (await firstRecord(file, separator, start));
    const rows = records.slice(1, 1 + HEADER_LINES);
    const below = rows.map(({ fields }) => fields);
    const isQuoted = rows.every(({ offset }) => head[offset] === QUOTE);
    const shape = shapeOf(first.fields, below, isQuoted);
    const named = { ...first, fields: first.fields.slice(0, shape.columns) };
    const hasHeader =
      shape.isNamed ||
      isHeader(
        named.fields,
        below.map((fields) => columnsOf(fields, shape)),
      );
    const csv = new CsvFile(file, { start, separator, shape }, namesOf(name, named, hasHeader), hasHeader);
    const visit = begin(csv.columns);
    await csv.scan((fields, row, line, offset) => {
      csv.#keep(row, offset);
      visit(fields, row, line, offset);
    }, onbytes);
    csv.#keep(csv.#rows, file.size);
    return csv;
  }

  get separator(): string {
    return this.#format.separator;
  }

  /** Number of data rows. */
  get rows(): number {
    return this.#rows;
  }

  /** Returns the fields of one row. */
  async row(index: number): Promise<string[]> {
    const bytes = await this.#file.read(this.#offsets[index]!, this.#offsets[index + 1]!);
    let end = bytes.length;
    while (end > 0 && (bytes[end - 1] === LF || bytes[end - 1] === CR)) end--;
    const { fields } = fieldsOf(new TextDecoder().decode(bytes.subarray(0, end)), this.separator);
    return columnsOf(fields, this.#format.shape);
  }

  /** Reads all rows in order, and calls `visit` with each. */
  async scan(visit: Visit, onbytes?: OnBytes): Promise<void> {
    let row = this.hasHeader ? -1 : 0;
    const { separator, start, shape } = this.#format;
    const { columns, rowNames } = shape;
    for await (const records of recordsOf(this.#file, separator, start, onbytes)) {
      for (const { fields: all, line, offset } of records) {
        const isFirst = this.hasHeader && row < 0;
        const fields = isFirst ? all.slice(0, columns) : columnsOf(all, shape);
        if (isFirst ? all.length < columns : !fits(all, shape)) {
          const found = all.length === 1 ? '1 field' : `${all.length} fields`;
          const isAbove = row === (this.hasHeader ? 0 : 1) || columns === 1;
          const advice = isAbove
            ? 'If the lines above are neither a header nor data, remove them. Otherwise correct this line.'
            : 'Correct the line, or remove it if it is not data.';
          throw new DataError(
            `${this.name}, line ${line}: ${found}, but line 1 has ${this.columns.length}. ${advice} A field that contains the separator, ` +
              'such as a number with a decimal comma, must be in double quotes without spaces around them.',
          );
        }
        if (row === 0 && rowNames) this.rowName = all[0]!;
        if (row >= 0) visit(fields, row, line, offset);
        row++;
      }
    }
    this.#rows = Math.max(0, row);
  }

  #keep(row: number, offset: number): void {
    if (row === this.#offsets.length) {
      const longer = new Float64Array(2 * row);
      longer.set(this.#offsets);
      this.#offsets = longer;
    }
    this.#offsets[row] = offset;
    this.#rows = row;
  }
}

function namesOf(name: string, { fields, line }: CsvRecord, hasHeader: boolean): string[] {
  const names = fields.map((field, i) => (hasHeader && field.trim() !== '' ? field.trim() : `column ${i + 1}`));
  const twice = names.find((one, i) => names.indexOf(one) !== i);
  if (twice !== undefined) {
    throw new DataError(
      `${name}, line ${line}: two columns are named ${JSON.stringify(twice)}. Rename one of them. If line ${line} is data, add a line with column names above it.`,
    );
  }
  return names;
}

interface Guess {
  separator: string;
  /** The complete records in the first bytes of the file. */
  records: CsvRecord[];
}

/**
 * Detects the separator by three criteria. First: the share of records that have as many fields as
 * the first record. Second: whether all quotes are well-formed. Third: the share of fields that are
 * numbers; without it, a file with decimal commas might be split at its commas. A criterion is used
 * only if several separators are equal by the criteria before it.
 *
 * @param head the file's first bytes.
 */
function guess(name: string, whole: Uint8Array, isWhole: boolean, start: Start): Guess {
  const head = whole.subarray(start.offset);
  const told = start.separator;
  if (told !== null) return { separator: told, records: recordsIn(name, head, told, isWhole, start).records };
  const beginning = new TextDecoder().decode(head).split(/[\r\n]+/, GUESS_LINES);
  const found = SEPARATORS.filter((separator) => beginning.some((line) => line.includes(separator))).map(
    (separator) => {
      const { records, isSound } = recordsIn(name, head, separator, isWhole, start);
      const lines = records.slice(0, GUESS_LINES).map(({ fields }) => fields);
      const fields = lines.flat();
      // The first line may have one field less or more than other lines; see `Shape`.
      const usual = (lines[1] ?? lines[0])?.length ?? 0;
      const isOff = Math.abs((lines[0]?.length ?? 0) - usual) === 1;
      const same = (as: number): number => lines.filter(({ length }) => length > 1 && length === as).length;
      const alike = Math.max(same(lines[0]?.length ?? 0), isOff && usual > 1 ? same(usual) : 0);
      const numbers = fields.filter(isNumber).length;
      const score = [alike / Math.max(1, lines.length), Number(isSound), numbers / Math.max(1, fields.length)];
      return { separator, records, score };
    },
  );
  // Array.sort is stable, so the first of several equal candidates is chosen.
  const [best] = found.sort((a, b) => {
    const at = a.score.findIndex((one, i) => one !== b.score[i]);
    return at === -1 ? 0 : b.score[at]! - a.score[at]!;
  });
  return best ?? { separator: SEPARATORS[0]!, records: recordsIn(name, head, SEPARATORS[0]!, isWhole, start).records };
}

/** Returns the records in a file's first bytes, up to the first record with malformed quotes. */
function recordsIn(
  name: string,
  head: Uint8Array,
  separator: string,
  isWhole: boolean,
  start: Start,
): { records: CsvRecord[]; isSound: boolean } {
  const records: CsvRecord[] = [];
  try {
    new Splitter(name, separator, start).add(head, isWhole, records);
    return { records, isSound: true };
  } catch (error) {
    if (error instanceof DataError) return { records, isSound: false };
    throw error;
  }
}

async function firstRecord(file: PartialFile, separator: string, start: Start): Promise<CsvRecord> {
  for await (const [first] of recordsOf(file, separator, start)) if (first !== undefined) return first;
  throw new DataError(
    `${file.name}, line 1: the file has no records. Choose a file with a line of column names and rows below it.`,
  );
}

/** Yields the file's records, in batches. */
async function* recordsOf(
  file: PartialFile,
  separator: string,
  start: Start,
  onbytes?: OnBytes,
): AsyncGenerator<CsvRecord[]> {
  const splitter = new Splitter(file.name, separator, start);
  for (let at = start.offset; at < file.size; at += CHUNK_BYTES) {
    yield splitter.add(await file.read(at, at + CHUNK_BYTES), at + CHUNK_BYTES >= file.size);
    if (file.size > CHUNK_BYTES) onbytes?.(Math.min(at + CHUNK_BYTES, file.size));
  }
}

/**
 * States of the parser: at the start of a field, in a field without quotes, inside quotes, after a
 * closing quote.
 */
const [START, PLAIN, QUOTED, CLOSED] = [0, 1, 2, 3];

/** Splits the bytes of a file, which it receives in chunks, into records. */
class Splitter {
  readonly #name: string;
  readonly #separator: string;
  readonly #separatorByte: number;
  readonly #decoder = new TextDecoder('utf-8', { fatal: true });
  /** The bytes after the last complete record. */
  #rest = new Uint8Array(0);
  /** Offset of `#rest` in the file. */
  #offset: number;
  #place = START;
  #hasQuotes = false;
  #line: number;
  /** First line of the current record. */
  #recordLine: number;
  #wasCr = false;

  constructor(name: string, separator: string, { offset, line }: Start) {
    this.#offset = offset;
    [this.#line, this.#recordLine] = [line, line];
    this.#name = name;
    this.#separator = separator;
    this.#separatorByte = separator.charCodeAt(0);
  }

  /**
   * Splits the next bytes. Appends the records that end in them to `records`, and returns
   * `records`.
   */
  add(chunk: Uint8Array, isLast: boolean, records: CsvRecord[] = []): CsvRecord[] {
    const zero = chunk.indexOf(0);
    if (zero !== -1) {
      const at = this.#offset + this.#rest.length + zero;
      throw new DataError(`${this.#name} is not text: byte ${at} is 0. Export the table as CSV in UTF-8.`);
    }
    const bytes = new Uint8Array(this.#rest.length + chunk.length);
    bytes.set(this.#rest);
    bytes.set(chunk, this.#rest.length);
    let start =
      this.#offset === 0 && this.#rest.length === 0 && BOM.every((byte, i) => bytes[i] === byte) ? BOM.length : 0;
    let at = Math.max(start, this.#rest.length);
    // Without quotes, every LF ends a record. Searching for LF is faster than examining each byte.
    if (this.#place !== QUOTED && !this.#hasQuotes && !this.#wasCr && !hasQuoteOrCr(bytes, at)) {
      for (let end = bytes.indexOf(LF, at); end !== -1; end = bytes.indexOf(LF, at)) {
        this.#line++;
        this.#end(records, bytes, start, end);
        start = at = end + 1;
      }
    }
    for (; at < bytes.length; at++) {
      const byte = bytes[at]!;
      const isEnd = byte === LF || byte === CR;
      // CR LF is one line end. The line is counted at the CR.
      if (isEnd && !(byte === LF && this.#wasCr)) this.#line++;
      this.#wasCr = byte === CR;
      if (this.#place === QUOTED) {
        if (byte === QUOTE) this.#place = CLOSED;
      } else if (isEnd) {
        this.#end(records, bytes, start, at);
        start = at + 1;
      } else if (byte === this.#separatorByte) {
        this.#place = START;
      } else if (byte === QUOTE && this.#place !== PLAIN) {
        // A quote at the start of a field opens a quoted field. A quote right after a closing quote
        // is an escaped quote.
        this.#place = QUOTED;
        this.#hasQuotes = true;
      } else {
        this.#place = PLAIN;
      }
    }
    if (isLast) {
      if (this.#place === QUOTED) throw this.#unclosed();
      this.#end(records, bytes, start, bytes.length);
      start = bytes.length;
    }
    this.#rest = bytes.slice(start);
    this.#offset += start;
    if (this.#rest.length > MAX_RECORD_BYTES) throw this.#unclosed();
    return records;
  }

  /** Ends a record. Empty lines are skipped. */
  #end(records: CsvRecord[], bytes: Uint8Array, from: number, to: number): void {
    const line = this.#recordLine;
    if (to > from) {
      const { fields, problem } = fieldsOf(this.#decode(bytes.subarray(from, to)), this.#separator, this.#hasQuotes);
      if (problem !== null) {
        throw new DataError(
          `${this.#name}, line ${line}: text follows the closing quote of a field (${problem}). Double each quote inside a quoted field.`,
        );
      }
      records.push({ fields, line, offset: this.#offset + from });
    }
    this.#place = START;
    this.#hasQuotes = false;
    this.#recordLine = this.#line;
  }

  #decode(bytes: Uint8Array): string {
    try {
      return this.#decoder.decode(bytes);
    } catch (cause) {
      throw new DataError(
        `${this.#name}, line ${this.#recordLine}: the text is not UTF-8. Save the file as UTF-8.`,
        {},
        { cause },
      );
    }
  }

  #unclosed(): DataError {
    return new DataError(
      `${this.#name}, line ${this.#recordLine}: a quote that is opened in this record is never closed. Close it, or double it if it is part of the text.`,
    );
  }
}

function hasQuoteOrCr(bytes: Uint8Array, from: number): boolean {
  return bytes.includes(QUOTE, from) || bytes.includes(CR, from);
}

/**
 * Splits a record into fields in their {@link canonical} form. If its quotes are malformed,
 * `problem` describes the error.
 */
function fieldsOf(
  text: string,
  delimiter: string,
  hasQuotes = text.includes('"'),
): { fields: string[]; problem: string | null } {
  const record = canonical(text);
  if (!hasQuotes) return { fields: record.split(delimiter), problem: null };
  // A single record has line ends only within quotes, so Papa Parse does not split it at the
  // newline '\n'.
  const { data, errors } = Papa.parse<string[]>(record, { delimiter, newline: '\n' });
  return { fields: data[0] ?? [], problem: errors.find(({ type }) => type === 'Quotes')?.message ?? null };
}
