import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { sampleLength, type Dataset } from '../../../src/jobs/dataset.ts';
import { OpenedTable, type TableJob } from '../../../src/jobs/table/table.ts';

const JOB: TableJob = { target: null, task: null, loss: null, metrics: null, seed: 1 };

const open = (text: string, job: Partial<TableJob> = {}): Promise<OpenedTable> =>
  OpenedTable.open(new File([text], 'a.csv'), { ...JOB, ...job });

async function all(data: Dataset): Promise<{ inputs: number[][]; labels: number[] }> {
  const width = sampleLength(data);
  const inputs = new Float32Array(data.size * width);
  const labels = new Float32Array(data.size);
  await data.read(
    Uint32Array.from({ length: data.size }, (_, i) => i),
    inputs,
    labels,
  );
  return {
    inputs: Array.from({ length: data.size }, (_, i) => [...inputs.subarray(i * width, (i + 1) * width)]),
    labels: [...labels],
  };
}

const words = (count: number): string => Array.from({ length: count }, (_, i) => `w${i},${i % 2}`).join('\n');

const flowers = `size,colour,note,nothing,kind
1.5,red,a,,rose
2.5,,b,,lily
NA,blue,c,,rose
3.5,red,d,,
`;

describe('a table', () => {
  test('has a preview with the kind of each column', async () => {
    expect((await open(flowers)).preview).toMatchObject({
      rows: 4,
      columns: [
        { name: 'size', kind: 'number', missing: 1, distinct: 3 },
        { name: 'colour', kind: 'category', missing: 1, distinct: 2 },
        { name: 'note', kind: 'category', missing: 0, distinct: 4 },
        { name: 'nothing', kind: 'empty', missing: 4, distinct: 0 },
        { name: 'kind', kind: 'category', missing: 1, distinct: 2 },
      ],
      sample: [
        ['1.5', 'red', 'a', '', 'rose'],
        ['2.5', '', 'b', '', 'lily'],
        ['NA', 'blue', 'c', '', 'rose'],
        ['3.5', 'red', 'd', '', ''],
      ],
      target: 'kind',
      task: 'classification',
      classes: [
        { name: 'lily', count: 1 },
        { name: 'rose', count: 2 },
      ],
    });
  });

  test('has an input for each word and for missing numbers, and no samples for rows without a target', async () => {
    // Every held-out row is equal to a training row.
    const twice = '1,red,rose\n3,,lily\nNA,blue,rose\n3,red,\n'.repeat(2);
    const table = await open(`size,colour,kind\n${twice}`, { seed: 3 });
    const { train, test: held } = await table.load();
    expect([train.size, held.size, train.inputShape]).toEqual([4, 2, [1, 1, 4]]);
    expect(train).toMatchObject({ classes: 2, classNames: ['lily', 'rose'] });
    const samples = [await all(train), await all(held)];
    const rows = samples.flatMap(({ inputs, labels }) =>
      inputs.map((row, i) => [...row.slice(1), labels[i]].join(' ')),
    );
    // Inputs: whether the size is missing, "blue", "red". Then the label.
    expect(rows.sort()).toEqual(['0 0 0 0', '0 0 0 0', '0 0 1 1', '0 0 1 1', '1 1 0 1', '1 1 0 1']);
  });

  test('has numbers that are standardized over the training rows, and the same split for the same seed', async () => {
    const number = fc.double({ min: -1e6, max: 1e6, noNaN: true });
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(number, number), { minLength: 12, maxLength: 60 }),
        fc.nat(),
        async (rows, seed) => {
          fc.pre(new Set(rows.map(([, y]) => y)).size > 10);
          const text = `x,y\n${rows.map((row) => row.join(',')).join('\n')}`;
          const { train, test: held } = await (await open(text, { seed })).load();
          expect(train.size + held.size).toBe(rows.length);
          const { inputs, labels } = await all(train);
          for (const values of [inputs.map(([x]) => x!), labels]) {
            const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
            const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
            expect(mean).toBeCloseTo(0, 4);
            if (variance !== 0) expect(variance).toBeCloseTo(1, 4);
          }
          const again = await (await open(text, { seed })).load();
          expect(await all(again.test)).toEqual(await all(held));
          expect(again.train.digest).toBe(train.digest);
        },
      ),
      { numRuns: 30 },
    );
  });

  test('predicts an amount, in its unit, if the target column has many different numbers', async () => {
    const text = `x,price\n${Array.from({ length: 50 }, (_, i) => `${i},${1000 + 10 * i}`).join('\n')}`;
    const table = await open(text);
    expect(table.preview).toMatchObject({ target: 'price', task: 'regression', classes: [] });
    const { train } = await table.load();
    expect(train.classes).toBe(1);
    expect(train.classNames).toBeUndefined();
    expect(train.labelUnit).toBeGreaterThan(100);
    expect(train.labelUnit).toBeLessThan(200);
  });

  test('predicts a class if the target column has few different numbers, unless the job sets the task', async () => {
    const text = `x,digit\n${Array.from({ length: 50 }, (_, i) => `${i},${i % 5}`).join('\n')}`;
    expect((await open(text)).preview.task).toBe('classification');
    expect((await open(text, { task: 'regression' })).preview.task).toBe('regression');
    expect((await open(text, { target: 'x' })).preview).toMatchObject({ target: 'x', task: 'regression' });
  });

  test.each<[string, string, Partial<TableJob>, string]>([
    [
      'a target column that does not exist',
      'x,y\n1,2\n3,4',
      { target: 'z' },
      'a.csv, line 1: there is no column "z". Choose one of x, y.',
    ],
    [
      'a number with a typing error',
      `x,y\n${'1,2\n'.repeat(40)}1o,3\n`,
      {},
      'a.csv, line 42: "1o" in column "x" is not a number, but 40',
    ],
    [
      'a regression target that contains words',
      'x,y\n1,a\n2,b',
      { task: 'regression' },
      'column "y" does not contain numbers',
    ],
    ['an empty target column', 'x,y\n1,\n2,', {}, 'column "y" is empty'],
    ['too many classes', `x,y\n${words(200)}`, { target: 'x' }, 'column "x" has more than 100 different values'],
    ['a target with a single class', 'x,y\n1,a\n2,a', {}, 'column "y" has the same value in every row'],
    ['a single row', 'x,y\n1,a', {}, '1 row is too few for training and evaluation'],
    [
      'too few rows with a target',
      'x,y\n1,1.5\n2,',
      { task: 'regression' },
      '1 row is too few for training and evaluation',
    ],
    ['no usable column except the target', `x,y\n${words(200)}`, {}, 'no column is left to predict column "y" from'],
    [
      'a loss for classes, but the target is an amount',
      'x,y\n1,2\n3,4',
      { task: 'regression', loss: 'cross-entropy' },
      'a.csv, column "y": the job has loss: cross-entropy is for classes, but this job predicts an amount: choose mean-squared-error',
    ],
    [
      'a metric for amounts, but the target is a class',
      'x,y\n1,a\n3,b',
      { metrics: ['accuracy', 'r2'] },
      'a.csv, column "y": the job has metrics[1]: r2 is for amounts, but this job predicts classes: choose accuracy or top-3.',
    ],
  ])('is rejected with a reason: %s', async (_, text, job, sentence) => {
    const table = await open(text, job);
    expect(table.problem()?.message).toContain(sentence);
    await expect(table.load()).rejects.toThrow(sentence);
    // There is a preview although there is a problem.
    expect(table.preview.columns).toHaveLength(2);
  });
});
