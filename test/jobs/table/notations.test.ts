/** Numbers and missing values as people, spreadsheets, databases and other programs write them. */
import { describe, expect, test } from 'vitest';
import { OpenedTable, type TableJob } from '../../../src/jobs/table/table.ts';
import { isMissingValueMarker } from '../../../src/formats/missing.ts';
import { parseNumberWithUnit, parseNumberField } from '../../../src/formats/numbers.ts';
import { agreeOnShardFacts, openFederatedShard } from '../../../src/jobs/index.ts';
import { sentencesOfNotes } from '../../../src/spec/preview.ts';
import { parseJob } from '../../../src/spec/job.ts';

const JOB: TableJob = { target: null, task: null, loss: null, metrics: null, seed: 1 };

/** Opens a table with the separator `|`, a column `a` of these fields, and a target. */
const open = (rows: number, field: (i: number) => string, job: Partial<TableJob> = {}): Promise<OpenedTable> => {
  const lines = Array.from({ length: rows }, (_, i) => `${field(i)}|${i % 2}`);
  return OpenedTable.open(new File([`a|y\n${lines.join('\n')}\n`], 'a.csv'), { ...JOB, ...job });
};

describe('a number', () => {
  test.each<[field: string, number: number, unit: string]>([
    ['61.8 kg', 61.8, 'kg'],
    ['12kr', 12, 'kr'],
    ['3.2 °C', 3.2, '°C'],
    ['5 m²', 5, 'm²'],
    ['7.5 l/100 km', 7.5, 'l/100 km'],
    ['USD 98.88', 98.88, 'USD'],
    ['98.88 USD', 98.88, 'USD'],
    ['-$5', -5, '$'],
    ['$-5', -5, '$'],
    ['US $5', 5, 'US $'],
    ['R$ 1,234.5', 1234.5, 'R$'],
    ['Rs.500', 500, 'Rs.'],
    ['5.- CHF', 5, 'CHF'],
    ['8.4%', 8.4, '%'],
    ['₹12,34,567', 1234567, '₹'],
    ['($1,234.50)', -1234.5, '$'],
    ['(5)', -5, ''],
    ['5-', -5, ''],
    ['−5', -5, ''],
    ['–5', -5, ''],
    ['- 5', -5, ''],
    ['+5', 5, ''],
    ["1'234.5", 1234.5, ''],
    ['1’234', 1234, ''],
    ['1 234 567.5', 1234567.5, ''],
    ['1\u00a0234', 1234, ''],
    ['1\u2009234', 1234, ''],
    ['1\u202f234', 1234, ''],
    ['1_000', 1000, ''],
    ['="0012"', 12, ''],
    ["'0012", 12, ''],
    ["'6.5'", 6.5, ''],
    ['“6.5”', 6.5, ''],
    ['1.5E+03', 1500, ''],
    ['1.5D+03', 1500, ''],
    ['1.5×10³', 1500, ''],
    ['1.5 x 10^-3', 0.0015, ''],
    ['５０', 50, ''],
    ['１２．５', 12.5, ''],
    ['٣٥', 35, ''],
    ['१२३', 123, ''],
    ['\ufeff5', 5, ''],
  ])('is read from %s', (field, number, unit) => {
    expect([parseNumberField(field, 'point'), parseNumberWithUnit(field)?.unit]).toEqual([number, unit]);
  });

  test.each([
    ['7 311,27', 7311.27],
    ['44,13 kr', 44.13],
    ['1.234,56 €', 1234.56],
    ['1,5E+03', 1500],
    ['٣٫٥', 3.5],
    ['５，５', 5.5],
  ])('with a decimal comma is read from %s', (field, number) => {
    expect(parseNumberField(field, 'comma')).toBe(number);
  });

  test.each(['A4', 'Q1', '5-10', '3+', '<5', '2020-01-15', '12:30', '192.168.1.1', '2x105', "5'11", '5 kg 3 g', '(5'])(
    'is not read from %s',
    (field) => {
      expect(parseNumberWithUnit(field)).toBeNull();
    },
  );
});

describe('a column of numbers', () => {
  test('may have one unit in several spellings, and a note names it', async () => {
    const opened = await open(60, (i) => `${i}.5 ${['kg', 'Kg', 'kg.'][i % 3]}`);
    expect(opened.preview.columns[0]).toMatchObject({ kind: 'number', mark: 'point' });
    expect(opened.preview.notes).toEqual([{ kind: 'unit', name: 'a', count: 60, example: '0.5 kg' }]);
    expect(opened.problem()).toBeNull();
  });

  test('may lack its unit in some rows, and a note says so', async () => {
    const { notes, columns } = (await open(60, (i) => (i % 10 ? `${i} kg` : String(i)))).preview;
    expect(columns[0]).toMatchObject({ kind: 'number' });
    expect(notes).toEqual([
      { kind: 'unit', name: 'a', count: 54, example: '1 kg' },
      { kind: 'unit-missing', name: 'a', count: 6, example: '0' },
    ]);
  });

  test.each([
    ['kg', 'lb'],
    ['kg', 'g'],
    ['€', 'USD'],
    ['°C', '°F'],
    ['%', '‰'],
    ['m', 'ft'],
    ['k', 'M'],
    ['km/h', 'mph'],
  ])('is rejected if some numbers are in %s and some in %s, whatever their shares', async (usual, other) => {
    for (const every of [2, 40]) {
      const problem = (await open(80, (i) => `${i} ${i % every === 1 ? other : usual}`)).problem();
      expect(problem?.message).toMatch(new RegExp(`^a\\.csv, line [23]: "[01] .+" in column "a" has the unit`));
    }
  });

  test.each<[string, (i: number) => string, string, string, number]>([
    ['in brackets', (i) => (i % 4 ? String(i + 1) : `(${i + 1})`), 'notation', '(1) = -1', 15],
    ['with leading zeros', (i) => String(i + 1).padStart(2, '0'), 'notation', '01 = 1', 9],
    ['with another minus sign', (i) => `−${i + 1}`, 'notation', '−1 = -1', 60],
    ['in other digits', (i) => `٣${'٠١٢'[i % 3]}`, 'notation', '٣٠ = 30', 60],
    ['whose decimal mark is guessed', (i) => `${1 + (i % 9)}.${100 + i}`, 'mark-guessed', '1.100 = 1.1', 60],
    ['that may stand for missing values', (i) => (i % 6 ? `${i}.5` : '-999'), 'maybe-missing', '-999', 10],
    ['such as 99 beside small numbers', (i) => (i % 6 ? String(i % 5) : '99'), 'maybe-missing', '99', 10],
    ['such as -9 beside others', (i) => (i % 6 ? String(i % 5) : '-9'), 'maybe-missing', '-9', 10],
  ])('has a note about numbers %s', async (_, field, kind, example, count) => {
    expect((await open(60, field)).preview.notes).toEqual([{ kind, name: 'a', count, example }]);
  });

  test.each<[string, (i: number) => string]>([
    ['99 among numbers up to 98', (i) => String(i % 6 ? i : 99)],
    ['-9 among other negative numbers', (i) => String(i % 6 ? i - 30 : -9)],
    ['one 999', (i) => String(i === 5 ? 999 : i)],
    ['only 99', () => '99'],
  ])('has no note about %s', async (_, field) => {
    expect((await open(60, field)).preview.notes).toEqual([]);
  });

  test.each<[string, (i: number) => string, string]>([
    ['dates', (i) => `2020-01-${10 + (i % 9)}`, '2020-01-10'],
    ['times', (i) => `${10 + (i % 9)}:30`, '10:30'],
    ['fractions', (i) => ['½', '1½', '¼'][i % 3]!, '1½'],
    ['feet and inches', (i) => `5'${i % 9}"`, '5\'0"'],
    ['many words with digits', (i) => `ca. ${10 + i}`, 'ca. 10'],
  ])('has a note if %s are read as words', async (_, field, example) => {
    expect((await open(60, field)).preview.notes).toMatchObject([{ kind: 'digits-as-words', count: 60, example }]);
  });

  test('has a note if some of its words differ only in letter case, and no note about a few words with digits', async () => {
    expect((await open(60, (i) => ['Red', 'red', 'Q1', 'B 2'][i % 4]!)).preview.notes).toEqual([
      { kind: 'words-alike', name: 'a', count: 2, example: 'Red / red' },
    ]);
  });

  test('may be the target, with units and grouped digits', async () => {
    const rows = Array.from({ length: 60 }, (_, i) => `${i};${i % 2 ? '9' : '10'} ${100 + i},70 €`);
    const opened = await OpenedTable.open(new File([`a;prix\n${rows.join('\n')}\n`], 'a.csv'), JOB);
    expect([opened.preview.task, opened.problem()]).toEqual(['regression', null]);
  });

  test.each([
    ['addresses', (i: number) => `${i} ${['Main', 'Oak', 'Elm'][i % 3]} Street ${'abcdefgh'[i % 8]}`, 'text'],
    ['classes of a school', (i: number) => `${1 + (i % 3)}${'ABCF'[i % 4]}`, 'category'],
    ['house numbers', (i: number) => `${i % 30}${['', '', 'a', 'b'][i % 4]}`, 'category'],
    ['ranges', (i: number) => `${i % 5}-${(i % 5) + 4}`, 'category'],
  ])('is not recognized in %s', async (_, field, kind) => {
    expect((await open(200, field)).preview.columns[0]!.kind).toBe(kind);
  });

  test.each([3, 10, 50, 90])('is rejected if a word occurs in %i percent of its rows', async (percent) => {
    const opened = await open(400, (i) => (i % 100 < percent ? 'oops' : `${i}.5`));
    expect(opened.problem()?.message).toContain('a.csv, line 2: "oops" in column "a" is not a number');
  });

  test('becomes a category, with a note, if it has few different numbers and some words', async () => {
    const { notes, columns } = (await open(60, (i) => ['1', '2', '3', 'crew'][i % 4]!)).preview;
    expect(columns[0]).toMatchObject({ kind: 'category', distinct: 4 });
    expect(notes).toEqual([{ kind: 'numbers-as-words', name: 'a', count: 45, example: 'crew' }]);
  });

  test('must have the same unit in all federated tables', async () => {
    const job = parseJob({ job: 'table', data: { kind: 'federated' } });
    const files = ['kg', 'KG', 'lb', ''].map((unit) => {
      const rows = Array.from({ length: 40 }, (_, i) => `${i} ${unit},${i % 2}`);
      return new File([`a,y\n${rows.join('\n')}\n`], 'a.csv');
    });
    const shards = await Promise.all(files.map((file) => openFederatedShard(job, [file])));
    const { divergent } = agreeOnShardFacts(
      shards.map(({ facts }) => facts),
      null,
      job,
    );
    expect(divergent).toEqual([
      { rank: 2, why: 'its column "a" has the unit "lb", but for the other ranks it has the unit "KG"' },
    ]);
  });
});

describe('a missing number', () => {
  test.each([
    ['pandas', '#N/A|#N/A N/A|#NA|-1.#IND|1.#QNAN|-NaN|-nan|<NA>|N/A|NA|NULL|NaN|None|n/a|nan|null'],
    [
      'Excel',
      '#DIV/0!|#VALUE!|#REF!|#NAME?|#NUM!|#NULL!|#SPILL!|#CALC!|#GETTING_DATA|#WERT!|#NV|#N/V|#BEZUG!|#ZAHL!|#ÜBERLAUF!',
    ],
    [
      'Excel in other languages',
      '#NOMBRE?|#¿NOMBRE?|#¡VALOR!|#VALEUR!|#NOM?|#RIF!|#NÚM!|#WAARDE!|#DEEL/0!|#ARG!|#ЗНАЧ!|#Н/Д|#VÄRDEFEL!|#YOK',
    ],
    ['LibreOffice and Google Sheets', 'Err:502|Fehler:502|#ERROR!|Loading...|####'],
    ['databases', '\\N|NULL|(null)|[NULL]|<null>|nil|undefined'],
    ['statistics programs', '.|.a|.z|._|NA_real_|SYSMIS|missing|NaT'],
    [
      'people',
      'n.d.|k.A.|k. A.|s/d|unknown|Unbekannt|?|??|-|--|—|…|...|keine Angabe|ohne Angabe|trifft nicht zu|not available|pending|below LOD|－|無し|没有|н/д|无|未知|不明|brak danych|inconnu|$ -',
    ],
  ])('is recognized as written by %s', (_, fields) => {
    expect(fields.split('|').filter((field) => !isMissingValueMarker(field))).toEqual([]);
  });

  test('is not recognized in a number, a name, or a sign with a meaning such as + or %', () => {
    expect(
      ['0', '-99', '5', '1st', '#1', 'yes', 'no', 'Berlin', '+', '*', 'A', 'male', '%'].filter(isMissingValueMarker),
    ).toEqual([]);
  });

  test.each([2, 9, 11, 60, 95])(
    'is recognized if it occurs in %i percent of the rows, and a note names it',
    async (percent) => {
      const opened = await open(400, (i) => (i % 100 < percent ? '#DIV/0!' : `${i}.5`));
      expect(opened.problem()).toBeNull();
      expect(opened.preview.columns[0]).toMatchObject({ kind: 'number', missing: 4 * percent });
      expect(opened.preview.notes).toEqual([{ kind: 'marker', name: 'a', count: 4 * percent, example: '#DIV/0!' }]);
    },
  );
});

describe('a column to predict', () => {
  test.each([
    ['is an amount: ten prices of ten rows', 10, (i: number) => String(100_000 + 1000 * i), 'regression'],
    ['is an amount: prices that occur twice', 16, (i: number) => String(99.5 + (i % 8)), 'regression'],
    ['is a class: small integers', 20, (i: number) => String(i % 5), 'classification'],
    ['is a class: numbers that occur often', 60, (i: number) => String(100 * (i % 3)), 'classification'],
  ])('%s', async (_, rows, field, task) => {
    const lines = Array.from({ length: rows }, (__, i) => `${i},${field(i)}`);
    const opened = await OpenedTable.open(new File([`a,y\n${lines.join('\n')}\n`], 'a.csv'), JOB);
    expect([opened.preview.task, opened.problem()]).toEqual([task, null]);
  });
});

test('a column to predict is rejected if each of its classes has only one row', async () => {
  const lines = Array.from({ length: 30 }, (_, i) => `${i},No. ${i}\n`);
  const opened = await OpenedTable.open(new File([`a,y\n${lines.join('')}`], 'a.csv'), JOB);
  const message = 'a.csv, column "y": each of the 30 classes has a single sample';
  expect(opened.problem()?.message).toContain(message);
  await expect(opened.load()).rejects.toThrow(message);
});

test('a column without values is left out, with its most frequent marker and the number of rows', async () => {
  const words = ['не доступно', 'n.v.t.', 'не доступно', ''];
  const opened = await open(40, (i) => words[i % 4]!, { target: 'y' });
  expect(sentencesOfNotes(opened.preview.notes)).toEqual([
    '1 column is left out (no values): a (“не доступно”, 40 rows).',
  ]);
});

test('reading a large table reports the bytes read', async () => {
  const lines = Array.from({ length: 100_000 }, (_, i) => `${i} kg,${i % 7},some more text to read\n`);
  const file = new File([`a,y,z\n${lines.join('')}`], 'a.csv');
  const done: number[] = [];
  await OpenedTable.open(file, { ...JOB, target: 'y' }, (progress) => done.push(progress.done));
  const chunks = Math.ceil(file.size / 2 ** 19);
  expect(done).toEqual(Array.from({ length: chunks }, (_, i) => Math.min((i + 1) * 2 ** 19, file.size)));
});

test('a number that is too large to be squared is rejected', async () => {
  const opened = await open(60, (i) => (i === 7 ? '-1e308' : `${i}`));
  expect(opened.problem()?.message).toBe(
    'a.csv, line 9: "-1e308" in column "a" is too large. Numbers may be at most 1e+150 in size. Use a larger unit, or leave the field empty.',
  );
});

const rowsOf = (row: (i: number) => string): string => Array.from({ length: 20 }, (_, i) => `${row(i)}\n`).join('');
const read = async (text: string): Promise<unknown> => {
  const opened = await OpenedTable.open(new File([text], 'a.csv'), JOB);
  const { train } = await opened.load();
  const inputs = new Float32Array(train.size);
  const all = Uint32Array.from({ length: train.size }, (_, i) => i);
  await train.read(all, inputs, new Int32Array(train.size));
  const { columns, rows, target, notes } = opened.preview;
  return { names: columns.map(({ name }) => name), rows, target, notes, different: new Set(inputs).size };
};
test.each([
  ['little-endian', false, true],
  ['big-endian', true, true],
  ['little-endian, without a mark', false, false],
])('a table in UTF-16 (%s) can be read, and a note says so', async (_, isBig, isMarked) => {
  const text = `größe\ty\r\n${rowsOf((i) => `${i},5\t${'uv'[i % 2]}`)}`;
  const bytes = Buffer.from(`${isMarked ? '\ufeff' : ''}${text}`, 'utf16le');
  const { preview } = await OpenedTable.open(new File([isBig ? bytes.swap16() : bytes], 'a.csv'), JOB);
  expect(preview).toMatchObject({
    rows: 20,
    columns: [
      { name: 'größe', kind: 'number', mark: 'comma' },
      { name: 'y', kind: 'category' },
    ],
    notes: [{ kind: 'utf-16', count: 1, name: '', example: 'a.csv' }],
  });
});

/** The same table in encodings that spreadsheets write: größe, 颜色 and 色. */
test.each([
  ['windows-1252', 'größe', [0x67, 0x72, 0xf6, 0xdf, 0x65]],
  ['gb18030', '颜色', [0xd1, 0xd5, 0xc9, 0xab]],
  ['shift_jis', '色|', [0x90, 0x46, 0x7c]],
] as const)(
  'a table in %s is read if the job states it; otherwise the error names it',
  async (encoding, name, bytes) => {
    const rest = Buffer.from(`;y\r\n${rowsOf((i) => `${i},5;${'uv'[i % 2]}`)}`);
    const file = new File([Uint8Array.from(bytes), rest], 'a.csv');
    const { preview } = await OpenedTable.open(file, { ...JOB, encoding });
    expect(preview.columns.map((column) => column.name)).toEqual([name, 'y']);
    expect(preview.rows).toBe(20);
    await expect(OpenedTable.open(file, JOB)).rejects.toThrow(
      new RegExp(`a.csv, line 1: the text is not UTF-8\\. .* --encoding\\. It may be .*${encoding}`),
    );
  },
);

test('bytes that do not belong to the stated encoding are rejected, and byte order marks of UTF-8 and UTF-16 take precedence', async () => {
  const text = `größe,y\n${rowsOf((i) => `${i},${i % 2}`)}`;
  const job = { ...JOB, encoding: 'shift_jis' } as const;
  await expect(OpenedTable.open(new File([Uint8Array.of(0x80, 0xff, 0x2c)], 'a.csv'), job)).rejects.toThrow(
    'a.csv is not text in shift_jis. Choose another encoding by the job field "encoding" or --encoding',
  );
  for (const marked of [Buffer.from(`\ufeff${text}`), Buffer.from(`\ufeff${text}`, 'utf16le')]) {
    const { preview } = await OpenedTable.open(new File([marked], 'a.csv'), job);
    expect(preview.columns[0]!.name).toBe('größe');
  }
});

describe('lines of a file', () => {
  const whole = { names: ['a', 'y'], rows: 20, target: 'y', notes: [], different: 16 };

  test.each([
    ['the separator for Excel', `sep=;\na;y\n${rowsOf((i) => `${i};${'uv'[i % 2]}`)}`],
    ['the separator, after a byte order mark', `\ufeffsep=,\r\na,y\r\n${rowsOf((i) => `${i},${i % 2}`)}`],
    ['the separator and spaces', `sep = ;\na;y\n${rowsOf((i) => `${i};${i % 2}`)}`],
    ['the separator as a name', `sep=\\t\na\ty\n${rowsOf((i) => `${i}\t${i % 2}`)}`],
    ['an empty line and the separator', `\nsep=|\ra|y\r${rowsOf((i) => `${i}|${i % 2}`)}`],
    ['an unusual separator', `SEP=^\na^y\n${rowsOf((i) => `${i}^${i % 2}`)}`],
  ])('may begin with something that is not data: %s', async (_, text) => {
    expect(await read(text)).toEqual(whole);
  });

  test.each([
    ['of rows', `a,y\n${rowsOf((i) => `${i},${i % 2},`)}`],
    ['of all lines', `a,y,\n${rowsOf((i) => `${i},${i % 2},`)}`],
    ['of the header', `a,y,\n${rowsOf((i) => `${i},${i % 2}`)}`],
  ])('may have a separator at the end: %s', async (_, text) => {
    expect(await read(text)).toEqual(whole);
  });

  test('may begin with a name that has no field in the header, as from R, and a note says so', async () => {
    expect(await read(`"a","y"\n${rowsOf((i) => `"car ${i}",${i},${i % 2}`)}`)).toEqual({
      ...whole,
      notes: [{ kind: 'row-names', count: 20, name: '', example: 'car 0' }],
    });
  });

  test.each([
    ['numbers', `a,y\n${rowsOf((i) => `${i},${i},${i % 2}`)}`],
    ['words that occur several times', `a,y\n${rowsOf((i) => `${'uv'[i % 2]},${i},${i % 2}`)}`],
    ['spaces and a quoted comma', `a, t, y\n${rowsOf((i) => `${i}, "x, ${i}", ${i % 2}`)}`],
  ])('are rejected if they have one field more than the header and begin with %s', async (_, text) => {
    await expect(read(text)).rejects.toThrow(/^a\.csv, line 2: [34] fields, but line 1 has [23]\. .* in double quotes/);
  });

  test('are rejected with the line number if they repeat the header', async () => {
    const part = `a,y\n${rowsOf((i) => `${i},${'uv'[i % 2]}`)}`;
    await expect(read(part + part)).rejects.toThrow('a.csv, line 22: "a" in column "a" is not a number');
  });

  test('are rejected if only some of them have more fields than the header', async () => {
    const text = `a,y\n${rowsOf((i) => `${i},${i % 2}${i === 9 ? ',5' : ''}`)}`;
    await expect(read(text)).rejects.toThrow('a.csv, line 11: 3 fields, but line 1 has 2.');
  });
});
