/**
 * Tables in other formats than CSV. Other programs wrote them; see `test/formats/tables/write.py`.
 */
import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { zipFile } from '../../formats/zipFiles.ts';
import { sentencesOfNotes } from '../../../src/spec/preview.ts';
import { OpenedTable, type TableJob } from '../../../src/jobs/table/table.ts';

const JOB: TableJob = { target: null, task: null, loss: null, metrics: null, seed: 1 };

async function open(name: string, bytes?: Uint8Array<ArrayBuffer>): Promise<OpenedTable> {
  const file = bytes ?? (await readFile(new URL(`../../formats/tables/${name}`, import.meta.url)));
  return OpenedTable.open(new File([file], name), JOB);
}

/** Returns the preview, and all samples. */
async function contentOf(table: OpenedTable) {
  const parts = Object.values(await table.load());
  const samples = await Promise.all(
    parts.map(async (data) => {
      const inputs = new Float32Array(data.size * data.inputShape[2]);
      const labels = new Int32Array(data.size);
      await data.read(
        Uint32Array.from({ length: data.size }, (_, i) => i),
        inputs,
        labels,
      );
      return { inputs, labels };
    }),
  );
  const { columns, classes, rows } = table.preview;
  return { columns, classes, rows, facts: table.facts(), samples };
}

test.each(['table.parquet', 'zstd.parquet'])('%s has the same values as its CSV file', async (name) => {
  const csv = await contentOf(await open('table.csv'));
  expect(csv.rows).toBe(160);
  expect(await contentOf(await open(name))).toEqual(csv);
});

test('a workbook of LibreOffice, which keeps 15 digits, has the same values as its CSV file', async () => {
  const [book, csv] = [await contentOf(await open('libreoffice.xlsx')), await contentOf(await open('table.csv'))];
  expect([book.columns, book.classes, book.rows]).toEqual([csv.columns, csv.classes, csv.rows]);
  expect(book.facts.columns.map(({ values }) => values)).toEqual(csv.facts.columns.map(({ values }) => values));
  const distances = book.samples.map(({ inputs }, i) =>
    Math.max(...inputs.map((value, k) => Math.abs(value - csv.samples[i]!.inputs[k]!))),
  );
  expect(Math.max(...distances)).toBeLessThan(1e-6);
});

test('the first sheet of a workbook has the same values as its CSV file, and a note names the others', async () => {
  const csv = await contentOf(await open('table.csv'));
  const book = await open('table.xlsx');
  expect(await contentOf(book)).toEqual(csv);
  expect(sentencesOfNotes(book.preview.notes)).toContain('Only the sheet “Data” is read. Others are left out: Notes.');
});

test('a workbook with a password, and a zip file that is not a workbook, are rejected with advice', async () => {
  const locked = Uint8Array.of(0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1);
  await expect(open('locked.xlsx', locked)).rejects.toThrow(
    'like an old Excel workbook, or a workbook with a password. Save it as .xlsx without a password',
  );
  const zip = zipFile({ 'a.txt': Uint8Array.of(0x78) });
  await expect(open('a.zip', zip)).rejects.toThrow('a.zip is a zip file, but not an Excel workbook that can be read');
});

test('a Parquet file with a nested column is rejected with the name of the column', async () => {
  await expect(open('nested.parquet')).rejects.toThrow(
    'nested.parquet: column "tags" is nested (a list, a map or a struct), but a table has one number or word per field. Leave the column out',
  );
});

test('a damaged Parquet file is rejected', async () => {
  const whole = await readFile(new URL('../../formats/tables/table.parquet', import.meta.url));
  await expect(open('cut.parquet', new Uint8Array(whole.subarray(0, 900)))).rejects.toThrow(
    'cut.parquet is not CSV: it starts with 50 41 52 31 at byte 0, like a Parquet file. Its end is missing',
  );
  const broken = new Uint8Array(whole).fill(0xff, 100, 900);
  await expect(open('broken.parquet', broken)).rejects.toThrow(
    'broken.parquet is a damaged or unsupported Parquet file',
  );
});
