/**
 * `bench strategies`: measures the bytes that each strategy sends and receives in real tabs, and
 * compares them with theory.
 */
import type { Io } from '../launcher/io.ts';
import type { RunResult } from '../src/protocol/runResult.ts';
import { STRATEGIES, STRATEGY_NAMES, type StrategyName } from '../src/spec/job.ts';
import { train } from '../launcher/commands/run.ts';
import { theoryBytes } from './allreduce/benchmark.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { listOf, oneOf, option, tabsOption } from './command/options.ts';
import { table } from '../tools/report/table.ts';

interface StrategiesOptions {
  tabs: number;
  strategies: readonly StrategyName[];
}

/** Steps between two exchanges of periodic strategies. A run has two such periods. */
const SYNC_EVERY = 2;
const STEPS = 2 * SYNC_EVERY;
/**
 * Samples per rank and step. The number does not change the bytes, and a small one saves time
 * without a GPU.
 */
const BATCH = 4;
/** Timeout of a run in seconds: ten times as long as the longest run on two cores without a GPU. */
const TIMEOUT_S = 30 * 60;

/** @throws (rejects) the errors of `train`. */
async function measure({ tabs, strategies }: StrategiesOptions, io: Io): Promise<StrategiesResult> {
  const rows: StrategyRow[] = [];
  let adapter = '';
  for (const strategy of strategies) {
    io.err(`${strategy} with ${tabs} ranks:`);
    const period = STRATEGIES[strategy].settings.includes('syncEvery') && { syncEvery: SYNC_EVERY };
    const job = { job: 'digits', strategy, ...period, steps: STEPS, batch: BATCH };
    // Tabs are linked by WebRTC as tabs of different machines are. Environment variables such as
    // RANK are ignored.
    const launched = { transport: 'webrtc', backend: 'webgpu', gpu: 'auto', kernels: 'own', maxRestarts: 0 } as const;
    const result = await train({ ...job, ...launched, tabs, timeout: TIMEOUT_S }, io, {});
    ({ adapter } = result);
    rows.push(rowOf(result, SYNC_EVERY));
  }
  return { strategies: rows, adapter };
}

/** Strategies that `bench methods` and `bench pipeline` measure. */
const UNMEASURED: ReadonlySet<StrategyName> = new Set(['streaming-diloco', 'sparseloco', 'pipeline']);
/** Strategies whose bytes have a simple theory. */
const MEASURED = STRATEGY_NAMES.filter((name) => !UNMEASURED.has(name));
/** Relative difference that is allowed for the headers of frames. */
const TOLERANCE = 0.01;

interface StrategyRow {
  strategy: StrategyName;
  /** World size. */
  n: number;
  /** Bytes of the gradient or of the parameters in fp32, which one exchange reduces. */
  K: number;
  /** Steps between two exchanges; 1 for strategies that exchange in every step. */
  syncEvery: number;
  /** Bytes per step of the busiest rank, which sends and receives most. */
  sentPerStep: number;
  receivedPerStep: number;
  /**
   * The measured bytes to compare with `theory`: sent and received bytes for strategies with a
   * server, only sent bytes for others, whose ranks receive as many.
   */
  busiestBytesPerStep: number;
  theory: number;
  ratio: number;
  /** Median milliseconds of a step. */
  stepMs: number;
}

/**
 * Returns the bytes per step of the busiest rank in theory, if n ranks exchange K bytes every
 * `syncEvery` steps.
 */
export function theoryOf(strategy: StrategyName, n: number, K: number, syncEvery: number): number {
  if (STRATEGIES[strategy].exchanges === 'server') return 2 * K * (n - 1);
  return theoryBytes(n, K) / syncEvery;
}

/** @param period `syncEvery` of the job. The number of steps is a multiple of it. */
export function rowOf(result: RunResult, period: number): StrategyRow {
  const { strategy, worldSize: n, gradientBytes: K, steps, bytesSentPerRank, bytesReceivedPerRank, stepMs } = result;
  const syncEvery = STRATEGIES[strategy].exchanges === 'parameters' ? period : 1;
  const ranks = bytesSentPerRank.map((sent, rank) => ({ sent, received: bytesReceivedPerRank[rank]! }));
  const { sent, received } = ranks.reduce((a, b) => (b.sent + b.received > a.sent + a.received ? b : a));
  const busiestBytesPerStep = (STRATEGIES[strategy].exchanges === 'server' ? sent + received : sent) / steps;
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

/** Returns a text for each row whose bytes should be exact and differ from theory. */
export function contradictions(rows: readonly StrategyRow[]): string[] {
  return rows
    .filter(({ strategy, ratio }) => STRATEGIES[strategy].isSynchronous && !(Math.abs(ratio - 1) <= TOLERANCE))
    .map(
      ({ strategy, n, busiestBytesPerStep, theory }) =>
        `${strategy} with ${n} ranks moved ${Math.round(busiestBytesPerStep)} bytes per step, but theory is ${Math.round(theory)}`,
    );
}

interface StrategiesResult {
  strategies: readonly StrategyRow[];
  adapter: string;
}

function section({ strategies, adapter }: StrategiesResult): string {
  return `## What strategies send

\`npm run -s bench -- strategies\`: real tabs on ${adapter} train a model of ${kilobytes(strategies[0]!.K)} kB. *H* is the
number of steps between two exchanges. *Theory* is the busiest rank's traffic according to docs/STRATEGIES.md: sent and received bytes for strategies with
a server, sent bytes for others.

${table(
  ['a step of the busiest rank', 'n', 'H', 'sent, kB', 'received, kB', 'theory, kB', 'ratio', 'step, ms'],
  strategies.map(({ strategy, n, syncEvery, sentPerStep, receivedPerStep, theory, ratio, stepMs }) => [
    ...[strategy, String(n), String(syncEvery), kilobytes(sentPerStep), kilobytes(receivedPerStep)],
    ...[kilobytes(theory), ratio.toFixed(4), stepMs.toFixed(0)],
  ]),
)}
`;
}

function kilobytes(bytes: number): string {
  return (bytes / 1000).toFixed(1);
}

export const strategies = defineBenchmark({
  name: 'strategies',
  description:
    "compare each strategy's bytes per step with theory; fails if those of ddp or parameter-server differ by more than 1 %",
  options: [
    tabsOption(8),
    option('--strategies <name,..>', 'strategies to measure', listOf(oneOf(MEASURED)), MEASURED),
  ],
  measure,
  problemsOf: ({ strategies: rows }) => contradictions(rows),
  section,
});
