/**
 * `bench balance`: measures how many more samples per second ranks train on if a slow rank has a
 * smaller share of each step. Four tabs train, each in its own browser; one of them is slowed.
 */
import { launchBrowser, type Browser } from '../launcher/browser/browser.ts';
import { ensureBuilt } from '../launcher/build.ts';
import type { Io } from '../launcher/io.ts';
import { wholeNumber } from '../launcher/options/jobOptions.ts';
import { PARTS } from '../src/parallel/data/passTimes.ts';
import type { EventOf } from '../src/protocol/events.ts';
import type { RunResult } from '../src/protocol/runResult.ts';
import { parseJob } from '../src/spec/job.ts';
import type { ShareReason } from '../src/spec/names.ts';
import { systemClock } from '../src/util/clock.ts';
import { PeergradError } from '../src/util/errors.ts';
import { median } from '../src/util/statistics.ts';
import { isReported, reportOf, type Observation } from '../tools/chaos/report.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { option, tabsOption } from './command/options.ts';
import { table } from '../tools/report/table.ts';
import { slowTabs } from './training/slowTabs.ts';
import { trainInBrowsers } from './training/trainInBrowsers.ts';

interface BalanceBenchOptions {
  tabs: number;
  /** Samples per rank and step. */
  batch: number;
  steps: number;
  json?: true;
}

/**
 * Steps at the beginning that are not timed. Shares follow the speeds from the ninth step on, with
 * tensors of other shapes.
 */
const WARM_UP = 12;
/** Each round has a run of each kind, because other programs may slow the machine for a while. */
const ROUNDS = 2;
const PLAN = { job: 'digits', model: 'mlp', hidden: 256, epochs: 1000, hashEvery: 1000 };
const KINDS = ['equal', 'speed'] as const;
/** How many times as long the slow tab computes. */
const SLOWNESS = 4;
/** Largest relative difference of two losses that differ by rounding only. */
const ROUNDING = 1e-5;

export interface BalanceRun {
  balance: (typeof KINDS)[number];
  /** Samples of the timed steps, and the seconds that they took. */
  samples: number;
  seconds: number;
  /** Median milliseconds of a timed step, and of its computation on each rank. */
  stepMs: number;
  computeMs: number[];
  /** Samples of each rank by the time of its computation: medians, per second. */
  speeds: number[];
  /** Shares in quarters of the batch size at the end, and the first step with unequal shares. */
  shares: number[];
  balancedFrom: number | null;
  /** Samples that the windows of the steps leave out, or contain again. */
  samplesSkipped: number;
  samplesRepeated: number;
  hashMismatches: number;
}

export interface BalanceResult {
  tabs: number;
  batch: number;
  steps: number;
  /** In the order in which they were made. */
  runs: BalanceRun[];
  /** Samples per second over all rounds, with equal shares and with shares by speed. */
  samplesPerSecond: Record<(typeof KINDS)[number], number>;
  /** The quotient of the two. */
  speedUp: number;
  /** Largest relative difference between the losses of a step in two runs. */
  lossDifference: number;
}

/** @throws (rejects) PeergradError if a tab fails, or if losses, samples or hashes differ. */
async function benchBalance({ tabs, batch, steps, json }: BalanceBenchOptions, io: Io): Promise<void> {
  await ensureBuilt(io);
  const runs: BalanceRun[] = [];
  const losses: (readonly number[])[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    for (const kind of KINDS) {
      io.err(`${tabs} tabs train with balance ${kind}; one of them computes ${SLOWNESS} times as long ...`);
      const trained = await trainWith(kind, { tabs, batch, steps }, io);
      runs.push(trained.run);
      losses.push(trained.losses);
    }
  }
  const samplesPerSecond = { equal: rateOf(runs, 'equal'), speed: rateOf(runs, 'speed') };
  const speedUp = samplesPerSecond.speed / samplesPerSecond.equal;
  const lossDifference = Math.max(...losses.map((own) => largestDifference(losses[0]!, own)));
  const result: BalanceResult = { tabs, batch, steps, runs, samplesPerSecond, speedUp, lossDifference };
  io.out(json === undefined ? balanceTable(result) : JSON.stringify(result));
  const isExact = runs.every((run) => run.samplesSkipped + run.samplesRepeated + run.hashMismatches === 0);
  if (!isExact || lossDifference > ROUNDING) {
    throw new PeergradError('Shares by speed have changed the result of a run. See losses, samples and hashes.');
  }
}

async function trainWith(
  kind: BalanceRun['balance'],
  { tabs, batch, steps }: Pick<BalanceBenchOptions, 'tabs' | 'batch' | 'steps'>,
  io: Io,
): Promise<{ run: BalanceRun; losses: readonly number[] }> {
  const job = parseJob({ ...PLAN, balance: kind, batchSize: batch, maxSteps: steps });
  const launch = async (tab: number): Promise<Browser> => {
    const browser = await launchBrowser({ backend: 'wasm' });
    if (tab === tabs - 1) slowTabs(browser, SLOWNESS);
    return browser;
  };
  const observations: Observation[] = [];
  const decisions: EventOf<'shares'>[] = [];
  const results: RunResult[] = [];
  const options = { tabs, launch, job, address: '127.0.0.1', remote: false, isElastic: false };
  await trainInBrowsers(options, io, (event, tab) => {
    if (isReported(event)) observations.push({ at: systemClock.now(), tab: String(tab), event });
    if (tab === 0 && event.type === 'shares') decisions.push(event);
    if (tab !== 0 || event.type !== 'finished') return false;
    results.push(event.result);
    return true;
  });
  const result = results[0]!;
  return { run: runOf(kind, observations, decisions, result), losses: result.losses };
}

/** @param observations events of all tabs, in order. Each tab is named by its index. */
export function runOf(
  kind: BalanceRun['balance'],
  observations: readonly Observation[],
  decisions: readonly { step: number; shares: readonly number[]; reason: ShareReason }[],
  { shares, stateHash, worldSize }: Pick<RunResult, 'shares' | 'stateHash' | 'worldSize'>,
): BalanceRun {
  const equal = Array.from({ length: worldSize }, () => PARTS);
  const sharesIn = (step: number): readonly number[] =>
    decisions.findLast((decision) => decision.step <= step)?.shares ?? equal;
  const speedOf = ({ step, samples, ms }: EventOf<'step'>, tab: number): number =>
    (1000 * samples * sharesIn(step)[tab]!) / (PARTS * worldSize * ms.compute);
  const timed = equal.map((_, tab) =>
    observations
      .flatMap((seen) => (seen.tab === String(tab) && seen.event.type === 'step' ? [seen.event] : []))
      .slice(WARM_UP),
  );
  const first = timed[0]!;
  const { samplesSkipped, samplesRepeated } = reportOf(observations, []);
  return {
    balance: kind,
    samples: first.slice(1).reduce((sum, { samples }) => sum + samples, 0),
    seconds: (first.at(-1)!.at - first[0]!.at) / 1000,
    stepMs: median(first.map(({ ms }) => ms.total)),
    computeMs: timed.map((own) => median(own.map(({ ms }) => ms.compute))),
    speeds: timed.map((own, tab) => median(own.map((step) => speedOf(step, tab)))),
    shares: shares ?? equal,
    balancedFrom: decisions.find(({ reason }) => reason === 'speed')?.step ?? null,
    samplesSkipped,
    samplesRepeated,
    hashMismatches: new Set(stateHash).size - 1,
  };
}

/** Returns the samples per second of all runs of a kind. */
export function rateOf(runs: readonly BalanceRun[], kind: BalanceRun['balance']): number {
  const own = runs.filter((run) => run.balance === kind);
  const sum = (pick: (run: BalanceRun) => number): number => own.reduce((total, run) => total + pick(run), 0);
  return sum(({ samples }) => samples) / sum(({ seconds }) => seconds);
}

export function largestDifference(a: readonly number[], b: readonly number[]): number {
  return a.reduce((most, loss, i) => Math.max(most, Math.abs(loss - b[i]!) / Math.abs(loss)), 0);
}

function inRow(values: readonly number[]): string {
  return values.map((value) => value.toFixed(0)).join(', ');
}

function balanceTable({ runs, samplesPerSecond, speedUp, lossDifference }: BalanceResult): string {
  const rows = runs.map((run) => [
    ...[run.balance, (run.samples / run.seconds).toFixed(0), run.stepMs.toFixed(0)],
    ...[inRow(run.shares), inRow(run.computeMs), inRow(run.speeds)],
    `${run.samplesSkipped}, ${run.samplesRepeated}, ${run.hashMismatches}`,
  ]);
  const head = [
    ...['balance', 'samples/s', 'step, ms', 'shares', 'computation, ms', 'speeds, samples/s'],
    'skipped, repeated, mismatches',
  ];
  const { equal, speed } = samplesPerSecond;
  return [
    table(head, rows),
    `Over all runs: ${speed.toFixed(0)} samples/s by speed, ${equal.toFixed(0)} with equal shares, ${speedUp.toFixed(2)} times as many. ` +
      `Losses of a step differ by at most ${lossDifference.toExponential(1)} of their value.`,
  ].join('\n\n');
}

export function section(result: BalanceResult): string {
  const { tabs, batch, steps } = result;
  const most = ((tabs - 1) * SLOWNESS + 1) / tabs;
  return [
    '## Work by speed',
    `${tabs} tabs train the mlp with ${PLAN.hidden} hidden units on generated digits, in WebAssembly, with ${batch} images per rank and step, for ` +
      `${steps} steps. Each tab has its own browser. The worker of the last tab sleeps after each call of WebAssembly for ${SLOWNESS - 1} times its duration. ` +
      `*Shares* are quarters of the batch size at the end of a run. The first ${WARM_UP} steps are not timed. Computation and speeds are medians, by ` +
      'rank. (`npm run -s bench -- balance`)',
    balanceTable(result),
    `Without communication and on cores of their own, ${tabs} tabs could train on ${most.toFixed(2)} times as many samples. Here all tabs share the ` +
      "machine's cores, so the quick tabs compute more slowly while all tabs compute, and a step also has communication, which balancing does not shorten.",
  ].join('\n\n');
}

export const balance = defineBenchmark({
  name: 'balance',
  description:
    'measure how many more samples per second ranks train on if a slow rank has a smaller share of each step',
  options: [
    tabsOption(4),
    option('--batch <n>', 'samples per rank and step', wholeNumber(4, 4096), 2048),
    option('--steps <n>', 'steps of a run', wholeNumber(WARM_UP + 4, 10_000), 26),
  ],
  run: benchBalance,
  section,
});
