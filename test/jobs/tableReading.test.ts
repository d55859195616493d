/** Tables as people have them: which fields are missing, how numbers are written, and where names stand. */
import { describe, expect, test } from 'vitest';
import { sampleLength } from '../../src/jobs/dataset.ts';
import { agreeOn, openShard } from '../../src/jobs/index.ts';
import { Table, type TableJob } from '../../src/jobs/table.ts';
import { parseJob, type JobSpec } from '../../src/protocol/job.ts';

const JOB: TableJob = { target: null, task: null, loss: null, metrics: null, seed: 1 };

const open = (text: string, job: Partial<TableJob> = {}): Promise<Table> =>
  Table.open(new File([text], 'a.csv'), { ...JOB, ...job });

/** A line of names, and rows below. */
const table = (header: string, rows: number, row: (i: number) => string): string =>
  `${header}\n${Array.from({ length: rows }, (_, i) => row(i)).join('\n')}\n`;

/** A target with these classes in turn, beside a number. */
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
      const shard = await openShard(job, [new File([text], 'a.csv')]);
      if ('read' in shard) throw new Error('This is a text.');
      return shard;
    }),
  );

describe('a field that is missing', () => {
  test.each([
    ['none', 'mild', 'severe'],
    ['+', '-'],
    ['+', 'neutral', '-'],
    ['DE', 'NA', 'FR'],
    ['?', 'known'],
    ['null', 'NaN', 'n/a', 'x'],
  ])('is empty in a target of words: %s, %s are classes', async (...names) => {
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

  test('is empty in a feature of words: whatever stands there is a word of its own', async () => {
    const text = table('road,class', 90, (i) => `${['none', 'gravel', '-', '?', ''][i % 5]},${i % 2}`);
    expect((await open(text)).preview.columns[0]).toMatchObject({ kind: 'category', missing: 18, distinct: 4 });
    expect(await sizes(text)).toEqual([90, 4]);
  });

  test('is a word that stands for it among numbers, as programs write it', async () => {
    const words = ['', 'NA', 'n/a', 'NaN', 'null', 'None', '?', '-', '#N/A', '<NA>', '.', '--'];
    const text = table('size,class', 60, (i) => `${i < 12 ? words[i] : i},${i % 2}`);
    expect((await open(text)).preview.columns[0]).toMatchObject({ kind: 'number', missing: 12, distinct: 48 });
    // The number, and whether it is missing.
    expect(await sizes(text)).toEqual([60, 2]);
  });

  test('leaves its row out where the target is of numbers', async () => {
    const text = table('size,class', 60, (i) => `${i},${i % 3 === 0 ? '?' : i % 2}`);
    expect((await open(text)).preview.classes).toEqual([
      { name: '0', count: 20 },
      { name: '1', count: 20 },
    ]);
    expect(await sizes(text)).toEqual([40, 1]);
  });

  test('is nothing but such words in a feature of no use', async () => {
    const text = table('a,b,class', 20, (i) => `NA,${i},${i % 2}`);
    expect((await open(text)).preview.columns[0]).toMatchObject({ kind: 'empty', missing: 20 });
    expect((await open(classes('-'))).problem()?.message).toContain('column "class" says the same in every row');
  });

  test('is agreed on where each tab has its own table: one has the class "-" only, and a feature of "?"', async () => {
    const texts = [
      table('a,b,class', 20, (i) => `?,${i},-`),
      table('a,b,class', 20, (i) => `${i},${i % 2 ? '?' : i},+`),
      table('a,b,class', 20, (i) => `${i},${i},+`),
    ];
    const shards = await shardsOf(texts);
    const { facts, odd } = agreeOn(
      shards.map((shard) => shard.facts),
      null,
      federated,
    );
    expect(odd).toEqual([]);
    for (const [i, shard] of shards.entries()) {
      const { train } = await shard.load(facts);
      expect(train).toMatchObject({ size: 16, classNames: ['+', '-'], inputShape: [1, 1, 4] });
      const inputs = new Float32Array(4);
      const labels = new Int32Array(1);
      await train.read([0], inputs, labels);
      expect([labels[0], inputs[1]]).toEqual(i === 0 ? [1, 1] : [0, 0]);
    }
  });

  test('is not agreed on where one tab has words that others have among numbers: it is told by name', async () => {
    const texts = [
      table('a,b', 20, (i) => `${i},${i % 3}`),
      table('a,b', 20, (i) => `${i},${i % 2}`),
      table('a,b', 20, (i) => `${i},${['none', 'some'][i % 2]}`),
    ];
    const shards = await shardsOf(texts);
    const all = shards.map((shard) => shard.facts);
    expect(agreeOn(all, null, federated).odd).toEqual([
      { rank: 2, why: 'its column "b" is of words, and the others\' of numbers' },
    ]);
  });
});
