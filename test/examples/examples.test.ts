/**
 * Checks that every example prints the same results as its tutorial, in one process and in real
 * tabs.
 */
import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import * as tf from '@tensorflow/tfjs';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CATALOGUE } from '../../examples/catalogue.ts';
import type { Example } from '../../examples/example.ts';
import { closeBrowser, launchBrowser } from '../../launcher/browser/browser.ts';
import { DIST } from '../../launcher/build.ts';
import { runInTabs } from '../../launcher/commands/example.ts';
import { startSignaling, type SignalingServer } from '../../signaling/index.ts';
import { runWorld } from '../../src/testing/index.ts';
import { writeDigits } from './digitFiles.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
/** Files in the folder of examples that are not examples. */
const OTHERS = ['catalogue.ts', 'events.ts', 'example.ts', 'page.ts', 'plot.ts'];

let folder: string;
let server: SignalingServer;

beforeAll(async () => {
  await tf.setBackend('cpu');
  folder = await mkdtemp(path.join(tmpdir(), 'peergrad-digits-'));
  await writeDigits(folder);
  server = await startSignaling({ dist: DIST, data: folder });
});

afterAll(async () => {
  await server.close();
  await rm(folder, { recursive: true });
});

/** The curves that the latest example in this process has drawn. */
let drawn: Readonly<Record<string, readonly number[]>> = {};

/** Runs an example and returns the printed lines of each rank. */
async function linesOf(name: string, tabs?: number, data: string | null = null): Promise<string[][]> {
  const { worldSize, main } = (await import(`../../examples/${name}.ts`)) as Example;
  return runWorld(tabs ?? worldSize, async (group) => {
    const lines: string[] = [];
    await main(group, (line) => lines.push(line), { data, plot: (_, curves) => (drawn = curves) });
    return lines;
  });
}

/**
 * Runs `peergrad example` and returns the printed lines, sorted by rank, because lines of different
 * ranks are printed in any order.
 */
async function printedBy(...args: string[]): Promise<string[]> {
  const command = [path.join(ROOT, 'launcher/bin.js'), 'example', ...args];
  const { stdout } = await promisify(execFile)(process.execPath, command);
  const lines = stdout.trimEnd().split('\n');
  return lines.toSorted((a, b) => Number(a[6]) - Number(b[6]));
}

/** Returns the number at the end of each line. */
const numbers = (lines: readonly string[]): number[] => lines.map((line) => Number(line.split(' ').at(-1)));

const inModel = (batch: number): string => `In Model: input size [${batch}, 5] output size [${batch}, 2]`;
const outside = (batch: number): string => `Outside: input size [${batch}, 5] output_size [${batch}, 2]`;

function expectToFall(values: readonly number[]): void {
  expect(
    values.every((value, i) => i === 0 || value < values[i - 1]!),
    values.join(', '),
  ).toBe(true);
}

function expectToyModel([first, second]: readonly (readonly string[])[]): void {
  expect(second).toEqual(first);
  expect(first!.at(-1)).toBe('replicas are equal');
  expectToFall(numbers(first!.slice(0, -1)));
}

/** Expects equal losses of `model.fit` and `distribute`, to some digits. */
function expectModelFit(lines: readonly string[], digits: number): void {
  const rows = lines.map((line) => /^(\S+), epoch (\d): loss ([\d.]+), accuracy ([\d.]+)$/.exec(line)!.slice(1));
  expect(rows.map(([name, epoch]) => [name, epoch])).toEqual(
    ['model.fit', 'distribute'].flatMap((name) => ['0', '1', '2'].map((epoch) => [name, epoch])),
  );
  for (const epoch of [0, 1, 2]) expect(Number(rows[epoch + 3]![2])).toBeCloseTo(Number(rows[epoch]![2]), digits);
}

/** Expects a falling loss on every rank. */
function expectLossesOf(lines: readonly (readonly string[])[]): void {
  for (const [rank, own] of lines.entries()) {
    expect(own).toHaveLength(3);
    for (const [epoch, line] of own.entries()) {
      expect(line).toMatch(new RegExp(`^Rank ${rank}, epoch ${epoch}: \\d\\.\\d{4}$`));
    }
    expectToFall(numbers(own));
  }
}

test('the catalogue lists every example of the folder examples', () => {
  const files = readdirSync(path.join(ROOT, 'examples')).filter((file) => file.endsWith('.ts'));
  expect([...CATALOGUE.map(({ name }) => `${name}.ts`), ...OTHERS].toSorted()).toEqual(files.toSorted());
});

describe('examples in one process', () => {
  test('sampler: every sample is assigned to exactly one rank, in a new order in each epoch', async () => {
    const all = Array.from({ length: 24 }, (_, i) => i).join(' ');
    expect(await linesOf('sampler')).toEqual([
      [
        'epoch 0: batch 12 2 22 16',
        'epoch 0: batch 5 21 1 8',
        'epoch 0: batch 17 10 3 0',
        `epoch 0: together ${all}`,
        'epoch 1: batch 10 16 7 22',
        'epoch 1: batch 17 4 13 14',
        'epoch 1: batch 12 5 20 0',
        `epoch 1: together ${all}`,
      ],
      [
        'epoch 0: batch 14 19 13 23',
        'epoch 0: batch 15 18 20 7',
        'epoch 0: batch 11 9 4 6',
        'epoch 1: batch 18 8 9 3',
        'epoch 1: batch 2 1 23 6',
        'epoch 1: batch 21 19 11 15',
      ],
    ]);
  });

  test('modelParallel: each rank holds one layer, and the loss falls', async () => {
    const [first, second] = await linesOf('modelParallel');
    expect([first![0], second![0]]).toEqual(['layers: net1', 'layers: net2']);
    expect(first!.slice(1)).toEqual(second!.slice(1));
    expectToFall(numbers(first!.slice(1)));
  });

  test('modelParallelDdp: both replicas of each stage are equal, and the loss falls', async () => {
    const all = await linesOf('modelParallelDdp');
    expect(all.map(([line]) => line)).toEqual([
      'replica 0, stage 0: net1',
      'replica 0, stage 1: net2',
      'replica 1, stage 0: net1',
      'replica 1, stage 1: net2',
    ]);
    for (const lines of all) {
      expect(lines.slice(1)).toEqual(all[0]!.slice(1));
      expect(lines.at(-1)).toBe('stages of both replicas are equal');
      expectToFall(numbers(lines.slice(1, -1)));
    }
  });

  test('zeroRedundancy: each rank stores half of the optimizer’s averages, and parameters are equal', async () => {
    for (const lines of await linesOf('zeroRedundancy')) {
      const [sharded, whole] = lines[0]!.match(/\d+/g)!.map(Number) as [number, number];
      expect(whole).toBe(2 * 4 * 10 * 101 * 100);
      expect(sharded / whole).toBeCloseTo(0.5, 2);
      expect(lines[1]).toBe('parameters are equal');
    }
  });

  test('toyModel: the loss falls, and ranks print equal losses', async () => {
    expectToyModel(await linesOf('toyModel'));
  });

  test('pointToPoint: both ranks print the value 1, after blocking and after non-blocking calls', async () => {
    expect(await linesOf('pointToPoint')).toEqual([
      ['Rank 0 has data 1', 'Rank 0 started sending', 'Rank 0 has data 1'],
      ['Rank 1 has data 1', 'Rank 1 started receiving', 'Rank 1 has data 1'],
    ]);
  });

  test.each([
    [2, [['Rank 0 has data 2'], ['Rank 1 has data 2']]],
    [3, [['Rank 0 has data 2'], ['Rank 1 has data 2'], ['Rank 2 has data 1']]],
  ])('allReduceGroup: the sum in a world of %i includes only the two members of the group', async (tabs, lines) => {
    expect(await linesOf('allReduceGroup', tabs)).toEqual(lines);
  });

  test('partitionedMnist: the loss of every rank falls, and losses differ between ranks', async () => {
    const lines = await linesOf('partitionedMnist');
    expectLossesOf(lines);
    expect(numbers(lines[0]!)).not.toEqual(numbers(lines[1]!));
  });

  test('partitionedMnist --data: ranks train on normalized images from the files', async () => {
    const lines = await linesOf('partitionedMnist', 2, `${server.url}/data/`);
    expectLossesOf(lines);
    // Values of this order, Normalize(0.1307, 0.3081), learning rate 0.01 and momentum 0.5.
    const last = lines.map((own) => numbers(own).at(-1)!);
    expect(last[0]).toBeCloseTo(2.1912, 3);
    expect(last[1]).toBeCloseTo(2.0947, 3);
  });

  test('avgMetric: the sum over all pairs gives the accuracy on all samples, and the mean over ranks does not', async () => {
    const everywhere = ["mean of the ranks' accuracies 0.722", 'all ranks (7, 10): accuracy 0.700'];
    expect(await linesOf('avgMetric')).toEqual([
      ['this rank (2, 4): accuracy 0.500', ...everywhere],
      ['this rank (3, 3): accuracy 1.000', ...everywhere],
      ['this rank (2, 3): accuracy 0.667', ...everywhere],
    ]);
  });

  test('asyncUpdate: in the lucky order, losses equal those of synchronous training; in the stale order, stale gradients raise the loss', async () => {
    const lines = await linesOf('asyncUpdate');
    const { lucky, stale } = drawn as { lucky: number[]; stale: number[] };
    // Synchronous training adds both gradients, of one parameter: w - 3 becomes a fifth.
    const synchronous = [1, 2, 3, 4, 5, 6].map((step) => (3 * 0.2 ** step) ** 2);
    lucky.filter((_, i) => i % 2 === 1).forEach((loss, i) => expect(loss).toBeCloseTo(synchronous[i]!, 5));
    expectToFall(lucky);
    const rises = stale.flatMap((loss, i) => (i > 0 && loss > stale[i - 1]! ? [i + 1] : []));
    expect(rises).toEqual([6, 12]);
    // Five fresh updates multiply w - 3 by 0.6 each; the gradient at w = 0 adds 1.2.
    expect(stale[5]).toBeCloseTo((-3 * 0.6 ** 5 + 1.2) ** 2, 5);
    expect(lines[0]).toHaveLength(24);
    expect(lines[0]!.slice(16, 18)).toEqual([
      'stale update 5, of worker 1: loss 0.0544',
      'stale update 6, of worker 2: loss 0.9345',
    ]);
    expect(lines[2]!.slice(-2)).toEqual(['stale gradient -6.0000 at w 0.0000', 'stale gradient 1.9334 at w 3.9667']);
  });

  test('modelFit: two ranks of distribute learn the same as model.fit', async () => {
    const [first, second] = await linesOf('modelFit');
    expectModelFit(first!, 3);
    expect(second).toEqual(first);
  });

  test('objects: each rank prints the objects that it receives in four object collectives', async () => {
    const all = '["foo",12,{"1":2}]';
    const linesOfRank = (gathered: string, scattered: string): string[] => [
      `allGatherObject ${all}`,
      `gatherObject ${gathered}`,
      `broadcastObject ${all}`,
      `scatterObjects ${scattered}`,
    ];
    expect(await linesOf('objects')).toEqual([
      linesOfRank(all, '"foo"'),
      linesOfRank('null', '12'),
      linesOfRank('null', '{"1":2}'),
    ]);
  });
});

describe('examples in real tabs', () => {
  let browser: Browser;

  beforeAll(async () => {
    browser = await launchBrowser({ probeUrl: `${server.url}/healthz` });
  }, 120_000);

  afterAll(() => closeBrowser(browser));

  /** Runs an example and returns the printed lines of each rank. */
  async function linesInTabs(name: string): Promise<string[][]> {
    const lines: string[][] = [];
    const out = (line: string): void => {
      const [, rank, text] = /^\[rank (\d)\] (.*)$/.exec(line)!;
      (lines[Number(rank)] ??= []).push(text!);
    };
    const io = { out, err: () => {}, terminal: null, signal: new AbortController().signal };
    await runInTabs(browser, { server: server.url, name }, 60, io);
    return lines;
  }

  test.each(['pointToPoint', 'objects'])('%s prints the same as in one process', { timeout: 60_000 }, async (name) => {
    expect(await linesInTabs(name)).toEqual(await linesOf(name));
  });

  test(
    'dataParallel: 1, 2 and 3 replicas print the parts of each batch that they compute',
    { timeout: 60_000 },
    async () => {
      const [lines] = await linesInTabs('dataParallel');
      const sizes = lines!.filter((line) => !line.startsWith('Replica'));
      const last = [[10], [5, 5], [4, 4, 2]];
      expect(sizes).toEqual(
        [1, 2, 3].flatMap((replicas) => [
          `Let's use ${replicas} replicas!`,
          ...[1, 2, 3].flatMap(() => [...Array<string>(replicas).fill(inModel(30 / replicas)), outside(30)]),
          ...last[replicas - 1]!.map(inModel),
          outside(10),
        ]),
      );
      const memory = lines!.filter((line) => line.startsWith('Replica'));
      const rows = memory.map((line) => /^Replica (\d): batch (\d+), (\d+) bytes$/.exec(line)!.slice(1).map(Number));
      expect(rows.map(([replica, batch]) => [replica, batch])).toEqual([
        ...[[0, 30], ...[0, 1].map((replica) => [replica, 15]), ...[0, 1, 2].map((replica) => [replica, 10])],
      ]);
      expect(rows[3]![2]).toBeGreaterThan(rows[4]![2]!);
    },
  );

  test('modelFit: two ranks of distribute learn the same as model.fit', { timeout: 60_000 }, async () => {
    const lines = await linesInTabs('modelFit');
    for (const own of lines) expectModelFit(own, 2);
  });

  test('asyncUpdate: the page of rank 0 shows the curves', { timeout: 60_000 }, async () => {
    const earlier = new Set(browser.contexts());
    expect(await linesInTabs('asyncUpdate')).toEqual(await linesOf('asyncUpdate'));
    const pages = browser.contexts().flatMap((context) => (earlier.has(context) ? [] : context.pages()));
    const plots = await Promise.all(pages.map((page) => page.locator('#plot:visible canvas').count()));
    expect(plots.filter((canvases) => canvases === 1)).toHaveLength(1);
  });

  test('toyModel: the loss falls, and ranks print equal losses', { timeout: 60_000 }, async () => {
    expectToyModel(await linesInTabs('toyModel'));
  });
});

test(
  'the command `peergrad example` prints the lines of all ranks, each line preceded by its rank',
  { timeout: 120_000 },
  async () => {
    const lines = await printedBy('partitionedMnist', '--tabs', '3', '--data', folder);
    expectLossesOf(
      [0, 1, 2].map((rank) => {
        const start = `[rank ${rank}] `;
        return lines.filter((line) => line.startsWith(start)).map((line) => line.slice(start.length));
      }),
    );
  },
);
