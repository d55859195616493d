/**
 * Reader for CSV of any size: one pass finds where records begin, and later any row is read by its
 * number. Records are separated by line ends outside quotes; what a record with quotes says is Papa
 * Parse's to tell.
 *
 * Source: RFC 4180, and what spreadsheets write: other separators, a byte order mark, any line
 * ends.
 */
import Papa from 'papaparse';
import { DataError } from '../../util/errors.ts';
import { hexOf } from '../../util/hex.ts';
import { isHeader } from './csvHeader.ts';
import { isNumber } from './numbers.ts';
import { PartialFile } from './partialFile.ts';

/** Bytes scanned at once. */
const CHUNK_BYTES = 1024 * 1024;
/** A longer record is a quote that was never closed. */
const MAX_RECORD_BYTES = 1024 * 1024;
/** Lines that the separator is guessed from. */
const GUESS_LINES = 20;
/** Lines that the first is compared with, to know whether it is names. */
const HEADER_LINES = 1000;
const SEPARATORS = [',', ';', '\t', '|'];
const BOM = [0xef, 0xbb, 0xbf];
const [LF, CR, QUOTE] = [0x0a, 0x0d, 0x22];

/** What people take for CSV: how it starts, what it is, and what to do. */
const OTHERS: [start: number[], advice: string][] = [
  [[0x50, 0x4b, 0x03, 0x04], 'a zip file or a workbook: export the sheet as CSV'],
  [[0xff, 0xfe], 'UTF-16: save it as UTF-8'],
  [[0xfe, 0xff], 'UTF-16: save it as UTF-8'],
  [[0x1f, 0x8b], 'gzip: unpack it'],
];

/** @param line in the file, from 1, where the record begins, and `offset` the byte. */
type Visit = (fields: readonly string[], row: number, line: number, offset: number) => void;

interface CsvRecord {
  fields: string[];
  /** Where it begins. */
  line: number;
  offset: number;
}

export class CsvFile {
  readonly name: string;
  /** Names from the first line; where that is data, columns are numbered from 1. */
  readonly columns: readonly string[];
  readonly hasHeader: boolean;
  readonly separator: string;
  readonly #file: PartialFile;
  /** Where rows begin, and where the last ends. */
  #offsets: Float64Array<ArrayBuffer> = new Float64Array(1024);
  #rows = 0;

  private constructor(file: PartialFile, separator: string, columns: readonly string[], hasHeader: boolean) {
    this.name = file.name;
    this.columns = columns;
    this.#file = file;
    this.separator = separator;
    this.hasHeader = hasHeader;
  }

  /**
   * Reads the columns' names, and then the whole file once.
   *
   * @param begin gets the columns' names before any row, and gives what to do with each row.
   * @throws (rejects) DataError, with the line, if the file is no CSV, records have different
   *   numbers of fields, or quotes are not closed; whatever `visit` throws.
   */
  static async open(name: string, blob: Blob, begin: (columns: readonly string[]) => Visit): Promise<CsvFile> {
    const file = new PartialFile(name, blob);
    const head = await file.read(0, CHUNK_BYTES);
    for (const [start, advice] of OTHERS) {
      if (start.every((byte, i) => head[i] === byte)) {
        throw new DataError(`${name} is not CSV: it starts with ${hexOf(start, ' ')} at byte 0, which is ${advice}.`);
      }
    }
    const { separator, records } = guess(name, head, head.length === file.size);
    const first = records[0] ?? (await firstRecord(file, separator));
    const below = records.slice(1, 1 + HEADER_LINES).map(({ fields }) => fields);
    const hasHeader = isHeader(first.fields, below);
    const csv = new CsvFile(file, separator, namesOf(name, first, hasHeader), hasHeader);
    const visit = begin(csv.columns);
    await csv.scan((fields, row, line, offset) => {
      csv.#keep(row, offset);
      visit(fields, row, line, offset);
    });
    csv.#keep(csv.#rows, file.size);
    return csv;
  }

  /** Rows of data. */
  get rows(): number {
    return this.#rows;
  }

  /** The fields of one row. */
  async row(index: number): Promise<string[]> {
    const bytes = await this.#file.read(this.#offsets[index]!, this.#offsets[index + 1]!);
    let end = bytes.length;
    while (end > 0 && (bytes[end - 1] === LF || bytes[end - 1] === CR)) end--;
    return fieldsOf(new TextDecoder().decode(bytes.subarray(0, end)), this.separator).fields;
  }

  /** Reads all rows, in order. */
  async scan(visit: Visit): Promise<void> {
    let row = this.hasHeader ? -1 : 0;
    for await (const records of recordsOf(this.#file, this.separator)) {
      for (const { fields, line, offset } of records) {
        if (fields.length !== this.columns.length) {
          const found = fields.length === 1 ? '1 field' : `${fields.length} fields`;
          const isSecond = row === (this.hasHeader ? 0 : 1);
          const advice = `${isSecond ? 'If line 1 is neither names nor data, remove it; otherwise correct this line' : 'Correct the line'}; a field`;
          throw new DataError(
            `${this.name}, line ${line}: ${found}, and line 1 has ${this.columns.length}. ${advice} with a separator in it needs quotes.`,
          );
        }
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
      `${name}, line ${line}: two columns are called ${JSON.stringify(twice)}. Rename one of them; if line ${line} is data, add a line of names above it.`,
    );
  }
  return names;
}

interface Guess {
  separator: string;
  /** The first bytes' records. */
  records: CsvRecord[];
}

/**
 * Finds the separator: that which gives most records as many fields as the first has, then that
 * with which quotes make sense, then that which gives most numbers, as a file with decimal commas
 * can be cut at its commas, too.
 *
 * @param head the file's first bytes.
 */
function guess(name: string, head: Uint8Array, isWhole: boolean): Guess {
  const beginning = new TextDecoder().decode(head).split(/[\r\n]+/, GUESS_LINES);
  const found = SEPARATORS.filter((separator) => beginning.some((line) => line.includes(separator))).map(
    (separator) => {
      const { records, isSound } = recordsIn(name, head, separator, isWhole);
      const lines = records.slice(0, GUESS_LINES).map(({ fields }) => fields);
      const fields = lines.flat();
      const alike = lines.filter(({ length }) => length > 1 && length === lines[0]!.length).length;
      const numbers = fields.filter(isNumber).length;
      const score = [alike / Math.max(1, lines.length), Number(isSound), numbers / Math.max(1, fields.length)];
      return { separator, records, score };
    },
  );
  // The first of equals.
  const [best] = found.sort((a, b) => {
    const at = a.score.findIndex((one, i) => one !== b.score[i]);
    return at === -1 ? 0 : b.score[at]! - a.score[at]!;
  });
  return best ?? { separator: SEPARATORS[0]!, records: recordsIn(name, head, SEPARATORS[0]!, isWhole).records };
}

/**
 * The records in a file's first bytes; in front of the first in which quotes make no sense, if
 * there is one.
 */
function recordsIn(
  name: string,
  head: Uint8Array,
  separator: string,
  isWhole: boolean,
): { records: CsvRecord[]; isSound: boolean } {
  const records: CsvRecord[] = [];
  try {
    new Splitter(name, separator).add(head, isWhole, records);
    return { records, isSound: true };
  } catch (error) {
    if (error instanceof DataError) return { records, isSound: false };
    throw error;
  }
}

async function firstRecord(file: PartialFile, separator: string): Promise<CsvRecord> {
  for await (const [first] of recordsOf(file, separator)) if (first !== undefined) return first;
  throw new DataError(`${file.name}, line 1: there is no record. Choose a file with a line of names and rows below.`);
}

/** The file's records, in batches. */
async function* recordsOf(file: PartialFile, separator: string): AsyncGenerator<CsvRecord[]> {
  const splitter = new Splitter(file.name, separator);
  for (let at = 0; at < file.size; at += CHUNK_BYTES) {
    yield splitter.add(await file.read(at, at + CHUNK_BYTES), at + CHUNK_BYTES >= file.size);
  }
}

/** Where in a field the next byte is. */
const [START, PLAIN, QUOTED, CLOSED] = [0, 1, 2, 3];

/** Cuts bytes into records. */
class Splitter {
  readonly #name: string;
  readonly #separator: string;
  readonly #separatorByte: number;
  readonly #decoder = new TextDecoder('utf-8', { fatal: true });
  /** Of a record that has not ended yet. */
  #rest = new Uint8Array(0);
  /** Bytes of the file before the rest. */
  #offset = 0;
  #place = START;
  #hasQuotes = false;
  #line = 1;
  /** Where the record under way begins. */
  #recordLine = 1;
  #wasCr = false;

  constructor(name: string, separator: string) {
    this.#name = name;
    this.#separator = separator;
    this.#separatorByte = separator.charCodeAt(0);
  }

  /** @param records gets those that end in this chunk. */
  add(chunk: Uint8Array, isLast: boolean, records: CsvRecord[] = []): CsvRecord[] {
    const bytes = new Uint8Array(this.#rest.length + chunk.length);
    bytes.set(this.#rest);
    bytes.set(chunk, this.#rest.length);
    let start =
      this.#offset === 0 && this.#rest.length === 0 && BOM.every((byte, i) => bytes[i] === byte) ? BOM.length : 0;
    for (let at = Math.max(start, this.#rest.length); at < bytes.length; at++) {
      const byte = bytes[at]!;
      const isEnd = byte === LF || byte === CR;
      // Of CR and LF together the first ends the line.
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
        // One at the start opens, and a second one right behind the closing one was meant.
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

  /** Of an empty line nothing is a record. */
  #end(records: CsvRecord[], bytes: Uint8Array, from: number, to: number): void {
    const line = this.#recordLine;
    if (to > from) {
      const { fields, problem } = fieldsOf(this.#decode(bytes.subarray(from, to)), this.#separator, this.#hasQuotes);
      if (problem !== null) {
        throw new DataError(
          `${this.#name}, line ${line}: a quoted field goes on behind its quote (${problem}). Write a quote inside one twice.`,
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
        `${this.#name}, line ${this.#recordLine}: this is not UTF-8. Save the file as UTF-8.`,
        {},
        { cause },
      );
    }
  }

  #unclosed(): DataError {
    return new DataError(
      `${this.#name}, line ${this.#recordLine}: a quote that opens in this record is never closed. Close it, or write it twice.`,
    );
  }
}

/** A record's fields; `problem` where its quotes make no sense. */
function fieldsOf(
  record: string,
  delimiter: string,
  hasQuotes = record.includes('"'),
): { fields: string[]; problem: string | null } {
  if (!hasQuotes) return { fields: record.split(delimiter), problem: null };
  // A line end within quotes is part of a field: this record has no other.
  const { data, errors } = Papa.parse<string[]>(record, { delimiter, newline: '\n' });
  return { fields: data[0] ?? [], problem: errors.find(({ type }) => type === 'Quotes')?.message ?? null };
}
