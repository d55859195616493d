import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { agreeOn, openShard, type SampleShard } from '../../src/jobs/index.ts';
import { DEFAULT_JOB, parseJob, type JobSpec } from '../../src/protocol/job.ts';
import { DataError } from '../../src/util/errors.ts';
import { idxFile, imagesFile } from './idxFiles.ts';

const jobOf = (fields: Record<string, unknown> = {}): JobSpec =>
  parseJob({ job: 'table', data: { kind: 'federated' }, ...fields });

async function samplesOf(job: JobSpec, files: readonly File[]): Promise<SampleShard> {
  const shard = await openShard(job, files);
  if ('load' in shard) return shard;
  throw new Error('This is a text.');
}

const shardOf = (text: string, fields: Record<string, unknown> = {}): Promise<SampleShard> =>
  samplesOf(jobOf(fields), [new File([text], 'a.csv')]);

async function factsOf(texts: readonly string[], fields: Record<string, unknown> = {}) {
  return (await Promise.all(texts.map((text) => shardOf(text, fields)))).map(({ facts }) => facts);
}

/** Images of these classes. */
const filesOf = (classes: number[]): File[] => [
  new File([imagesFile(classes.length)], 'x-idx3-ubyte'),
  new File([idxFile([classes.length], Uint8Array.from(classes))], 'y-idx1-ubyte'),
];

const FRUIT = [
  'size,colour,kind\n1,red,apple\n3,red,apple\n',
  'size,colour,kind\n2,yellow,pear\n4,yellow,pear\n,green,pear\n',
  'size,colour,kind\n5,,plum\n7,blue,plum\n',
];

describe('tables of which every tab has its own', () => {
  test('are scaled and encoded as all rows together say, though each has one class only', async () => {
    const facts = await factsOf(FRUIT);
    const { facts: agreed, odd } = agreeOn(facts, null, jobOf());
    expect(odd).toEqual([]);
    expect(agreed).toMatchObject({
      target: 'kind',
      columns: [
        { name: 'size', kind: 'number', values: null, isMissing: true },
        { name: 'colour', kind: 'category', values: ['blue', 'green', 'red', 'yellow'], isMissing: true },
        { name: 'kind', values: ['apple', 'pear', 'plum'] },
      ],
    });
    for (const text of FRUIT) {
      const { train, test: held } = await (await shardOf(text)).load(agreed);
      for (const part of [train, held]) {
        expect(part).toMatchObject({ inputShape: [1, 1, 6], classes: 3, classNames: ['apple', 'pear', 'plum'] });
      }
    }
  });

  test('have the mean and deviation of all numbers, in whatever order ranks are', async () => {
    const number = fc.double({ min: -1e6, max: 1e6, noNaN: true });
    const parts = fc.array(fc.array(number, { minLength: 5, maxLength: 20 }), { minLength: 1, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(parts, async (all) => {
        const facts = await factsOf(
          all.map((own) => `x,y\n${own.map((x) => `${x},${x / 2}`).join('\n')}`),
          { task: 'regression' },
        );
        const one = agreeOn(facts, null, jobOf({ task: 'regression' })).facts;
        const other = agreeOn([...facts].reverse(), null, jobOf({ task: 'regression' })).facts;
        expect(other).toEqual(one);
        const sums = facts.map((each) => (each.kind === 'table' ? each.columns[0]!.sums : null)!);
        const count = sums.reduce((sum, each) => sum + each.count, 0);
        const mean = sums.reduce((sum, each) => sum + each.count * each.mean, 0) / count;
        const joined = one.kind === 'table' ? one.columns[0]!.sums : null;
        expect(joined!.count).toBe(count);
        expect(Math.abs(joined!.mean - mean)).toBeLessThan(1e-6);
      }),
      { numRuns: 20 },
    );
  });

  test('what leaves a tab is no row, no number and no word of a column that has many', async () => {
    const names = Array.from({ length: 120 }, (_, i) => `secret${i},${1000 + i},${i % 2 ? 'a' : 'b'}`);
    const [facts] = await factsOf([`name,salary,kind\n${names.join('\n')}`]);
    const said = JSON.stringify(facts);
    expect(said).not.toContain('secret');
    expect(said).not.toMatch(/"10\d\d"/);
  });

  test('most decide which columns there are, and whether one is of numbers; others are told why they do not fit', async () => {
    const facts = await factsOf([
      ...FRUIT,
      'size,kind\n1,apple\n2,plum\n',
      'size,colour,kind\nbig,red,apple\nsmall,red,plum\n',
    ]);
    const { odd } = agreeOn(facts, null, jobOf());
    expect(odd).toEqual([
      { rank: 3, why: "its columns are size, kind, and the others' size, colour, kind" },
      { rank: 4, why: 'its column "size" is of words, and the others\' of numbers' },
    ]);
  });

  test('who joins a run goes by what it began with: other words are no input, another class is refused', async () => {
    const { facts: agreed } = agreeOn(await factsOf(FRUIT), null, jobOf());
    const [fits, strange] = await factsOf([
      'size,colour,kind\n1,violet,apple\n3,red,plum\n',
      'size,colour,kind\n1,red,quince\n3,red,plum\n',
    ]);
    expect(agreeOn([fits!], agreed, jobOf())).toEqual({ facts: agreed, odd: [] });
    expect(agreeOn([strange!], agreed, jobOf()).odd).toEqual([
      { rank: 0, why: 'its column "kind" has the class "quince", which the run does not know' },
    ]);
    const { train } = await (await shardOf('size,colour,kind\n1,violet,apple\n1,violet,apple\n')).load(agreed);
    const inputs = new Float32Array(6);
    await train.read([0], inputs, new Int32Array(1));
    expect([...inputs.subarray(2)]).toEqual([0, 0, 0, 0]);
  });

  test('nothing can be learned where all have the same class, or where a table is damaged', async () => {
    const facts = await factsOf([FRUIT[0]!, FRUIT[0]!]);
    expect(() => agreeOn(facts, null, jobOf())).toThrow(
      'The tables of all tabs: column "kind" says the same in every row',
    );
    await expect(shardOf('size,kind\n1,apple\n2\n')).rejects.toThrow(DataError);
    await expect(shardOf('size,kind\n1,apple\n')).rejects.toThrow('1 row is too few');
    await expect(shardOf(FRUIT[0]!, { target: 'weight' })).rejects.toThrow('there is no column "weight"');
  });
});

describe('images of which every tab has its own', () => {
  const job = jobOf({ job: 'images' });

  test('have the classes of all', async () => {
    const shards = await Promise.all(
      [
        [7, 7, 7],
        [10, 2, 2],
      ].map((classes) => samplesOf(job, filesOf(classes))),
    );
    const { facts, odd } = agreeOn(
      shards.map((one) => one.facts),
      null,
      job,
    );
    expect(odd).toEqual([]);
    const { train } = await shards[0]!.load(facts);
    expect(train).toMatchObject({ classes: 3, classNames: ['2', '7', '10'] });
    const labels = new Int32Array(1);
    await train.read([0], new Float32Array(28 * 28), labels);
    expect(labels[0]).toBe(1);
  });

  test('nothing can be learned of one class', async () => {
    const { facts } = await openShard(job, filesOf([7, 7, 7]));
    expect(() => agreeOn([facts, facts], null, job)).toThrow('The images of all tabs: there are 1 different labels');
  });
});

describe('texts of which every tab has its own', () => {
  const gpt = { ...DEFAULT_JOB.gpt, context: 8, width: 8 };
  const job = parseJob({ job: 'gpt', data: { kind: 'federated' }, gpt });
  const texts = ['abab cdcd '.repeat(30), 'aéaé '.repeat(60)];

  test('have a token for every character of all, and a bigram model for each to beat', async () => {
    const shards = await Promise.all(texts.map((text) => openShard(job, [new File([text], 'a.txt')])));
    const facts = shards.map((one) => one.facts);
    const { facts: agreed, odd } = agreeOn(facts, null, job);
    expect(odd).toEqual([]);
    expect(agreed).toMatchObject({ kind: 'text', characters: ' abcdé' });
    expect(agreeOn([...facts].reverse(), null, job).facts).toEqual(agreed);
    const [first] = shards;
    if (!('read' in first!)) throw new Error('This is no text.');
    const { tokenizer, train, bigramLoss } = await first.read(agreed);
    expect(tokenizer.size).toBe(6);
    expect(tokenizer.decode(train.tokens.slice(0, 5))).toBe('abab ');
    const losses = facts.map((one) => (one.kind === 'text' ? one.bigram.loss : NaN));
    expect(bigramLoss).toBeGreaterThan(Math.min(...losses));
    expect(bigramLoss).toBeLessThan(Math.max(...losses));
  });

  test('a text that comes later with another character is refused by name, byte pairs at once', async () => {
    const [first, later] = await Promise.all(
      [texts[0]!, 'xyz '.repeat(60)].map((text) => openShard(job, [new File([text], 'a.txt')])),
    );
    expect(agreeOn([later!.facts], first!.facts, job).odd).toEqual([
      { rank: 0, why: 'its text has characters that the run does not know ("x", "y", "z")' },
    ]);
    expect(() => parseJob({ ...job, gpt: { ...gpt, tokens: 'byte-pairs' } })).toThrow('take characters as tokens');
  });
});
