/**
 * Converts the first sheet of an Excel workbook to CSV. The library is loaded when it is needed.
 */
import { DataError, errorMessageOf } from '../util/errors.ts';
import { csvFieldOfValue } from './parquet.ts';
import { readByteRange } from './partialFile.ts';

/** The first bytes of a zip file, which a workbook is. */
const ZIP_MARK = 'PK\x03\x04';

export async function isWorkbook(file: File): Promise<boolean> {
  const start = await readByteRange(file.name, file, 0, ZIP_MARK.length);
  return String.fromCharCode(...start) === ZIP_MARK;
}

/**
 * Returns the first sheet as CSV. Line n of the CSV file is row n of the sheet.
 *
 * @throws (rejects) DataError if the file is not a workbook or is damaged.
 */
export async function workbookToCsv(file: File): Promise<{ csv: File; sheet: string; others: string[] }> {
  const { default: readSheets } = await import('read-excel-file/universal');
  const [first, ...others] = await readSheets(file, { trim: false }).catch((cause: unknown) => {
    throw new DataError(
      `${file.name} is a zip file, but not an Excel workbook that can be read (${errorMessageOf(cause)}). Save the sheet as .xlsx again, or export it as CSV.`,
      {},
      { cause },
    );
  });
  const lines = (first?.data ?? []).map((row) => {
    const fields = row.map(csvFieldOfValue);
    return fields.every((field) => field === '') ? '\n' : `${fields.map(quoted).join(',')}\n`;
  });
  return {
    csv: new File(lines, file.name),
    sheet: first?.sheet ?? '',
    others: others.map(({ sheet }) => sheet),
  };
}

/** Returns a cell as a quoted field. Line ends become spaces, so that rows keep their numbers. */
function quoted(field: string): string {
  return `"${field.replaceAll(/\r\n?|\n/g, ' ').replaceAll('"', '""')}"`;
}
