/** `bench strategies`: bytes that each strategy moves in real tabs, compared with theory. */
import { InvalidArgumentError } from 'commander';
import { TABS_PER_SOFTWARE_GPU } from '../launcher/browser/browser.ts';
import type { Io } from '../launcher/io.ts';
import type { RunResult } from '../src/protocol/runResult.ts';
import { MAX_REPLICAS, STRATEGY_NAMES, type StrategyName } from '../src/spec/job.ts';
import { PeergradError } from '../src/util/errors.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { listOf, option, worldSizesOption } from './command/options.ts';
import { table } from './report/table.ts';
import { trainInTabs } from './training/trainInTabs.ts';

export interface StrategiesOptions {
  tabs: readonly number[];
  strategies: readonly StrategyName[];
  json?: true;
}

/** Periods of a run: bytes are the same in each. */
const SYNC_EVERY = 2;
const STEPS = 2 * SYNC_EVERY;
/** Samples per rank and step. They do not change the bytes, and cost time without a GPU. */
const BATCH = 4;

/**
 * @throws (rejects) PeergradError if ddp or parameter-server contradict theory, after the result is
 *   printed.
 */
export async function benchStrategies({ tabs, strategies, json }: StrategiesOptions, io: Io): Promise<void> {
  const rows: StrategyRow[] = [];
  const skipped: { strategy: StrategyName; n: number; reason: string }[] = [];
  let adapter = '';
  for (const n of tabs) {
    for (const strategy of strategies) {
      const isOneTab = strategy === 'data-parallel';
      // With WebGPU in software, tabs are distributed over several browsers; replicas share one.
      const most = /swiftshader/i.test(adapter) ? TABS_PER_SOFTWARE_GPU : MAX_REPLICAS;
      if (isOneTab && n > most) {
        const reason = `a tab on ${adapter || 'this GPU'} has at most ${most} replicas`;
        skipped.push({ strategy, n, reason });
        io.err(`Skipping ${strategy} with ${n} ranks: ${reason}.`);
        continue;
      }
      io.err(`${strategy} with ${n} ranks:`);
      const job = { job: 'digits', strategy, syncEvery: SYNC_EVERY, steps: STEPS, batch: BATCH };
      const result = isOneTab ? await trainInTabs(1, { ...job, replicas: n }, io) : await trainInTabs(n, job, io);
      ({ adapter } = result);
      rows.push(rowOf(result, SYNC_EVERY));
    }
  }
  const result = { strategies: rows, skipped, adapter };
  io.out(json === undefined ? strategiesTable(result) : JSON.stringify(result));
  const wrong = contradictions(rows);
  if (wrong.length > 0) throw new PeergradError(`Bytes differ from theory by more than headers: ${wrong.join('; ')}.`);
}

/**
 * Strategies whose bytes all pass rank 0, which sends as much as it receives: both directions
 * count.
 */
const SERVERS: ReadonlySet<StrategyName> = new Set(['parameter-server', 'async-parameter-server', 'data-parallel']);
/** Strategies that exchange once per period instead of once per step. */
const PERIODIC: ReadonlySet<StrategyName> = new Set(['local-sgd', 'diloco']);
/** Strategies with deterministic bytes: measurement and theory may differ by {@link TOLERANCE}. */
const EXACT: ReadonlySet<StrategyName> = new Set(['ddp', 'parameter-server']);
/** Headers of frames take less. */
const TOLERANCE = 0.01;

export interface StrategyRow {
  strategy: StrategyName;
  /** World size. */
  n: number;
  /** Bytes of one exchange: the gradient or the parameters in fp32. */
  K: number;
  /** Steps between two exchanges; 1 for strategies that exchange in each step. */
  syncEvery: number;
  /** Bytes of the busiest rank, which sends and receives most. */
  sentPerStep: number;
  receivedPerStep: number;
  /**
   * The bytes that `theory` predicts: for a server those sent and received, for others those sent
   * (they receive as many).
   */
  busiestBytesPerStep: number;
  theory: number;
  ratio: number;
  /** Median milliseconds of a step. */
  stepMs: number;
}

/**
 * Bytes per step of the busiest rank, for K bytes per exchange among n ranks, every `syncEvery`
 * steps.
 */
export function theoryOf(strategy: StrategyName, n: number, K: number, syncEvery: number): number {
  if (SERVERS.has(strategy)) return 2 * K * (n - 1);
  return (2 * K * (n - 1)) / (n * syncEvery);
}

/** @param period the job's `syncEvery`; the run's steps are a multiple of it */
export function rowOf(result: RunResult, period: number): StrategyRow {
  const { strategy, worldSize: n, gradientBytes: K, steps, bytesSentPerRank, bytesReceivedPerRank, stepMs } = result;
  const syncEvery = PERIODIC.has(strategy) ? period : 1;
  const ranks = bytesSentPerRank.map((sent, rank) => ({ sent, received: bytesReceivedPerRank[rank]! }));
  const { sent, received } = ranks.reduce((a, b) => (b.sent + b.received > a.sent + a.received ? b : a));
  const busiestBytesPerStep = (SERVERS.has(strategy) ? sent + received : sent) / steps;
  const theory = theoryOf(strategy, n, K, syncEvery);
  return {
    strategy,
    n,
    K,
    syncEvery,
    sentPerStep: sent / steps,
    receivedPerStep: received / steps,
    busiestBytesPerStep,
    theory,
    ratio: busiestBytesPerStep / theory,
    stepMs: stepMs.median,
  };
}

/** Sentences about rows that contradict theory, of strategies with deterministic bytes. */
export function contradictions(rows: readonly StrategyRow[]): string[] {
  return rows
    .filter(({ strategy, ratio }) => EXACT.has(strategy) && !(Math.abs(ratio - 1) <= TOLERANCE))
    .map(
      ({ strategy, n, busiestBytesPerStep, theory }) =>
        `${strategy} with ${n} ranks moved ${Math.round(busiestBytesPerStep)} bytes a step, not ${Math.round(theory)}`,
    );
}

interface StrategiesResult {
  strategies: readonly StrategyRow[];
  skipped: readonly { strategy: StrategyName; n: number; reason: string }[];
  adapter: string;
}

export function strategiesTable({ strategies }: StrategiesResult): string {
  return table(
    ['a step of the busiest rank', 'n', 'K, kB', 'H', 'sent, kB', 'received, kB', 'theory, kB', 'ratio', 'step, ms'],
    strategies.map(({ strategy, n, K, syncEvery, sentPerStep, receivedPerStep, theory, ratio, stepMs }) => [
      ...[strategy, String(n), kilobytes(K), String(syncEvery), kilobytes(sentPerStep), kilobytes(receivedPerStep)],
      ...[kilobytes(theory), ratio.toFixed(4), stepMs.toFixed(0)],
    ]),
  );
}

export function section(result: StrategiesResult): string {
  const leftOut = result.skipped.map(({ strategy, n, reason }) => `${strategy} with ${n}, as ${reason}`);
  return `## What strategies send

\`npm run -s bench -- strategies\`: a few steps of real tabs on ${result.adapter}, with each strategy. K is the bytes of the model, H the
steps between two exchanges; *theory* is the busiest rank's traffic by docs/STRATEGIES.md, *ratio* the measured traffic over it.

${strategiesTable(result)}
${leftOut.length === 0 ? '' : `\nLeft out: ${leftOut.join('; ')}.\n`}
Headers, and the loss and counts behind the gradient, exceed the theory.
`;
}

function kilobytes(bytes: number): string {
  return (bytes / 1000).toFixed(1);
}

function strategyName(text: string): StrategyName {
  const name = STRATEGY_NAMES.find((known) => known === text);
  if (name === undefined) throw new InvalidArgumentError(`Allowed choices are ${STRATEGY_NAMES.join(', ')}.`);
  return name;
}

export const strategies = defineBenchmark({
  name: 'strategies',
  description:
    "compare each strategy's bytes per step with theory; fails if ddp or parameter-server differ by 1 % or more",
  options: [
    worldSizesOption(),
    option('--strategies <name,..>', 'strategies to measure', listOf(strategyName), [...STRATEGY_NAMES]),
  ],
  run: benchStrategies,
  section,
});
