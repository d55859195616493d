import fc from 'fast-check';
import Papa from 'papaparse';
import { describe, expect, test } from 'vitest';
import { readCsv } from '../../src/formats/csv.ts';
import { DataError } from '../../src/util/errors.ts';

interface Read {
  columns: readonly string[];
  rows: (readonly string[])[];
  lines: number[];
}

async function read(text: string | Uint8Array<ArrayBuffer>): Promise<Read> {
  const rows: (readonly string[])[] = [];
  const lines: number[] = [];
  const found = await readCsv('a.csv', new Blob([text]), {
    begin:
      ({ length }) =>
      (record, row) => {
        rows[row] = record.fields().slice(0, length);
        lines.push(record.line);
      },
  });
  expect(found.rows).toBe(rows.length);
  return { columns: found.columns, rows, lines };
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

describe('a CSV file', () => {
  test.each([
    ['without special features', 'a,b\n1,x\n2,y\n', [2, 3]],
    ['without a line end at the end of the file', 'a,b\n1,x\n2,y', [2, 3]],
    ['from Windows', 'a,b\r\n1,x\r\n2,y\r\n', [2, 3]],
    ['from an old Mac', 'a,b\r1,x\r2,y', [2, 3]],
    ['with a byte order mark', '\ufeffa,b\n1,x\n2,y', [2, 3]],
    ['with semicolons', 'a;b\n1;x\n2;y', [2, 3]],
    ['with tabs', 'a\tb\n1\tx\n2\ty', [2, 3]],
    ['with empty lines', '\na,b\n\n1,x\n\r\n2,y\n\n', [4, 6]],
    ['with quotes', '"a","b"\n"1","x"\n2,"y"', [2, 3]],
  ])('is read with its column names, its rows and their line numbers: a file %s', async (_, text, lines) => {
    expect(await read(text)).toEqual({
      columns: ['a', 'b'],
      rows: [
        ['1', 'x'],
        ['2', 'y'],
      ],
      lines,
    });
  });

  test('may have separators, quotes and line ends in quoted fields, and quotes in unquoted fields', async () => {
    const { rows, lines } = await read('a,b\n"1,5","say ""hi""\nthere"\n2,5" pipe\n"",""\n');
    expect(rows).toEqual([
      ['1,5', 'say "hi"\nthere'],
      ['2', '5" pipe'],
      ['', ''],
    ]);
    expect(lines).toEqual([2, 4, 5]);
  });

  test('has columns named "column 1", "column 2" if its first line contains a number and therefore is data', async () => {
    expect(await read('5.1,3.5,setosa\n4.9,3,setosa\n')).toMatchObject({
      columns: ['column 1', 'column 2', 'column 3'],
    });
    expect((await read(',b\nx,1\n')).columns).toEqual(['column 1', 'b']);
  });

  test.each([
    ['years', 'country,2019,2020,good', (i: number) => `c${i % 4},${i},${i * 2},${i % 2 ? 'yes' : 'no'}`],
    ['years above amounts', 'country,2019,2020,price', (i: number) => `c${i},${i},${i * 2},${i * 3.5}`],
    ['years above numbers next to distinct words', 'country,2019,2020', (i: number) => `c${i},${i},${i * 2}`],
    ['wavelengths', 'sample,400.5,401.2', (i: number) => `${i},${i / 8},${i / 9}`],
    ['0, 1, 2, as pandas writes them', ',0,1,2', (i: number) => `${i},${i * 3},x,${i % 2 ? 'b' : 'm'}`],
    ['words above words', 'colour,kind', (i: number) => `c${i % 3},${i % 2 ? 'x' : 'y'}`],
    [
      'words, although one is also a value',
      'b,kind,sort',
      (i: number) => `${'ab'[i % 2]},${i % 3 ? 'x' : 'y'},k${i % 2}`,
    ],
    ['words above missing values', 'a,b,c', (i: number) => `${i % 2 ? '?' : i},NA,${i % 2}`],
  ])('has column names in its first line: %s', async (_, names, row) => {
    const text = `${names}\n${upTo(30).map(row).join('\n')}\n`;
    const { columns, rows } = await read(text);
    expect(columns).toEqual(names.split(',').map((name, i) => name || `column ${i + 1}`));
    expect(rows).toHaveLength(30);
  });

  test.each([
    [
      'UCI tic-tac-toe',
      (i: number) => `x,${'xob'[i % 3]},x,${'ob'[i % 2]},o,x,x,o,o,${i % 3 ? 'positive' : 'negative'}`,
    ],
    ['UCI mushroom', (i: number) => `${'pe'[i % 2]},x,s,${'nyw'[i % 3]},t,p,f,c,n,k`],
    [
      'UCI balloons, whose first line has distinct fields',
      (i: number) => `${['YELLOW', 'PURPLE'][i % 2]},SMALL,${'TF'[i % 2]}`,
    ],
    [
      'UCI splice, with words that occur in a single row',
      (i: number) => `${['EI', 'IE', 'N'][i % 3]},DONOR-${i},${'ACGT'[i % 4]}`,
    ],
    ['UCI adult', (i: number) => `${39 + (i % 9)}, ${['State-gov', 'Private'][i % 2]}, ${77516 + i}, <=50K`],
    ['UCI crx', (i: number) => `${'ab'[i % 2]},${i < 9 ? '?' : '30.83'},u,${'+-'[i % 2]}`],
    ['numbers', (i: number) => `${i + 1},${i + 2},${i + 3}`],
    ['a typing error in the first number', (i: number) => `${i === 0 ? '1o' : i},${i * 2}`],
    [
      'the word "unknown" instead of a number in the first row',
      (i: number) => `${i === 0 ? 'unknown' : i},${i * 2},${'ab'[i % 2]}`,
    ],
  ])('has data in its first line: %s', async (_, row) => {
    const { columns, rows } = await read(`${upTo(30).map(row).join('\n')}\n`);
    expect(columns).toEqual(rows[0]!.map((__, i) => `column ${i + 1}`));
    expect(rows).toHaveLength(30);
  });

  test.each([2, 3, 8, 9, 30])('is read with any separator if it has two columns and %i rows', async (count) => {
    for (const separator of [',', ';', '\t', '|']) {
      const rows = upTo(count).map((i) => [`${i}`, `${i % 2}`]);
      const text = [['a', 'y'], ...rows].map((row) => row.join(separator)).join('\n');
      for (const end of ['', '\n', '\n\n']) expect(await read(text + end)).toMatchObject({ columns: ['a', 'y'], rows });
    }
  });

  test.each([
    ['decimal commas without names', '0,5;1,25;0,125\n'.repeat(12), ['0,5', '1,25', '0,125']],
    ['decimal commas in every column', 'a;b\n0,5;1,25\n0,75;2,5\n', ['0,5', '1,25']],
    ['lists in a column', 'id,tags,y\n1,a;b;c,0\n2,a;c;d,1\n', ['1', 'a;b;c', '0']],
    ['lists in a column without names', '1,a|b|c,0\n2,a|c|d,1\n', ['1', 'a|b|c', '0']],
    ['text with commas', 'text;y\nhello, my world;1\nbye, my, my world;0\n', ['hello, my world', '1']],
  ])('is read with the right separator if its fields contain other separators: %s', async (_, text, row) => {
    expect((await read(text)).rows[0]).toEqual(row);
  });

  test('is read correctly if Papa Parse has written it', async () => {
    const field = fc.stringMatching(/^[a-z,;"' \t\n\r猫é0-9.]{0,8}$/);
    const table = fc
      .integer({ min: 2, max: 4 })
      .chain((width) =>
        fc.array(fc.array(field, { minLength: width, maxLength: width }), { minLength: 1, maxLength: 8 }),
      );
    await fc.assert(
      fc.asyncProperty(
        table,
        fc.constantFrom(',', ';', '\t', '|'),
        fc.constantFrom('\n', '\r\n', '\r'),
        async (rows, delimiter, newline) => {
          const header = rows[0]!.map((_, i) => `name${'x'.repeat(i)}`);
          const text = Papa.unparse([header, ...rows], { delimiter, newline, quotes: true });
          const found = await read(text);
          expect(found).toMatchObject({ columns: header, rows });
        },
      ),
    );
  });

  test('is read completely if it is longer than a chunk of the stream', async () => {
    const rows = Array.from({ length: 60_000 }, (_, i) => [`${i}`, i % 7 === 0 ? 'a "quoted", field' : 'é plain one']);
    const { rows: found } = await read(Papa.unparse([['n', 'text'], ...rows]));
    expect(found).toEqual(rows);
  }, 60_000);

  const long = `a,b\n${'1,x\n'.repeat(300_000)}`;
  test.each([
    ['an empty file', '', 'a.csv, line 1: the file has no records'],
    ['one field too many', 'a,b\n1,x\n2,y,z\n', 'a.csv, line 3: 3 fields, but line 1 has 2'],
    ['one field too many, with semicolons', 'a;b\n1;x\n2;y;z\n', 'a.csv, line 3: 3 fields, but line 1 has 2'],
    ['a missing field after a field with two lines', 'a,b\n1,"x\ny"\n2\n', 'a.csv, line 4: 1 field,'],
    ['an error in a late line', `${long}1\n`, 'a.csv, line 300002: 1 field,'],
    [
      'a quote that is never closed',
      'a,b\n1,"x\n2,y\n',
      'a.csv, line 2: a quote that is opened in this record is never closed',
    ],
    ['a quote that is never closed, in a large file', long.replace('x', '"x'), 'a.csv, line 2: a quote that is opened'],
    ['text after a closing quote', 'a,b\n1,"x"y\n2,y\n', 'a.csv, line 2: text follows the closing quote of a field'],
    [
      'duplicate names',
      'a,a\n1,2\n',
      'a.csv, line 1: two columns are named "a". Rename one of them. If line 1 is data, add a line with column names above it.',
    ],
    [
      'another encoding',
      new Uint8Array([0x61, 0x2c, 0x62, 0x0a, 0x31, 0x2c, 0xe9, 0x0a]),
      'a.csv, line 2: the text is not UTF-8',
    ],
    [
      'UTF-16',
      new Uint8Array([0xff, 0xfe, 0x61, 0]),
      'a.csv is not CSV: it starts with ff fe 61 00 at byte 0, like UTF-16 text',
    ],
    ['a workbook', new Uint8Array([0x50, 0x4b, 3, 4]), 'like a zip file or an Excel workbook. Export the sheet as CSV'],
    ['gzip', new Uint8Array([0x1f, 0x8b, 8, 0]), '1f 8b 08 00 at byte 0, like a gzip file. Unpack it.'],
    ['a line of JSON', '{"a": 1, "b": "x"}\n', 'like JSON. Convert it to CSV.'],
    ['a page', '<!DOCTYPE html>\n<html lang="en">', 'like a web page or XML.'],
    ['a picture', Uint8Array.of(0xff, 0xd8, 0xff, 0xe0, 0, 0x10), 'like a picture. Choose the job images.'],
    ['another format', 'PAR1,1\n', 'like a Parquet file.'],
    ['bytes that are 0', 'a,b\n1,\0\n', 'a.csv is not text: byte 6 is 0.'],
    [
      'decimal commas without quotes',
      'a,b\n1,2,5\n2,3,5\n',
      'a.csv, line 2: 3 fields, but line 1 has 2. If the lines above are neither',
    ],
    ['titles above the header', 'Prices\n2024\na,b\n1,2\n', 'line 3: 2 fields, but line 1 has 1. If the lines above'],
  ])('is rejected with a reason: %s', async (_, text, sentence) => {
    const error = await read(text).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(DataError);
    expect((error as DataError).message).toContain(sentence);
  });

  test('is rejected with its name and the byte position if it can no longer be read', async () => {
    const gone = new Blob(['a,b\n']);
    gone.slice = () => ({ arrayBuffer: () => Promise.reject(new Error('it was moved')) }) as unknown as Blob;
    await expect(readCsv('a.csv', gone, { begin: () => () => {} })).rejects.toThrow(
      'a.csv could not be read from byte 0 on (it was moved)',
    );
  });
});
