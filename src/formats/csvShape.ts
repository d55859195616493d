/** Where the records of a CSV file begin, and which of their fields are columns. */
import type { CsvRecords, CsvRecordsStart } from './csvRecords.ts';
import { isNumberWithoutUnit } from './numbers.ts';

const BOM = [0xef, 0xbb, 0xbf];
/** Matches a line such as `sep=;`, which tells Excel the separator. Such a line is not data. */
const SEP_LINE = /^\s*"?sep *= *(\\t|.)"?[;,\t|]*(?:\r\n?|\n)/i;
/** A line `sep=;` is recognized only if it ends within this number of first bytes of a file. */
const SEP_BYTES = 32;

export interface CsvShape {
  columns: number;
  /**
   * Whether rows begin with a name for which the first line has no field. Programs like R write
   * such files.
   */
  rowNames: boolean;
  /** Whether lines may end with a separator after which no field follows. */
  trailing: boolean;
  /** Whether the first line must be a header, because it has fewer fields than the rows. */
  isNamed: boolean;
}

function isTrailed(fields: readonly string[]): boolean {
  return fields.at(-1)!.trim() === '';
}

/**
 * Returns whether the first fields of the rows may be names of the rows, because they all differ.
 */
function areNames(below: readonly (readonly string[])[], isQuoted: boolean): boolean {
  const names = new Set(below.map(([name]) => name));
  // If the first fields are numbers without quotes, they may be the parts of numbers before a
  // decimal comma.
  return names.size === below.length && (isQuoted || ![...names].some((name) => isNumberWithoutUnit(name!)));
}

/** @param isQuoted whether each row begins with a quote. */
export function csvShapeOf(
  first: readonly string[],
  below: readonly (readonly string[])[],
  isQuoted: boolean,
): CsvShape {
  const columns = first.length;
  const isLonger = below.length > 0 && below.every(({ length }) => length === columns + 1);
  const plain = { columns, rowNames: false, trailing: false, isNamed: false };
  if (isLonger && below.every(isTrailed)) return { ...plain, trailing: true, isNamed: true };
  if (isLonger && areNames(below, isQuoted)) return { ...plain, rowNames: true, isNamed: true };
  const isShort = ({ length }: readonly string[]): boolean => length === columns - 1;
  const isEmpty = below.every((fields) => isShort(fields) || (fields.length === columns && isTrailed(fields)));
  if (columns < 3 || below.length === 0 || !isTrailed(first) || !isEmpty) return plain;
  return { columns: columns - 1, rowNames: false, trailing: true, isNamed: false };
}

export function csvColumnsOf(fields: string[], { columns, rowNames }: CsvShape): string[] {
  if (rowNames) return fields.slice(1);
  return fields.length > columns ? fields.slice(0, columns) : fields;
}

export function recordFitsCsvShape(record: CsvRecords, { columns, rowNames, trailing }: CsvShape): boolean {
  const extra = record.count - columns;
  return rowNames ? extra === 1 : extra === 0 || (trailing && extra === 1 && isTrailed([record.field(columns)]));
}

/**
 * Returns where the first record begins: after a byte order mark, and after a line such as `sep=;`.
 */
export function csvRecordsStartOf(head: Uint8Array): CsvRecordsStart {
  const skipped = BOM.every((byte, i) => head[i] === byte) ? BOM.length : 0;
  const found = SEP_LINE.exec(new TextDecoder('latin1').decode(head.subarray(skipped, skipped + SEP_BYTES)));
  if (found === null) return { offset: skipped, line: 1, separator: null };
  const [text, separator] = found as unknown as [string, string];
  const line = text.split(/\r\n?|\n/).length;
  return { offset: skipped + text.length, line, separator: separator === '\\t' ? '\t' : separator };
}
