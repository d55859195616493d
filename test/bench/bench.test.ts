import { describe, expect, test } from 'vitest';
import { readFile } from 'node:fs/promises';
import { DOC, partsOf } from '../../bench/command/all.ts';
import { runBench } from '../../bench/command/cli.ts';
import { defineBenchmark } from '../../bench/command/defineBenchmark.ts';
import { createProgram, runProgram } from '../../launcher/options/program.ts';
import { replaceSection, table } from '../../tools/report/table.ts';
import { contradictions, rowOf, theoryOf } from '../../bench/strategies.ts';
import type { RunResult } from '../../src/protocol/runResult.ts';
import { isReplicaStrategyName, STRATEGY_NAMES, type StrategyName } from '../../src/spec/job.ts';

const K = 1000;

const result = (strategy: StrategyName, sent: number[], received: number[]): RunResult => ({
  worldSize: sent.length,
  strategy,
  algorithm: 'ring',
  codec: 'fp32',
  backend: 'cpu',
  adapter: '',
  transport: { webrtc: 0, server: 0, memory: 2 },
  steps: 10,
  epochs: 1,
  loss: 1,
  accuracy: 0.5,
  valLoss: null,
  stateHash: [],
  otherBytesSentPerRank: [],
  memoryBytesPerRank: [],
  gradientBytes: K,
  losses: [],
  bytesSentPerRank: sent,
  bytesReceivedPerRank: received,
  restarts: 0,
  ms: 100,
  stepMs: { median: 8, p95: 9, data: 0, compute: 5, communicate: 2, exposed: 1 },
});

describe('theory', () => {
  test.each([
    ['ddp', 1500],
    ['parameter-server', 6000],
    ['async-parameter-server', 6000],
    ['local-sgd', 300],
    ['diloco', 300],
  ] as const)('%s: theory predicts %d bytes per step for 4 ranks that exchange 1000 bytes', (strategy, bytes) => {
    expect(theoryOf(strategy, 4, K, strategy === 'local-sgd' || strategy === 'diloco' ? 5 : 1)).toBe(bytes);
  });

  test('rowOf compares theory with all bytes of a server, and with the bytes that a ring’s busiest rank has sent', () => {
    const server = rowOf(result('parameter-server', [10_000, 10_000], [10_000, 10_000]), 5);
    expect(server).toMatchObject({ n: 2, K, syncEvery: 1, busiestBytesPerStep: 2000, theory: 2000, ratio: 1 });
    const ring = rowOf(result('ddp', [9_900, 10_500], [10_000, 10_000]), 5);
    expect(ring).toMatchObject({ sentPerStep: 1050, receivedPerStep: 1000, busiestBytesPerStep: 1050, ratio: 1.05 });
    const local = rowOf(result('local-sgd', [2_000, 2_000], [2_000, 2_000]), 5);
    expect(local).toMatchObject({ syncEvery: 5, busiestBytesPerStep: 200, theory: 200, ratio: 1, stepMs: 8 });
  });

  test('contradictions reports only ddp and parameter-server, if their bytes differ from theory by more than 1 %', () => {
    const row = rowOf(result('ddp', [10_000, 10_000], [10_000, 10_000]), 1);
    const rows = STRATEGY_NAMES.filter(isReplicaStrategyName).flatMap((strategy) =>
      [0.989, 0.991, 1.009, 1.011].map((ratio) => ({ ...row, strategy, ratio, busiestBytesPerStep: 1000 * ratio })),
    );
    expect(contradictions(rows)).toEqual([
      'ddp with 2 ranks moved 989 bytes per step, but theory is 1000',
      'ddp with 2 ranks moved 1011 bytes per step, but theory is 1000',
      'parameter-server with 2 ranks moved 989 bytes per step, but theory is 1000',
      'parameter-server with 2 ranks moved 1011 bytes per step, but theory is 1000',
    ]);
    expect(contradictions([{ ...row, ratio: Number.NaN }])).toHaveLength(1);
  });
});

describe('tables', () => {
  test('table returns a Markdown table with numbers aligned to the right', () => {
    expect(
      table(
        ['strategy', 'n'],
        [
          ['ring', '2'],
          ['local-sgd', '16'],
        ],
      ),
    ).toBe(['| strategy  |   n |', '| --------- | --: |', '| ring      |   2 |', '| local-sgd |  16 |'].join('\n'));
  });

  test('replaceSection replaces the previous content of a section, and throws if the page has no such section', () => {
    const page = 'a\n<!-- t -->\nold\n<!-- /t -->\nb\n';
    const next = replaceSection(page, 't', 'new');
    expect(next).toBe('a\n<!-- t -->\nnew\n<!-- /t -->\nb\n');
    expect(replaceSection(next, 't', 'new')).toBe(next);
    expect(() => replaceSection(page, 'u', 'new')).toThrow(/put <!-- u --> and <!-- \/u -->/);
  });
});

test.each([
  ['', /^$|Usage/],
  ['frobnicate', /unknown command/],
  ['strategies --tabs 1', /whole number from 2 to 256/],
  ['strategies --tabs 2,many', /whole number from 2 to 256/],
  ['strategies --strategies ddp,star', /ddp, parameter-server, async/],
  ['methods --data /nowhere/at/all', /\/nowhere\/at\/all cannot be read/],
])('the benchmark command exits with 2 for bad arguments: %s', async (line, sentence) => {
  const out: string[] = [];
  const err: string[] = [];
  const { signal } = new AbortController();
  const io = { out: (l: string) => void out.push(l), err: (l: string) => void err.push(l), terminal: null, signal };
  expect(await runBench(line === '' ? [] : line.split(' '), io)).toBe(2);
  expect(out).toEqual([]);
  expect(err.join('\n')).toMatch(sentence);
});

test('docs/BENCHMARKS.md has markers for every part that the command `all` measures, in the same order', async () => {
  const page = await readFile(DOC, 'utf8');
  const names = ['machine', ...partsOf({ data: '/data' }).map(({ name }) => name)];
  for (const name of names) expect(replaceSection(page, name, 'new')).toContain(`<!-- ${name} -->\nnew\n`);
  expect([...page.matchAll(/^<!-- (\w+) -->$/gm)].map(([, name]) => name)).toEqual(names);
});

// The part runs with an unknown option at the end. Commands report the first unknown option, so all
// others are known.
test.each(partsOf({ data: '/data' }))(
  'the command $name accepts every option that the command `all` passes to it',
  async (part) => {
    const err: string[] = [];
    const io = {
      out: () => {},
      err: (text: string) => err.push(text),
      terminal: null,
      signal: new AbortController().signal,
    };
    expect(await runBench([...part.argv, '--json', '--no-such'], io)).toBe(2);
    expect(err.join()).toContain("unknown option '--no-such'");
  },
);

test('a benchmark prints its result even if its chart cannot be drawn', async () => {
  const [out, err]: [string[], string[]] = [[], []];
  const { signal } = new AbortController();
  const io = { out: (l: string) => void out.push(l), err: (l: string) => void err.push(l), terminal: null, signal };
  const program = createProgram('bench', '', io);
  const benchmark = defineBenchmark({
    ...{ name: 'one', description: '', options: [], section: String },
    measure: () => Promise.resolve(1),
    draw: (_, file) => Promise.reject(new Error(`${file} cannot be written`)),
  });
  benchmark.describe(program.command('one'), io);
  expect(await runProgram(program, ['one', '--json', '--picture', '/nowhere/a.png'], io)).toBe(1);
  expect(out).toEqual(['1']);
  expect(err).toEqual(['bench: /nowhere/a.png cannot be written']);
});
