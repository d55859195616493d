/** Tests of tables as they occur in practice: missing values, notations of numbers, headers. */
import { describe, expect, test } from 'vitest';
import { sampleLength } from '../../../src/jobs/dataset.ts';
import { agreeOnShardFacts, openFederatedShard } from '../../../src/jobs/index.ts';
import { trainTestSplit } from '../../../src/jobs/trainTestSplit.ts';
import { OpenedTable, type TableJob } from '../../../src/jobs/table/table.ts';
import { parseJob, type JobSpec } from '../../../src/spec/job.ts';

const JOB: TableJob = { target: null, task: null, loss: null, metrics: null, seed: 1 };

const open = (text: string, job: Partial<TableJob> = {}): Promise<OpenedTable> =>
  OpenedTable.open(new File([text], 'a.csv'), { ...JOB, ...job });

/** Returns a table with a header and rows. */
const table = (header: string, rows: number, row: (i: number) => string): string =>
  `${header}\n${Array.from({ length: rows }, (_, i) => row(i)).join('\n')}\n`;

/** Returns a table with a column of numbers and a target that repeats these classes. */
const classes = (...names: string[]): string =>
  table('size,class', 20 * names.length, (i) => `${i % 13},${names[i % names.length]}`);

async function sizes(text: string, job: Partial<TableJob> = {}): Promise<[samples: number, inputs: number]> {
  const { train, test: held } = await (await open(text, job)).load();
  return [train.size + held.size, sampleLength(train)];
}

const federated = parseJob({ job: 'table', data: { kind: 'federated' } });

const shardsOf = (texts: readonly string[], job: JobSpec = federated) =>
  Promise.all(
    texts.map(async (text) => {
      const shard = await openFederatedShard(job, [new File([text], 'a.csv')]);
      if ('read' in shard) throw new Error('This is a text.');
      return shard;
    }),
  );

describe('a missing value', () => {
  test.each([
    ['none', 'mild', 'severe'],
    ['+', '-'],
    ['+', 'neutral', '-'],
    ['DE', 'NA', 'FR'],
    ['?', 'known'],
    ['null', 'NaN', 'n/a', 'x'],
  ])('in a target column of words is an empty field and nothing else: %s and %s are classes', async (...names) => {
    const text = classes(...names);
    const opened = await open(text);
    expect(opened.problem()).toBeNull();
    expect(opened.preview.classes.map(({ name, count }) => [name, count])).toEqual(
      [...names].sort().map((name) => [name, 20]),
    );
    const { train, test: held } = await opened.load();
    expect(train.classNames).toEqual([...names].sort());
    expect(train.size + held.size).toBe(20 * names.length);
  });

  test('in a feature column of words is an empty field and nothing else: markers such as "-" and "?" are words', async () => {
    const text = table('road,class', 90, (i) => `${['none', 'gravel', '-', '?', ''][i % 5]},${i % 2}`);
    expect((await open(text)).preview.columns[0]).toMatchObject({ kind: 'category', missing: 18, distinct: 4 });
    expect(await sizes(text)).toEqual([90, 4]);
  });

  test('is an empty field or a marker such as "NA" in a column of numbers', async () => {
    const words = ['', 'NA', 'n/a', 'NaN', 'null', 'None', '?', '-', '#N/A', '<NA>', '.', '--'];
    const text = table('size,class', 60, (i) => `${i < 12 ? words[i] : i},${i % 2}`);
    expect((await open(text)).preview.columns[0]).toMatchObject({ kind: 'number', missing: 12, distinct: 48 });
    // The two inputs: the number, and whether it is missing.
    expect(await sizes(text)).toEqual([60, 2]);
  });

  test('in a numeric target column removes its row', async () => {
    const text = table('size,class', 60, (i) => `${i},${i % 3 === 0 ? '?' : i % 2}`);
    expect((await open(text)).preview.classes).toEqual([
      { name: '0', count: 20 },
      { name: '1', count: 20 },
    ]);
    expect(await sizes(text)).toEqual([40, 1]);
  });

  test('in every row of a column makes this column empty', async () => {
    const text = table('a,b,class', 20, (i) => `NA,${i},${i % 2}`);
    expect((await open(text)).preview.columns[0]).toMatchObject({ kind: 'empty', missing: 20 });
    expect((await open(classes('-'))).problem()?.message).toContain('column "class" has the same value in every row');
  });

  test('is recognized in the same way in all federated tables, even if in one table every class is "-" or every field "?"', async () => {
    const texts = [
      table('a,b,class', 20, (i) => `?,${i},-`),
      table('a,b,class', 20, (i) => `${i},${i % 2 ? '?' : i},+`),
      table('a,b,class', 20, (i) => `${i},${i},+`),
    ];
    const shards = await shardsOf(texts);
    const { facts, divergent } = agreeOnShardFacts(
      shards.map((shard) => shard.facts),
      null,
      federated,
    );
    expect(divergent).toEqual([]);
    for (const [i, shard] of shards.entries()) {
      const { train } = await shard.load(facts);
      expect(train).toMatchObject({ size: 16, classNames: ['+', '-'], inputShape: [1, 1, 4] });
      const inputs = new Float32Array(4);
      const labels = new Int32Array(1);
      await train.read([0], inputs, labels);
      expect([labels[0], inputs[1]]).toEqual(i === 0 ? [1, 1] : [0, 0]);
    }
  });

  test('is a word in a column of words, but the table is divergent if most tables have numbers in this column', async () => {
    const texts = [
      table('a,b', 20, (i) => `${i},${i % 3}`),
      table('a,b', 20, (i) => `${i},${i % 2}`),
      table('a,b', 20, (i) => `${i},${['none', 'some'][i % 2]}`),
    ];
    const shards = await shardsOf(texts);
    const all = shards.map((shard) => shard.facts);
    expect(agreeOnShardFacts(all, null, federated).divergent).toEqual([
      { rank: 2, why: 'its column "b" contains words, but for the other ranks it contains numbers' },
    ]);
  });
});

/** Returns the number in each column. Every column repeats a single number. */
async function meansOf(text: string): Promise<number[]> {
  const { columns } = (await open(text)).facts();
  return columns.map(({ moments }) => moments.mean);
}

describe('numbers', () => {
  test.each([40, 400])('may have decimal commas in a file with semicolons (%i rows)', async (rows) => {
    const text = table('menge;preis;umsatz', rows, (i) => `${i % 7};${i % 5},25;${i},5`);
    expect((await open(text)).preview).toMatchObject({
      task: 'regression',
      columns: [
        { kind: 'number', mark: null },
        { kind: 'number', mark: 'comma' },
        { kind: 'number', mark: 'comma' },
      ],
    });
    expect(await sizes(text)).toEqual([rows, 2]);
  });

  test.each([
    ['1.234,56', ';', 1234.56],
    ['-1.234.567', '\t', -1234567],
    ['2,5', '\t', 2.5],
    // Spreadsheets write a quoted number if the comma is both the decimal mark and the separator.
    ['"2,5"', ',', 2.5],
    ['"1,234"', ',', 1234],
    ['"1,234,567.5"', ',', 1234567.5],
    ['"1,234.5"', ',', 1234.5],
  ])(
    'may have decimal commas or thousands separators: %s in a file with the separator "%s"',
    async (number, separator, mean) => {
      const text = table(`a${separator}b`, 30, (i) => `${number}${separator}${i}`);
      expect((await meansOf(text))[0]).toBeCloseTo(mean, 9);
    },
  );

  test('use the decimal mark of the other columns if their own mark is ambiguous', async () => {
    const comma = await meansOf(table('a;b;c;y', 30, (i) => `1.234;1,234;2,5;${i}`));
    expect(comma.slice(0, 3)).toEqual([1234, 1.234, 2.5]);
    const point = await meansOf(table('a;b;c;y', 30, (i) => `1.234;1,234;2.5;${i}`));
    expect(point.slice(0, 3)).toEqual([1.234, 1234, 2.5]);
    // If there are no other columns, the decimal mark is a point.
    expect((await meansOf(table('a;y', 30, (i) => `1.234;${i}`)))[0]).toBe(1.234);
  });

  test.each([
    [
      'a number with an unclear decimal mark',
      table('a;b', 30, (i) => `${i < 9 ? i : `1,${100 + i}`};${i % 2}`),
      'a.csv, line 11: "1,109" in column "a" may be 1109 or 1.109, because nothing in the file shows the decimal mark. ' +
        'Write all numbers with a decimal point and without thousands separators.',
    ],
    [
      'a number with an unclear decimal mark in a file with both decimal marks',
      table('a;b;c;y', 30, (i) => `2,5;2.5;${i < 9 ? i : '1.234'};${i % 2}`),
      'a.csv, line 11: "1.234" in column "c" may be 1.234 or 1234, because some other columns have decimal points and some have decimal commas. ' +
        'Write all numbers with a decimal point and without thousands separators.',
    ],
    [
      'a decimal mark that differs from that of most numbers',
      table('a;y', 60, (i) => `${i === 50 ? '3.5' : `${i},25`};${i % 2}`),
      'a.csv, line 52: "3.5" in column "a" has another decimal mark than the 59 other numbers of the column. Use the same decimal mark in all of them.',
    ],
    [
      'equally many numbers with both decimal marks',
      table('a;y', 60, (i) => `${i % 2 ? `${i}.5` : `${i},25`};${i % 2}`),
      'has another decimal mark than the 30 other numbers',
    ],
    [
      'a word among prices',
      table('a;y', 60, (i) => `${i === 0 ? 'free' : `$${i},000`};${i % 2}`),
      'a.csv, line 2: "free" in column "a" is not a number, but 59 other values of the column are numbers.',
    ],
    [
      'numbers with and without a percent sign',
      table('a,y', 60, (i) => `${i}.5${i % 3 ? ' %' : ''},${i % 2}`),
      'a.csv, line 2: "0.5" in column "a" has no unit, but 40 other values of the column, such as "1.5 %", have the unit "%". Write all numbers in the same unit.',
    ],
    [
      'a word among numbers',
      table('a;y', 60, (i) => `${i === 50 ? '5o' : `${i},25`};${i % 2}`),
      'a.csv, line 52: "5o" in column "a" is not a number, but 59 other values of the column are numbers. Correct the value, leave it empty, or remove the line if it is not data.',
    ],
  ])('are rejected with a reason: %s', async (_, text, sentence) => {
    expect((await open(text)).problem()?.message).toContain(sentence);
    await expect((await open(text)).load()).rejects.toThrow(sentence);
  });

  test('are one class in all notations, such as "1", "1,0" and "01"', async () => {
    const text = table('a;y', 30, (i) => `${i},5;${['1', '1,0', '1,5', '01'][i % 4]}`);
    expect((await open(text)).preview.classes).toEqual([
      { name: '1', count: 23 },
      { name: '1.5', count: 7 },
    ]);
    expect((await (await open(text)).load()).train.classNames).toEqual(['1', '1.5']);
  });

  test('are different classes even if they differ only beyond the digits of a float64', async () => {
    const names = [
      '10000000000000000001',
      '10000000000000000002',
      '0.12345678901234567891',
      '0.12345678901234567892',
      '9',
    ];
    const text = table('a,id', 60, (i) => `${i},${names[i % 5]}`);
    const { train } = await (await open(text)).load();
    expect(train.classNames).toEqual([...names].sort());
    const same = ['1', '1.000000000000000000', '0000000000000000001', '1e0', '2'];
    const { train: few } = await (await open(table('a,id', 60, (i) => `${i},${same[i % 5]}`))).load();
    expect(few.classNames).toEqual(['1', '2']);
  });

  test('must have the same decimal mark in all federated tables, unless they are integers', async () => {
    const [comma, alike, whole, point] = await shardsOf([
      table('a;y', 20, (i) => `${i},5;${i % 2}`),
      table('a;y', 20, (i) => `${i},25;${i % 2}`),
      table('a;y', 20, (i) => `${i};${i % 2}`),
      table('a;y', 20, (i) => `${i}.5;${i % 2}`),
    ]);
    const agreedBy = (...shards: (typeof comma)[]) =>
      agreeOnShardFacts(
        shards.map((shard) => shard!.facts),
        null,
        federated,
      );
    const { facts, divergent } = agreedBy(comma, alike, whole);
    expect(divergent).toEqual([]);
    expect(facts).toMatchObject({ columns: [{ kind: 'number', mark: 'comma' }, { mark: null }] });
    expect(agreedBy(comma, alike, point).divergent).toEqual([
      { rank: 2, why: 'its column "a" has decimal points, but for the other ranks it has decimal commas' },
    ]);
    // The other tabs have only integers. A tab that joins later reads its numbers with its own
    // decimal mark.
    const { facts: wholes } = agreedBy(whole, whole);
    expect(agreeOnShardFacts([comma!.facts], wholes, federated).divergent).toEqual([]);
    const { train } = await comma!.load(wholes);
    const inputs = new Float32Array(train.size);
    await train.read(
      Uint32Array.from({ length: train.size }, (__, i) => i),
      inputs,
      new Int32Array(train.size),
    );
    expect(new Set(inputs).size).toBe(train.size);
  });
});

describe('a header', () => {
  test('is reported as missing if the job names a target and the first line contains data', async () => {
    const text = table('x,o,positive', 20, (i) => `${'xo'[i % 2]},${'ox'[i % 2]},${i % 3 ? 'positive' : 'negative'}`);
    expect((await open(text, { target: 'class' })).problem()?.message).toBe(
      'a.csv, line 1: there is no column "class". Line 1 contains data instead of column names. ' +
        'Add a line of names above it, or choose one of column 1, column 2, column 3.',
    );
    const opened = await open(text);
    expect(opened.problem()).toBeNull();
    expect(opened.preview).toMatchObject({ rows: 21, target: 'column 3', classes: [{ count: 7 }, { count: 14 }] });
  });

  test('is reported as a single column if spaces separate its names', async () => {
    const text = table('a b y', 20, (i) => `${i} ${i * 2} ${i % 2}`);
    expect((await open(text)).problem()?.message).toBe(
      'a.csv, line 1: there is only one column. Separate columns by a comma, a semicolon, a tab or |.',
    );
  });

  test('must be present in all federated tables or in none; tables that differ from most are divergent', async () => {
    const shards = await shardsOf(
      ['size,kind', 'size,kind', '5,a'].map((first) => table(first, 20, (i) => `${i},${'ab'[i % 2]}`)),
    );
    const all = shards.map((shard) => shard.facts);
    expect(agreeOnShardFacts(all, null, federated).divergent).toEqual([
      { rank: 2, why: 'its columns are column 1, column 2, but those of the other ranks are size, kind' },
    ]);
  });
});

describe('held-out rows', () => {
  /** The rows that are held out because of the seed, if the classes of rows alternate. */
  const heldOut = trainTestSplit(
    Uint8Array.from({ length: 20 }, (_, i) => i % 2),
    JOB.seed,
  ).test;

  test('add no inputs for categories or missing values: values that only they contain are encoded as zeros', async () => {
    const text = table('a,b,y', 20, (i) => (heldOut.includes(i) ? `,rare,${i % 2}` : `${i},${'uv'[i % 2]},${i % 2}`));
    const opened = await open(text);
    const { train, test: held } = await opened.load();
    // a, u and v.
    expect([opened.samples.inputShape, train.inputShape]).toEqual([
      [1, 1, 3],
      [1, 1, 3],
    ]);
    const inputs = new Float32Array(3);
    await held.read([0], inputs, new Int32Array(1));
    expect([...inputs]).toEqual([0, 0, 0]);
    const shard = (await shardsOf([text]))[0]!;
    expect(shard.facts).toMatchObject({ columns: [{ isMissing: false }, { values: ['u', 'v'] }, {}] });
  });

  test('and training rows have all classes with at least two rows, even if notations of a class differ', async () => {
    const text = table('a,y', 20, (i) => `${i},${i === 3 ? '7.0' : i === 9 ? '7' : i % 2}`);
    const { train, test: held } = await (await open(text)).load();
    const labelsOf = async (part: typeof train): Promise<number[]> => {
      const labels = new Int32Array(part.size);
      await part.read(
        labels.map((_, i) => i),
        new Float32Array(part.size),
        labels,
      );
      return [...new Set(labels.sort())];
    };
    expect([await labelsOf(train), await labelsOf(held)]).toEqual([
      [0, 1, 2],
      [0, 1, 2],
    ]);
  });

  test('and rows without a target add no categories', async () => {
    const text = table('b,y', 20, (i) => (i < 10 ? `${'uv'[i % 2]},${i % 2}` : 'rare,'));
    expect((await (await open(text)).load()).train.inputShape).toEqual([1, 1, 2]);
  });

  test('do not count in the check that the target of a regression has different values', async () => {
    const { test: held } = trainTestSplit(new Uint8Array(20), JOB.seed);
    const text = table('a,y', 20, (i) => `${i},${held.includes(i) ? i : 5}`);
    expect((await open(text, { task: 'regression' })).problem()?.message).toContain(
      'has the same value in every training row',
    );
  });
});

describe('a preview', () => {
  test('shows how many rows each missing value of the target removes, such as "?"', async () => {
    const fields = ['', ' ', '?', 'NA', '0', '1', '1', '0', '1', '0'];
    const numbers = await open(table('a,y', 40, (i) => `${i},${fields[i % 10]}`));
    expect(numbers.preview.notes).toEqual([
      { kind: 'rows-unlabelled', name: 'y', count: 8, example: '' },
      { kind: 'rows-unlabelled', name: 'y', count: 4, example: '?' },
      { kind: 'rows-unlabelled', name: 'y', count: 4, example: 'NA' },
    ]);
    const words = await open(table('a,y', 40, (i) => `${i},${['', 'NA', 'x', 'y'][i % 4]}`));
    expect(words.preview.notes).toEqual([{ kind: 'rows-unlabelled', name: 'y', count: 10, example: '' }]);
    const { train, test: held } = await words.load();
    expect(train.size + held.size).toBe(30);
    expect((await open(classes('+', '-'))).preview.notes).toEqual([]);
  });

  test('shows which columns are left out, and says so if the first line is data', async () => {
    const { columns, hasHeader, notes } = (await open(table('a,b,c,y', 150, (i) => `note ${i},NA,${i},${i % 2}`)))
      .preview;
    expect(columns.map(({ kind }) => kind)).toEqual(['text', 'empty', 'number', 'number']);
    expect(hasHeader).toBe(true);
    expect(notes).toEqual([
      { kind: 'column-of-text', name: 'a', count: 150, example: 'note 0' },
      { kind: 'column-empty', name: 'b', count: 150, example: 'NA' },
    ]);
    expect((await open(table('5,x', 20, (i) => `${i},${'xy'[i % 2]}`))).preview).toMatchObject({
      rows: 21,
      hasHeader: false,
      notes: [{ kind: 'no-header' }],
    });
  });
});

describe('a well-known file', () => {
  test('is read: UCI crx, without a header, with the marker "?" and the classes "+" and "-"', async () => {
    const text = `${Array.from({ length: 60 }, (_, i) =>
      [
        ['b', 'a', '?'][i % 3],
        i % 10 === 9 ? '?' : `${20 + i}.${10 + i}`,
        ['u', 'y'][i % 2],
        ['t', 'f'][i % 2],
        String(i % 7).padStart(2, '0'),
        i % 20 === 19 ? '?' : `00${200 + i}`,
        '+-'[i % 2],
      ].join(','),
    ).join('\n')}\n`;
    const opened = await open(text);
    expect(opened.problem()).toBeNull();
    expect(opened.preview).toMatchObject({
      rows: 60,
      hasHeader: false,
      notes: [
        { kind: 'no-header' },
        { kind: 'marker', name: 'column 2' },
        { kind: 'notation', name: 'column 5', example: '00 = 0' },
        { kind: 'marker', name: 'column 6' },
        { kind: 'notation', name: 'column 6' },
      ],
      columns: [
        { kind: 'category', missing: 0, distinct: 3 },
        { kind: 'number', missing: 6 },
        { kind: 'category' },
        { kind: 'category' },
        { kind: 'number', missing: 0 },
        { kind: 'number', missing: 3 },
        { kind: 'category', missing: 0 },
      ],
      classes: [
        { name: '+', count: 30 },
        { name: '-', count: 30 },
      ],
    });
    // The inputs: 3 words, a number with its marker, 2 words, 2 words, a number, a number with its
    // marker.
    expect(await sizes(text)).toEqual([60, 12]);
  });

  test('is read: Kaggle Titanic, with commas in quoted names, unused names and tickets, and missing ages', async () => {
    const text = table('PassengerId,Survived,Name,Sex,Age,Ticket,Cabin,Embarked', 150, (i) =>
      [
        i + 1,
        i % 2,
        `"Person ${i}, Mr. ""Al"" ${i}"`,
        ['male', 'female'][i % 2],
        i % 5 ? 20 + (i % 50) : '',
        i % 4 ? 11_000 + i : `A/5 ${i}`,
        i % 20 ? '' : 'C85',
        'SCQ'[i % 3],
      ].join(','),
    );
    const opened = await open(text, { target: 'Survived' });
    expect(opened.problem()).toBeNull();
    expect(opened.preview.columns.map(({ name, kind, missing }) => [name, kind, missing])).toEqual([
      ['PassengerId', 'number', 0],
      ['Survived', 'number', 0],
      ['Name', 'text', 0],
      ['Sex', 'category', 0],
      ['Age', 'number', 30],
      ['Ticket', 'text', 0],
      ['Cabin', 'category', 142],
      ['Embarked', 'category', 0],
    ]);
    // The inputs: a number, 2 words, a number with its marker, 1 word, 3 words.
    expect(await sizes(text, { target: 'Survived' })).toEqual([150, 9]);
  });

  test.each([
    [
      'a title',
      'Prices of 2024\n',
      'fields, but line 1 has 1. If the lines above are neither a header nor data, remove them. Otherwise',
    ],
  ])('is rejected with advice if it has %s above the header', async (_, first, sentence) => {
    const text = first + table('a;b;y', 20, (i) => `${i};${i * 2};${i % 2}`);
    await expect(open(text)).rejects.toThrow(sentence);
    await expect(open(text)).rejects.toThrow('a.csv, line 2: 3');
  });
});
