/**
 * Reader for CSV files of any size, in one pass. Only one part of the file is in memory at a time.
 *
 * Source: RFC 4180, and the variants that spreadsheets write: other separators, a byte order mark,
 * any line ends.
 */
import { systemClock, EventLoopYielder } from '../util/clock.ts';
import { DataError } from '../util/errors.ts';
import { hexOf } from '../util/hex.ts';
import { CsvRecords, type CsvRecordsStart } from './csvRecords.ts';
import { isCsvHeader } from './csvHeader.ts';
import { csvColumnsOf, recordFitsCsvShape, csvShapeOf, csvRecordsStartOf } from './csvShape.ts';
import { isNumberWithoutUnit } from './numbers.ts';
import { readByteRange } from './partialFile.ts';

/** Number of bytes at the start of a file that show its separator and header. */
const HEAD_BYTES = 1024 * 1024;
/** Number of bytes that are read at a time. */
const CHUNK_BYTES = 512 * 1024;
/** Longest time without a yield, ms: heartbeats and links of the tab run in the same thread. */
const STRETCH_MS = 50;
/** Number of lines used to detect the separator. */
const GUESS_LINES = 20;
/** To detect a header, the first line is compared with this number of lines below it. */
const HEADER_LINES = 1000;
const SEPARATORS = [',', ';', '\t', '|'];

/**
 * Files that are not CSV, but that users may choose instead. For each format: the first bytes of
 * its files, with one character per byte; then the name of the format, and advice.
 */
const OTHERS: readonly (readonly [start: RegExp | string, advice: string])[] = [
  ['PK\x03\x04', 'a zip file or an Excel workbook. Export the sheet as CSV'],
  [
    '\xd0\xcf\x11\xe0',
    'an old Excel workbook, or a workbook with a password. Save it as .xlsx without a password, or export the sheet as CSV',
  ],
  [/^\xff\xfe|^\xfe\xff/, 'UTF-16 text. Save it as UTF-8'],
  ['\x1f\x8b', 'a gzip file. Unpack it'],
  [/^%PDF-/, 'a PDF document. Export its table as CSV'],
  [/^(\xef\xbb\xbf)?\s*<(!doctype|html|\?xml|table)/i, 'a web page or XML. Export its table as CSV'],
  [/^(\xef\xbb\xbf)?\s*(\[\s*)*\{\s*"/, 'JSON. Convert it to CSV'],
  [/^(\x89PNG|\xff\xd8\xff|GIF8)/, 'a picture. Choose the job images'],
  [/^PAR1/, 'a Parquet file. Its end is missing: copy it again'],
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
 * A function that receives one row. The row's fields are those of `record`, until the function
 * returns.
 */
type Visit = (record: CsvRecords, row: number) => void;

export interface CsvFacts {
  /** Names from the first line. If it is not a header, the names are "column 1", "column 2", ... */
  columns: readonly string[];
  hasHeader: boolean;
  separator: string;
  /** If each row begins with its name, for which there is no column: the name of the first row. */
  rowName: string | null;
  /** Number of data rows. */
  rows: number;
}

interface CsvOptions {
  /**
   * Is called with the column names before the first row. It returns the function that receives the
   * rows.
   */
  begin: (columns: readonly string[]) => Visit;
  /** Receives the number of bytes read so far. It is not called for small files. */
  onbytes?: (bytes: number) => void;
}

/**
 * Reads the column names, then all rows.
 *
 * @throws (rejects) DataError if the file is not CSV, records have different numbers of fields, or
 *   a quote is not closed. Errors of the function that receives the rows are passed on.
 */
export async function readCsv(name: string, blob: Blob, { begin, onbytes }: CsvOptions): Promise<CsvFacts> {
  const head = await readByteRange(name, blob, 0, HEAD_BYTES);
  checkStart(name, head);
  const start = csvRecordsStartOf(head);
  const { separator, records, error } = guess(name, head, head.length === blob.size, start);
  const [first, ...rows] = records;
  if (first === undefined) {
    const what = 'the file has no records. Choose a file with a line of column names and rows below it.';
    throw error ?? new DataError(`${name}, line 1: ${what}`);
  }
  const below = rows.map(({ fields }) => fields);
  const shape = csvShapeOf(
    first.fields,
    below,
    rows.every(({ isQuoted }) => isQuoted),
  );
  const named = { ...first, fields: first.fields.slice(0, shape.columns) };
  const hasHeader =
    shape.isNamed ||
    isCsvHeader(
      named.fields,
      below.map((fields) => csvColumnsOf(fields, shape)),
    );
  const columns = namesOf(name, named, hasHeader);
  const visit = begin(columns);
  const record = new CsvRecords(name, separator, start);
  const usual = shape.columns + Number(shape.rowNames);
  let row = hasHeader ? -1 : 0;
  let rowName: string | null = null;
  const checkFields = (): void => {
    const isFirst = hasHeader && row < 0;
    if (isFirst ? record.count >= shape.columns : recordFitsCsvShape(record, shape)) return;
    // A wrong encoding is the more likely reason, so `fields` throws the error for it first.
    record.fields();
    const found = record.count === 1 ? '1 field' : `${record.count} fields`;
    const isAbove = row === (hasHeader ? 0 : 1) || shape.columns === 1;
    const advice = isAbove
      ? 'If the lines above are neither a header nor data, remove them. Otherwise correct this line.'
      : 'Correct the line, or remove it if it is not data.';
    throw new DataError(
      `${name}, line ${record.line}: ${found}, but line 1 has ${columns.length}. ${advice} A field that contains the separator, ` +
        'such as a number with a decimal comma, must be in double quotes without spaces around them.',
    );
  };
  const yielder = new EventLoopYielder(systemClock, STRETCH_MS);
  let chunk = readByteRange(name, blob, 0, CHUNK_BYTES);
  for (let at = 0; at < blob.size; at += CHUNK_BYTES) {
    const bytes = await chunk;
    const end = at + CHUNK_BYTES;
    // The next bytes are read while these are searched.
    chunk = end < blob.size ? readByteRange(name, blob, end, end + CHUNK_BYTES) : chunk;
    chunk.catch(() => {});
    record.add(bytes, end >= blob.size);
    while (record.next()) {
      if (record.count !== usual) checkFields();
      if (row >= 0) {
        if (shape.rowNames) {
          rowName ??= record.field(0);
          record.dropFirst();
        }
        visit(record, row);
      }
      row++;
    }
    if (blob.size > HEAD_BYTES) onbytes?.(Math.min(end, blob.size));
    await yielder.yieldIfDue();
  }
  return { columns, hasHeader, separator, rowName, rows: Math.max(0, row) };
}

/** @throws DataError if a file starts like a format other than CSV. */
function checkStart(name: string, head: Uint8Array): void {
  const beginning = String.fromCharCode(...head.subarray(0, START_BYTES));
  const other = OTHERS.find(([start]) =>
    typeof start === 'string' ? beginning.startsWith(start) : start.test(beginning),
  );
  if (other === undefined) return;
  const bytes = hexOf(head.subarray(0, SHOWN_BYTES), ' ');
  throw new DataError(`${name} is not CSV: it starts with ${bytes} at byte 0, like ${other[1]}.`);
}

interface FirstRecord {
  fields: string[];
  line: number;
  /** Whether the record begins with a quote. */
  isQuoted: boolean;
}

function namesOf(name: string, { fields, line }: FirstRecord, hasHeader: boolean): string[] {
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
  /** The complete records in the first bytes of the file, up to an error or a maximum number. */
  records: FirstRecord[];
  error: DataError | null;
}

/**
 * Detects the separator by three criteria. First: the share of records that have as many fields as
 * the first record. Second: whether all quotes are well-formed. Third: the share of fields that are
 * numbers; without it, a file with decimal commas might be split at its commas. A criterion is used
 * only if several separators are equal by the criteria before it.
 *
 * @param head the file's first bytes.
 */
function guess(name: string, head: Uint8Array, isWhole: boolean, start: CsvRecordsStart): Guess {
  const told = start.separator;
  if (told !== null) return { separator: told, ...recordsIn(name, head, told, isWhole, start) };
  const beginning = new TextDecoder().decode(head).split(/[\r\n]+/, GUESS_LINES);
  const found = SEPARATORS.filter((separator) => beginning.some((line) => line.includes(separator))).map(
    (separator) => {
      const { records, error } = recordsIn(name, head, separator, isWhole, start);
      const lines = records.slice(0, GUESS_LINES).map(({ fields }) => fields);
      const fields = lines.flat();
      // The first line may have one field less or more than other lines; see `CsvShape`.
      const usual = (lines[1] ?? lines[0])?.length ?? 0;
      const isOff = Math.abs((lines[0]?.length ?? 0) - usual) === 1;
      const same = (as: number): number => lines.filter(({ length }) => length > 1 && length === as).length;
      const alike = Math.max(same(lines[0]?.length ?? 0), isOff && usual > 1 ? same(usual) : 0);
      const numbers = fields.filter(isNumberWithoutUnit).length;
      const score = [alike / Math.max(1, lines.length), Number(error === null), numbers / Math.max(1, fields.length)];
      return { separator, records, error, score };
    },
  );
  // Array.sort is stable, so the first of several equal candidates is chosen.
  const [best] = found.sort((a, b) => {
    const at = a.score.findIndex((one, i) => one !== b.score[i]);
    return at === -1 ? 0 : b.score[at]! - a.score[at]!;
  });
  return best ?? { separator: SEPARATORS[0]!, ...recordsIn(name, head, SEPARATORS[0]!, isWhole, start) };
}

/** Returns the records in a file's first bytes, up to the first record with malformed quotes. */
function recordsIn(
  name: string,
  head: Uint8Array,
  separator: string,
  isWhole: boolean,
  start: CsvRecordsStart,
): Pick<Guess, 'records' | 'error'> {
  const found = new CsvRecords(name, separator, start);
  const records: FirstRecord[] = [];
  try {
    found.add(head, isWhole);
    while (found.next()) {
      if (records.length > HEADER_LINES) continue;
      records.push({ fields: found.fields(), line: found.line, isQuoted: found.isQuoted(0) });
    }
    return { records, error: null };
  } catch (error) {
    if (error instanceof DataError) return { records, error };
    throw error;
  }
}
