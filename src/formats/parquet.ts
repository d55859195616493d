/**
 * Reader for Parquet files with plain columns. Row groups are read one after the other. The library
 * is loaded when the first file is opened.
 *
 * Source: https://parquet.apache.org/docs/file-format/
 */
import type { FileMetaData, SchemaElement } from 'hyparquet';
import { systemClock, EventLoopYielder } from '../util/clock.ts';
import { DataError, errorMessageOf } from '../util/errors.ts';
import { canonicalText } from './classNames.ts';
import { readByteRange } from './partialFile.ts';

/** The first and last bytes of a Parquet file. */
export const PARQUET_MAGIC_BYTES = 'PAR1';
/** Number of rows between two checks whether to yield. */
const STRETCH_ROWS = 4096;
const STRETCH_MS = 50;
/** Compressions that the reader has without another library. */
const BUILT_IN: readonly string[] = ['UNCOMPRESSED', 'SNAPPY'];

/** Receives the values of one row: those of each column at the index `at`. */
type Visit = (columns: readonly ArrayLike<unknown>[], at: number, row: number) => void;

interface ParquetOptions {
  /** Is called with the column names. It returns the function that receives the rows. */
  begin: (columns: readonly string[]) => Visit;
  /** Receives the number of bytes read so far. */
  onbytes?: (bytes: number) => void;
}

/**
 * Reads the column names, then all rows.
 *
 * @throws (rejects) DataError if the file is damaged, or a column is nested or has unsupported
 *   values.
 */
export async function readParquet(
  name: string,
  blob: Blob,
  { begin, onbytes }: ParquetOptions,
): Promise<{ columns: readonly string[]; rows: number }> {
  const { parquetMetadataAsync, parquetRead } = await import('hyparquet');
  const file = {
    byteLength: blob.size,
    slice: async (from: number, to = blob.size) => (await readByteRange(name, blob, from, to)).buffer,
  };
  const damaged = (cause: unknown): DataError =>
    cause instanceof DataError
      ? cause
      : new DataError(
          `${name} is a damaged or unsupported Parquet file (${errorMessageOf(cause)}). Write it again, or convert it to CSV.`,
          {},
          { cause },
        );
  const metadata = await parquetMetadataAsync(file).catch((cause: unknown) => {
    throw damaged(cause);
  });
  const columns = columnsOf(name, metadata);
  const codecs = metadata.row_groups.flatMap((group) => group.columns.flatMap((one) => one.meta_data?.codec ?? []));
  const extra = codecs.every((codec) => BUILT_IN.includes(codec)) ? {} : await import('hyparquet-compressors');
  const visit = begin(columns);
  const yielder = new EventLoopYielder(systemClock, STRETCH_MS);
  let rowStart = 0;
  let bytes = 0;
  for (const { num_rows: rows, columns: chunks } of metadata.row_groups) {
    const rowEnd = rowStart + Number(rows);
    const values: ArrayLike<unknown>[] = [];
    // One column at a time: while a column is decoded, the thread is blocked.
    for (const column of columns) {
      let found: ArrayLike<unknown> = [];
      const onChunk = ({ columnData }: { columnData: ArrayLike<unknown> }): void => {
        found = found.length === 0 ? columnData : [...Array.from(found), ...Array.from(columnData)];
      };
      await parquetRead({ file, metadata, columns: [column], rowStart, rowEnd, onChunk, ...extra }).catch(
        (cause: unknown) => {
          throw damaged(cause);
        },
      );
      values.push(compact(found));
      await yielder.yieldIfDue();
    }
    for (let at = 0; at < rowEnd - rowStart; at++) {
      if (at % STRETCH_ROWS === 0) await yielder.yieldIfDue();
      visit(values, at, rowStart + at);
    }
    rowStart = rowEnd;
    bytes += chunks.reduce((sum, { meta_data: about }) => sum + Number(about?.total_compressed_size ?? 0), 0);
    onbytes?.(Math.min(bytes, blob.size));
  }
  return { columns, rows: rowStart };
}

/** Returns numbers in a third of the memory. A missing number becomes NaN. */
function compact(values: ArrayLike<unknown>): ArrayLike<unknown> {
  const numbers = new Float64Array(values.length);
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (typeof value !== 'number' && value !== null && value !== undefined) return values;
    numbers[i] = typeof value === 'number' ? value : NaN;
  }
  return numbers;
}

/** @throws DataError if a column does not have plain values. */
function columnsOf(name: string, { schema }: FileMetaData): string[] {
  for (let i = 1; i < schema.length; i++) {
    const what = whyUnsupported(schema[i]!);
    if (what === null) continue;
    throw new DataError(
      `${name}: column ${JSON.stringify(schema[i]!.name)} ${what}, but a table has one number or word per field. Leave the column out, or write its parts as columns of their own.`,
    );
  }
  return schema.slice(1).map((column) => column.name);
}

function whyUnsupported({ num_children, repetition_type, type, converted_type, logical_type }: SchemaElement) {
  if ((num_children ?? 0) > 0) return 'is nested (a list, a map or a struct)';
  if (repetition_type === 'REPEATED') return 'is a list';
  const isText = converted_type !== undefined || logical_type !== undefined;
  return type === 'FIXED_LEN_BYTE_ARRAY' && !isText ? 'has bytes' : null;
}

/**
 * Returns a value as the text that a CSV file of the table would contain. Missing values and NaN
 * are empty.
 */
export function csvFieldOfValue(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'string') return canonicalText(value);
  if (typeof value === 'number') return numberField(value);
  if (typeof value === 'bigint') return String(value);
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  return value instanceof Date ? dateField(value) : JSON.stringify(value);
}

/** In 1.234, the point might separate thousands. In 1.2340, it cannot. */
function numberField(value: number): string {
  if (Number.isNaN(value)) return '';
  const text = String(value);
  return /^-?\d{1,3}\.\d{3}$/.test(text) ? `${text}0` : text;
}

function dateField(date: Date): string {
  const [day, time] = date
    .toISOString()
    .replace(/(?:\.000)?Z$/, '')
    .split('T');
  return time === '00:00:00' ? day! : `${day} ${time}`;
}
