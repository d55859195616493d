import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { agreeOnShardFacts, openFederatedShard, type SampleShard } from '../../src/jobs/index.ts';
import { dataFileOf } from '../../src/jobs/dataFile.ts';
import type { DecodePicture } from '../../src/formats/decodePicture.ts';
import { openImages } from '../../src/jobs/images/images.ts';
import type { ImagesFacts } from '../../src/spec/dataFacts.ts';
import { DEFAULT_JOB, parseJob, type JobSpec } from '../../src/spec/job.ts';
import { DataError } from '../../src/util/errors.ts';
import { idxFile, imagesFile } from '../formats/idxFiles.ts';

const jobOf = (fields: Record<string, unknown> = {}): JobSpec =>
  parseJob({ job: 'table', data: { kind: 'federated' }, ...fields });

async function samplesOf(job: JobSpec, files: readonly File[]): Promise<SampleShard> {
  const shard = await openFederatedShard(job, files);
  if ('load' in shard) return shard;
  throw new Error('This is a text.');
}

const shardOf = (text: string, fields: Record<string, unknown> = {}): Promise<SampleShard> =>
  samplesOf(jobOf(fields), [new File([text], 'a.csv')]);

async function factsOf(texts: readonly string[], fields: Record<string, unknown> = {}) {
  return (await Promise.all(texts.map((text) => shardOf(text, fields)))).map(({ facts }) => facts);
}

/** Returns a pair of IDX files: images, and these labels. */
const filesOf = (classes: number[]): File[] => [
  new File([imagesFile(classes.length)], 'x-idx3-ubyte'),
  new File([idxFile([classes.length], Uint8Array.from(classes))], 'y-idx1-ubyte'),
];

/** Returns two pairs of IDX files. The second pair is held out. */
const pairsOf = (train: number[], held: number[]): File[] => [
  ...filesOf(train),
  new File([imagesFile(held.length)], 't10k-x-idx3-ubyte'),
  new File([idxFile([held.length], Uint8Array.from(held))], 't10k-y-idx1-ubyte'),
];

const twelve = (label: number): number[] => Array.from({ length: 12 }, () => label);

/** Returns a table that contains each row six times. */
const fruits = (...rows: string[]): string =>
  `size,colour,kind\n${Array.from({ length: 6 }, () => rows)
    .flat()
    .join('\n')}\n`;

/** Returns a table with twenty equal columns, and two more. */
const wide = (last: string): string => {
  const names = Array.from({ length: 20 }, (_, i) => `c${i}`).join(',');
  return `${names},${last},y\n${`${'1,'.repeat(21)}u\n${'1,'.repeat(21)}v\n`.repeat(12)}`;
};

/** Returns a table whose target has two numeric classes, written as given. */
const written = (zero: string, one: string): string =>
  fruits(`1,red,${zero}`, `2,red,${one}`).replaceAll(',red', '').replace(',colour', '');

const FRUIT = [
  fruits('1,red,apple', '3,red,apple'),
  fruits('2,yellow,pear', '4,yellow,pear', ',green,pear'),
  fruits('5,,plum', '7,blue,plum'),
];

describe('federated tables', () => {
  test('report, while a large table is read, how many bytes have been read', async () => {
    const file = new File(
      [`size,kind\n${Array.from({ length: 400_000 }, (_, i) => `${i},${i % 2}\n`).join('')}`],
      'a.csv',
    );
    const done: number[] = [];
    await openFederatedShard(jobOf(), [file], { onprogress: (progress) => done.push(progress.done) });
    expect([done.length > 4, done.at(-1)]).toEqual([true, file.size]);
  });

  test('are scaled and encoded by the facts of all tabs, even if each tab has only one class', async () => {
    const facts = await factsOf(FRUIT);
    const { facts: agreed, divergent } = agreeOnShardFacts(facts, null, jobOf());
    expect(divergent).toEqual([]);
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

  test('are scaled by the mean over all tabs, which does not depend on the order of ranks', async () => {
    const number = fc.double({ min: -1e6, max: 1e6, noNaN: true });
    const parts = fc.array(fc.array(number, { minLength: 10, maxLength: 20 }), { minLength: 1, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(parts, async (all) => {
        const facts = await factsOf(
          all.map((own) => `x,y\n${own.map((x) => `${x},${x / 2}`).join('\n')}`),
          { task: 'regression' },
        );
        const one = agreeOnShardFacts(facts, null, jobOf({ task: 'regression' })).facts;
        const other = agreeOnShardFacts([...facts].reverse(), null, jobOf({ task: 'regression' })).facts;
        expect(other).toEqual(one);
        const moments = facts.map((each) => (each.kind === 'table' ? each.columns[0]!.moments : null)!);
        const count = moments.reduce((sum, each) => sum + each.count, 0);
        const mean = moments.reduce((sum, each) => sum + each.count * each.mean, 0) / count;
        const joined = one.kind === 'table' ? one.columns[0]!.moments : null;
        expect(joined!.count).toBe(count);
        expect(Math.abs(joined!.mean - mean)).toBeLessThan(1e-6);
      }),
      { numRuns: 20 },
    );
  });

  test('send no rows and no numbers, and only words that at least three rows contain', async () => {
    for (const rows of [120, 60]) {
      const people = Array.from(
        { length: rows },
        (_, i) =>
          `secret${i},${1000 + i},${i % 2 ? 'a' : 'b'},${i < 2 ? 'rare' : 'common'},${i < 2 ? 7777 : ''},${110 + i / 8}`,
      );
      const text = `name,salary,kind,colour,bonus,pressure\n${people.join('\n')}`;
      for (const fields of [{ target: 'kind' }, { target: 'pressure' }, { target: 'pressure', task: 'regression' }]) {
        const [facts] = await factsOf([text], fields);
        const sent = JSON.stringify(facts);
        expect(sent).not.toMatch(/secret|rare|7777|11\d\.\d+"|"10\d\d/);
        expect(sent).toContain('common');
      }
    }
  });

  test('may not have too many classes: a tab with too many is divergent, and the other tabs continue', async () => {
    const many = Array.from({ length: 150 }, (_, i) => `${i},red,person${i}`);
    await expect(shardOf(fruits(...many))).rejects.toThrow('column "kind" has more than 100 different values');
    const text = `size,colour,kind\n${Array.from({ length: 60 }, (_, i) => `${i},red,person${i}`).join('\n')}`;
    const { facts: agreed } = agreeOnShardFacts(await factsOf(FRUIT), null, jobOf());
    const [sixty] = await factsOf([text]);
    expect(agreeOnShardFacts([...(await factsOf(FRUIT)), sixty!], agreed, jobOf()).divergent).toMatchObject([
      { rank: 3 },
    ]);
  });

  test('with many columns are divergent if a column differs, and the reason shows only the columns near it', async () => {
    const facts = await factsOf([wide('weight'), wide('weight'), wide('height')]);
    expect(agreeOnShardFacts(facts, null, jobOf()).divergent).toEqual([
      {
        rank: 2,
        why:
          'its columns are 14 equal ones, then c14, c15, c16, c17, c18, c19, height, y, ' +
          'but those of the other ranks are 14 equal ones, then c14, c15, c16, c17, c18, c19, weight, y',
      },
    ]);
  });

  test('have the same class for numbers that differ only in notation', async () => {
    const facts = await factsOf([written('0', '1'), written('0.0', '1e0')]);
    const { facts: agreed } = agreeOnShardFacts(facts, null, jobOf());
    expect(agreed).toMatchObject({ task: 'classification', columns: [{}, { values: ['0', '1'] }] });
    const { train } = await (await shardOf(written('0.0', '1e0'))).load(agreed);
    const labels = new Int32Array(train.size);
    await train.read(
      labels.map((_, i) => i),
      new Float32Array(train.size),
      labels,
    );
    expect(new Set(labels)).toEqual(new Set([0, 1]));
  });

  test('have one class for both Unicode forms of a word, and are rejected if classes differ only in letter case', async () => {
    const facts = await factsOf([fruits('1,red,p\u00eache', '3,red,plum'), fruits('1,red,pe\u0302che', '2,red,plum')]);
    expect(agreeOnShardFacts(facts, null, jobOf()).facts).toMatchObject({
      columns: [{}, {}, { values: ['plum', 'p\u00eache'] }],
    });
    const twins = await factsOf([fruits('1,red,apple', '2,red,plum'), fruits('1,red,Apple', '3,red,plum')]);
    expect(() => agreeOnShardFacts(twins, null, jobOf())).toThrow(
      'the classes "apple" (rank 0) and "Apple" (rank 1) differ only',
    );
    await expect(shardOf(fruits('1,red,apple', '2,red,Apple'))).rejects.toThrow(
      'a.csv, column "kind": the classes "Apple" and "apple" differ only in letter case, spaces or similar signs.',
    );
  });

  test('are rejected if the target is a class on some ranks and an amount on others, unless the job sets the task', async () => {
    const amounts = `size,kind\n${Array.from({ length: 40 }, (_, i) => `${i},${i / 3}`).join('\n')}`;
    const classes = `size,kind\n${Array.from({ length: 40 }, (_, i) => `${i},${i % 2}`).join('\n')}`;
    const all = [classes, amounts, classes];
    const facts = await factsOf(all);
    expect(() => agreeOnShardFacts(facts, null, jobOf())).toThrow(
      'column "kind" looks like a class on ranks 0 and 2, but like an amount on rank 1. Set the job\'s task to classification or regression.',
    );
    const withTask = jobOf({ task: 'regression' });
    expect(agreeOnShardFacts(await factsOf(all, { task: 'regression' }), null, withTask).facts).toMatchObject({
      task: 'regression',
    });
  });

  test('must have the columns and kinds that most tabs have; the other tabs are divergent, with a reason', async () => {
    const facts = await factsOf([
      ...FRUIT,
      fruits('1,red,apple', '2,red,plum').replaceAll(',red', '').replace(',colour', ''),
      fruits('big,red,apple', 'small,red,plum'),
    ]);
    const { divergent } = agreeOnShardFacts(facts, null, jobOf());
    expect(divergent).toEqual([
      { rank: 3, why: 'its columns are size, kind, but those of the other ranks are size, colour, kind' },
      { rank: 4, why: 'its column "size" contains words, but for the other ranks it contains numbers' },
    ]);
  });

  test('of a tab that joins later add nothing to the run: new words are ignored, and a new class is rejected', async () => {
    const { facts: agreed } = agreeOnShardFacts(await factsOf(FRUIT), null, jobOf());
    const [fits, strange] = await factsOf([
      fruits('1,violet,apple', '3,red,plum'),
      fruits('1,red,quince', '3,red,plum'),
    ]);
    expect(agreeOnShardFacts([fits!], agreed, jobOf())).toEqual({ facts: agreed, divergent: [] });
    expect(agreeOnShardFacts([strange!], agreed, jobOf()).divergent).toEqual([
      { rank: 0, why: 'its column "kind" has the class "quince", but the run does not have this class' },
    ]);
    const { train } = await (await shardOf(fruits('1,violet,apple', '1,violet,plum'))).load(agreed);
    const inputs = new Float32Array(6);
    await train.read([0], inputs, new Int32Array(1));
    expect([...inputs.subarray(2)]).toEqual([0, 0, 0, 0]);
  });

  test('are rejected if all rows have one class, if a table is damaged, or if a tab has too few rows', async () => {
    const facts = await factsOf([FRUIT[0]!, FRUIT[0]!]);
    expect(() => agreeOnShardFacts(facts, null, jobOf())).toThrow(
      'The tables of all tabs: column "kind" has the same value in every row',
    );
    await expect(shardOf('size,kind\n1,apple\n2\n')).rejects.toThrow(DataError);
    await expect(shardOf('size,kind\n1,apple\n')).rejects.toThrow(
      '1 row is too few for training and evaluation. Each tab needs at least 10',
    );
    await expect(shardOf(fruits('1,red,', '2,red,'))).rejects.toThrow('0 rows are too few');
    await expect(shardOf(FRUIT[0]!, { target: 'weight' })).rejects.toThrow('there is no column "weight"');
  });
});

const decode: DecodePicture = async (_, __, { side, channels }) => new Uint8Array(side * side * channels);

describe('federated images', () => {
  const job = jobOf({ job: 'images' });

  test('have the classes of all tabs', async () => {
    const shards = await Promise.all(
      [Array.from({ length: 12 }, () => 7), Array.from({ length: 12 }, (_, i) => (i % 2 ? 2 : 10))].map((classes) =>
        samplesOf(job, filesOf(classes)),
      ),
    );
    const { facts, divergent } = agreeOnShardFacts(
      shards.map((one) => one.facts),
      null,
      job,
    );
    expect(divergent).toEqual([]);
    const { train } = await shards[0]!.load(facts);
    expect(train).toMatchObject({ classes: 3, classNames: ['2', '7', '10'] });
    const labels = new Int32Array(1);
    await train.read([0], new Float32Array(28 * 28), labels);
    expect(labels[0]).toBe(1);
  });

  test('are divergent if they hold out a class that no tab trains on', async () => {
    const shards = await Promise.all(
      [pairsOf(twelve(7), [7, 2]), pairsOf(twelve(2), [2]), pairsOf(twelve(2), [7, 9])].map((files) =>
        samplesOf(job, files),
      ),
    );
    const { facts, divergent } = agreeOnShardFacts(
      shards.map((one) => one.facts),
      null,
      job,
    );
    expect(facts).toMatchObject({ classes: ['2', '7'] });
    expect(divergent).toEqual([
      { rank: 2, why: 'it has held-out samples of the class "9", but the run does not have this class' },
    ]);
  });

  const pictures = async (...folders: string[]): Promise<ImagesFacts> => {
    const files = folders.flatMap((one) => Array.from({ length: 12 }, (_, i) => new File(['a'], `${one}/${i}.png`)));
    return (await openImages(files.map(dataFileOf), job, { isShard: true, decode })).facts;
  };

  test('have one class for a folder name in both Unicode forms', async () => {
    const facts = await Promise.all([pictures('B\u00e4r', 'Hund'), pictures('Ba\u0308r')]);
    expect(agreeOnShardFacts(facts, null, job).facts).toMatchObject({ classes: ['B\u00e4r', 'Hund'] });
  });

  test('are rejected, with the ranks, if classes differ only in letter case, spaces or similar signs', async () => {
    const facts = await Promise.all([pictures('cats', 'dogs'), pictures('Cats'), pictures('dogs', 'cats')]);
    expect(() => agreeOnShardFacts(facts, null, job)).toThrow(
      'The data of all tabs: the classes "cats" (ranks 0 and 2) and "Cats" (rank 1) differ only in letter case, spaces or similar signs. Give them one name',
    );
    await expect(pictures('big_dogs', 'big dogs')).rejects.toThrow('the classes "big dogs" and "big_dogs" differ only');
    await expect(pictures("fool's", 'fool’s')).rejects.toThrow('differ only');
    await expect(pictures('Ａ１２', 'A12')).rejects.toThrow('differ only');
    await expect(pictures('dogs\u200b', 'dogs', 'big\u00a0cat')).resolves.toMatchObject({
      classes: ['big cat', 'dogs'],
    });
    await expect(pictures('--', '-', '+', '++')).resolves.toMatchObject({ classes: ['+', '++', '-', '--'] });
    await expect(pictures('dogs ', 'dogs')).rejects.toThrow('the classes "dogs" and "dogs " differ only');
    await expect(pictures('a', 'A', 'b')).resolves.toMatchObject({ classes: ['A', 'a', 'b'] });
  });

  test('are divergent if a joining tab spells a class differently', async () => {
    const [agreed, own] = await Promise.all([pictures('cats', 'dogs'), pictures('Cats')]);
    expect(agreeOnShardFacts([own], agreed, job).divergent).toEqual([
      { rank: 0, why: 'it has samples of the class "Cats", but the run has the class "cats"' },
    ]);
  });

  test('are rejected if all images have the same class', async () => {
    const { facts } = await openFederatedShard(job, filesOf(Array.from({ length: 12 }, () => 7)));
    expect(() => agreeOnShardFacts([facts, facts], null, job)).toThrow(
      'The images of all tabs: the number of different labels is 1',
    );
  });
});

describe('federated texts', () => {
  const gpt = { ...DEFAULT_JOB.gpt, context: 8, width: 8 };
  const job = parseJob({ job: 'gpt', data: { kind: 'federated' }, gpt });
  const texts = ['abab cdcd '.repeat(30), 'aéaé '.repeat(60)];

  test('have a token for every character of all tabs, and a common bigram loss between those of the tabs', async () => {
    const shards = await Promise.all(texts.map((text) => openFederatedShard(job, [new File([text], 'a.txt')])));
    const facts = shards.map((one) => one.facts);
    const { facts: agreed, divergent } = agreeOnShardFacts(facts, null, job);
    expect(divergent).toEqual([]);
    expect(agreed).toMatchObject({ kind: 'text', characters: ' abcdé' });
    expect(agreeOnShardFacts([...facts].reverse(), null, job).facts).toEqual(agreed);
    const [first] = shards;
    if (!('read' in first!)) throw new Error('This is not a text.');
    const { tokenizer, train, bigramLoss } = await first.read(agreed);
    expect(tokenizer.size).toBe(6);
    expect(tokenizer.decode(train.tokens.slice(0, 5))).toBe('abab ');
    const losses = facts.map((one) => (one.kind === 'text' ? one.bigram.loss : NaN));
    expect(bigramLoss).toBeGreaterThan(Math.min(...losses));
    expect(bigramLoss).toBeLessThan(Math.max(...losses));
  });

  test('cannot have byte pairs as tokens; the error for a later text names its unknown characters', async () => {
    const [first, later] = await Promise.all(
      [texts[0]!, 'xyz '.repeat(60)].map((text) => openFederatedShard(job, [new File([text], 'a.txt')])),
    );
    expect(agreeOnShardFacts([later!.facts], first!.facts, job).divergent).toEqual([
      { rank: 0, why: 'its text has characters that the run does not know ("x", "y", "z")' },
    ]);
    expect(() => parseJob({ ...job, gpt: { ...gpt, tokens: 'byte-pairs' } })).toThrow('choose characters as tokens');
  });
});
