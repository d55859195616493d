/**
 * `bench curves`: measures the loss of each step and the held-out accuracy of each strategy, in
 * real tabs.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Io } from '../launcher/io.ts';
import { checkDataFolder } from '../launcher/options/jobOptions.ts';
import type { RunResult } from '../src/protocol/runResult.ts';
import type { StrategyName } from '../src/spec/job.ts';
import { PeergradError } from '../src/util/errors.ts';
import { mean } from '../src/util/statistics.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { mnistOption } from './command/options.ts';
import { drawPanels, type Panel } from '../tools/report/plot.ts';
import { replaceSection, table } from '../tools/report/table.ts';
import { trainInTabs } from './training/trainInTabs.ts';

interface CurvesOptions {
  data: string;
  json?: true;
}

/** The strategies that train. */
type TrainingStrategy = Exclude<StrategyName, 'auto'>;

interface Curve {
  strategy: TrainingStrategy;
  n: number;
  batch: number;
  losses: number[];
  accuracy: number;
  stepMs: number;
}

const RANKS = 4;
const BATCH = 32;
/** Batch of a run in one tab that has as many samples per step as all ranks together. */
const WHOLE_BATCH = RANKS * BATCH;
/** Long enough that differences larger than rounding errors would grow. */
const SYNCHRONOUS_STEPS = 50;
/**
 * Allowed relative difference of losses. float32 sums in another order differ by about 1e-7 per
 * step, and training amplifies these differences.
 */
const LOSS_TOLERANCE = 1e-4;
const MNIST_EPOCHS = 5;
/**
 * How much lower than ddp's the accuracy of asynchronous and local strategies may be. 2000 held-out
 * images are enough to measure differences of 1 %.
 */
const ACCURACY_TOLERANCE = 0.02;
/**
 * Each plotted point is the mean over this many steps, because the loss of a single batch is noisy.
 */
const SMOOTHING = 15;

const DOCS = new URL('../docs/', import.meta.url);
const PAGE = new URL('STRATEGIES.md', DOCS);
const PICTURE = new URL('strategies.png', DOCS);

/** Colours also differ in lightness, for black-and-white print. */
const COLOURS: Record<TrainingStrategy, string> = {
  ddp: '#1f4e9c',
  'parameter-server': '#d1495b',
  'data-parallel': '#e3a018',
  'async-parameter-server': '#d1495b',
  'local-sgd': '#2f9e63',
  diloco: '#8a4fbf',
  'streaming-diloco': '#b58ad9',
  sparseloco: '#5b8c5a',
};
const ONE_TAB_COLOUR = '#b9c2cf';

/**
 * @throws (rejects) UsageError for a folder without data; PeergradError if a strategy misses its
 * tolerance. The results are written before.
 */
async function benchCurves({ data, json }: CurvesOptions, io: Io): Promise<void> {
  await checkDataFolder(data);
  const digits = { job: 'digits', steps: SYNCHRONOUS_STEPS };
  const oneTab = await curve('ddp', 1, { ...digits, batch: WHOLE_BATCH }, io);
  const exact: (Curve & { difference: number })[] = [];
  for (const strategy of ['ddp', 'parameter-server', 'data-parallel'] as const) {
    const run = await curve(strategy, RANKS, { ...digits, batch: BATCH }, io);
    exact.push({ ...run, difference: largestDifference(run.losses, oneTab.losses) });
  }
  const mnist = { job: 'mnist', data, epochs: MNIST_EPOCHS, batch: BATCH };
  const free: Curve[] = [];
  for (const strategy of [
    'ddp',
    'async-parameter-server',
    'local-sgd',
    'diloco',
    'streaming-diloco',
    'sparseloco',
  ] as const) {
    free.push(await curve(strategy, RANKS, mnist, io));
  }

  await drawPanels([exactPanel(oneTab, exact), freePanel(free)], fileURLToPath(PICTURE));
  const tables = `${exactTable(exact)}\n\n${freeTable(free)}`;
  await writeFile(PAGE, replaceSection(await readFile(PAGE, 'utf8'), 'bench curves', `\n${tables}\n`));
  io.out(json === undefined ? tables : JSON.stringify({ oneTab, synchronous: exact, others: free }));

  const broken = [
    ...exact
      .filter(({ difference }) => !(difference <= LOSS_TOLERANCE))
      .map(
        ({ strategy, difference }) =>
          `the loss of ${strategy} differs from that of one tab by ${difference.toExponential(1)} (relative)`,
      ),
    ...free
      .filter(({ accuracy }) => accuracy < free[0]!.accuracy - ACCURACY_TOLERANCE)
      .map(
        ({ strategy, accuracy }) =>
          `the final accuracy of ${strategy} is ${percent(accuracy)}, that of ddp ${percent(free[0]!.accuracy)}`,
      ),
  ];
  if (broken.length > 0) throw new PeergradError(`Differences are larger than the tolerances: ${broken.join('; ')}.`);
}

async function curve(
  strategy: TrainingStrategy,
  n: number,
  job: { job: string; batch: number; steps?: number; epochs?: number; data?: string },
  io: Io,
): Promise<Curve> {
  io.err(`${strategy} with ${n === 1 ? '1 rank' : `${n} ranks`} on ${job.job}:`);
  const isOneTab = strategy === 'data-parallel';
  const result: RunResult = await (isOneTab
    ? trainInTabs(1, { ...job, strategy, replicas: n }, io)
    : trainInTabs(n, { ...job, strategy }, io));
  const { losses, accuracy, stepMs } = result;
  // Both jobs have held-out samples, so the accuracy is not null.
  return { strategy, n, batch: job.batch, losses, accuracy: accuracy ?? 0, stepMs: stepMs.median };
}

function exactPanel(oneTab: Curve, exact: readonly Curve[]): Panel {
  return {
    title: `Synchronous: ${RANKS} ranks × ${BATCH} equal 1 × ${WHOLE_BATCH} (digits)`,
    x: 'step',
    y: 'loss',
    curves: [
      { label: `1 tab × ${WHOLE_BATCH}`, colour: ONE_TAB_COLOUR, width: 9, dash: [], values: oneTab.losses },
      ...exact.map(({ strategy, losses }, i) => ({
        label: strategy,
        colour: COLOURS[strategy],
        // All curves coincide. Different dashes make each of them visible.
        ...[
          { width: 3, dash: [] },
          { width: 3, dash: [12, 24] },
          { width: 3, dash: [0, 12, 12, 12] },
        ][i]!,
        values: losses,
      })),
    ],
  };
}

function freePanel(free: readonly Curve[]): Panel {
  return {
    title: `Asynchronous and local: ${RANKS} tabs × ${BATCH} on MNIST, ${MNIST_EPOCHS} epochs`,
    x: 'step',
    y: `loss, mean of ${SMOOTHING} steps`,
    curves: free.map(({ strategy, losses, accuracy }) => ({
      label: `${strategy} (${percent(accuracy)})`,
      colour: COLOURS[strategy],
      width: 2,
      dash: [],
      values: movingAverage(losses, SMOOTHING),
    })),
    isLogarithmic: true,
  };
}

function exactTable(exact: readonly (Curve & { difference: number })[]): string {
  return table(
    [`digits, ${SYNCHRONOUS_STEPS} steps`, 'ranks × batch', `largest difference from 1 × ${WHOLE_BATCH}`, 'step, ms'],
    exact.map(({ strategy, n, batch, difference, stepMs }) => [
      ...[strategy, `${n} × ${batch}`, difference.toExponential(1), stepMs.toFixed(0)],
    ]),
  );
}

function freeTable(free: readonly Curve[]): string {
  return table(
    [
      `MNIST, ${MNIST_EPOCHS} epochs`,
      'ranks × batch',
      'steps',
      `loss, last ${SMOOTHING} steps`,
      'held-out accuracy',
      'step, ms',
    ],
    free.map(({ strategy, n, batch, losses, accuracy, stepMs }) => [
      ...[strategy, `${n} × ${batch}`, String(losses.length), movingAverage(losses, SMOOTHING).at(-1)!.toFixed(3)],
      ...[percent(accuracy), stepMs.toFixed(0)],
    ]),
  );
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}

/**
 * Returns the largest |a - b| / |b| over all steps, where b is the reference; infinity if the
 * lengths differ.
 */
export function largestDifference(losses: readonly number[], reference: readonly number[]): number {
  if (losses.length !== reference.length) return Infinity;
  return Math.max(0, ...losses.map((loss, step) => Math.abs(loss - reference[step]!) / Math.abs(reference[step]!)));
}

/**
 * Returns for each step the mean of the last `span` values, or of fewer values at the beginning.
 */
export function movingAverage(values: readonly number[], span: number): number[] {
  return values.map((_, i) => mean(values.slice(Math.max(0, i + 1 - span), i + 1)));
}

export const curves = defineBenchmark({
  name: 'curves',
  description:
    'write loss curves of all strategies to docs/STRATEGIES.md and docs/strategies.png; fails if a synchronous strategy differs ' +
    'from one tab, or if the accuracy of another strategy is more than 2 points below that of ddp',
  options: [mnistOption()],
  run: benchCurves,
});
