/** What a strategy's exchange must cost, and what a run's did. */
import type { RunResult } from '../../src/protocol/runResult.ts';
import type { StrategyName } from '../../src/spec/job.ts';

/**
 * Those whose bytes all pass rank 0, which sends as much as it receives: in and out are counted
 * together.
 */
const SERVERS: ReadonlySet<StrategyName> = new Set(['parameter-server', 'async-parameter-server', 'data-parallel']);
/** Those that exchange once in a period, not once a step. */
const PERIODIC: ReadonlySet<StrategyName> = new Set(['local-sgd', 'diloco']);
/**
 * Those whose bytes leave nothing to chance: measured and theory may differ by {@link TOLERANCE}.
 */
const EXACT: ReadonlySet<StrategyName> = new Set(['ddp', 'parameter-server']);
/** Frames' headers take less. */
const TOLERANCE = 0.01;

export interface StrategyRow {
  strategy: StrategyName;
  /** World size. */
  n: number;
  /** Bytes of one exchange: the gradient, or the parameters, fp32. */
  K: number;
  /** Steps between two exchanges; 1 for strategies that exchange in each. */
  syncEvery: number;
  /** Of the busiest rank, which is the one that sends and receives most. */
  sentPerStep: number;
  receivedPerStep: number;
  /**
   * What `theory` is about: of a server what it sends and receives, of others what they send (they
   * receive as much).
   */
  busiestBytesPerStep: number;
  theory: number;
  ratio: number;
  /** Median of a step, milliseconds. */
  stepMs: number;
}

/**
 * Bytes per step of the busiest rank; K bytes an exchange among n ranks, every `syncEvery` steps.
 */
export function theoryOf(strategy: StrategyName, n: number, K: number, syncEvery: number): number {
  if (SERVERS.has(strategy)) return 2 * K * (n - 1);
  return (2 * K * (n - 1)) / (n * syncEvery);
}

/** @param period the job's `syncEvery`, of which the run's steps are a multiple */
export function rowOf(result: RunResult, period: number): StrategyRow {
  const { strategy, worldSize: n, gradientBytes: K, steps, bytesSentPerRank, bytesReceivedPerRank, stepMs } = result;
  const syncEvery = PERIODIC.has(strategy) ? period : 1;
  const ranks = bytesSentPerRank.map((sent, rank) => ({ sent, received: bytesReceivedPerRank[rank]! }));
  const { sent, received } = ranks.reduce((a, b) => (b.sent + b.received > a.sent + a.received ? b : a));
  const busiestBytesPerStep = (SERVERS.has(strategy) ? sent + received : sent) / steps;
  const theory = theoryOf(strategy, n, K, syncEvery);
  return {
    ...{ strategy, n, K, syncEvery, sentPerStep: sent / steps, receivedPerStep: received / steps },
    ...{ busiestBytesPerStep, theory, ratio: busiestBytesPerStep / theory, stepMs: stepMs.median },
  };
}

/** Rows that contradict theory, in words; of strategies whose bytes are exactly known. */
export function contradictions(rows: readonly StrategyRow[]): string[] {
  return rows
    .filter(({ strategy, ratio }) => EXACT.has(strategy) && !(Math.abs(ratio - 1) <= TOLERANCE))
    .map(
      ({ strategy, n, busiestBytesPerStep, theory }) =>
        `${strategy} with ${n} ranks moved ${Math.round(busiestBytesPerStep)} bytes a step, not ${Math.round(theory)}`,
    );
}
