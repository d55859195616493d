/**
 * `bench scale`: measures and predicts the time of an all-reduce by world size. The cost model is
 * fitted to rings of 2 to 8 tabs, and checked with tensor sizes that were left out of the fit. With
 * the fitted costs, larger worlds on other networks are simulated.
 */
import { Option } from 'commander';
import type { Io } from '../../launcher/io.ts';
import { wholeNumber } from '../../launcher/options/jobOptions.ts';
import type { Costs } from '../../src/collectives/plans/costModel.ts';
import { defineBenchmark } from '../command/defineBenchmark.ts';
import { option } from '../command/options.ts';
import { drawPanels, type Panel } from '../../tools/report/plot.ts';
import { crossValidate, fitCosts, type Prediction, type Sample, worstError } from './fit.ts';
import {
  type AlgorithmName,
  ALGORITHMS,
  type Crossover,
  crossovers,
  type GrowthRow,
  NETWORKS,
  fastestOf,
  simulateGrowth,
  WORLDS,
} from './growth.ts';
import { measure } from './measure.ts';
import { table } from '../../tools/report/table.ts';

interface ScaleOptions {
  ranks: number;
  picture?: string;
  json?: true;
}

const TABS = [2, 3, 4, 6, 8];
const SIZES = [1, 4, 16, 64, 256, 1024].map((kibibytes) => 1024 * kibibytes);
const FIFTH = 0.2;

/** @throws (rejects) PeergradError if a tab fails. */
async function benchScale({ ranks, picture, json }: ScaleOptions, io: Io): Promise<void> {
  const log = (line: string): void => io.err(line);
  const { samples, combineMsPerByte } = await measure(TABS, SIZES, log);
  const costs = fitCosts(samples, combineMsPerByte);
  const predictions = crossValidate(samples, combineMsPerByte);
  const within = predictions.filter(({ error }) => Math.abs(error) <= FIFTH);
  const growth = simulateGrowth(
    costs,
    WORLDS.filter((n) => n <= ranks),
    log,
  );
  const result: ScaleResult = {
    costs,
    samples,
    predictions,
    worstError: worstError(predictions),
    withinFifth: within.length / predictions.length,
    growth,
    crossovers: crossovers(growth),
  };
  if (picture !== undefined) await drawPanels(panelsOf(growth), picture);
  io.out(json === undefined ? report(result) : JSON.stringify(result));
}

const DRAWN_BYTES = 4_000_000;
const COLOURS: Record<AlgorithmName, string> = {
  ring: '#1f6feb',
  'two-level': '#2da44e',
  'halving-doubling': '#bf3989',
  doubling: '#9a6700',
};

function panelsOf(growth: readonly GrowthRow[]): Panel[] {
  return NETWORKS.map((network) => {
    const rows = growth.filter((row) => row.network === network && row.bytes === DRAWN_BYTES);
    return {
      title: `All-reduce of 4 MB, ${network}`,
      x: 'ranks',
      y: 'seconds',
      isLogarithmic: true,
      xs: rows.map(({ n }) => n),
      curves: (Object.keys(ALGORITHMS) as AlgorithmName[]).map((label) => ({
        label,
        colour: COLOURS[label],
        width: 2,
        dash: [],
        values: rows.map(({ ms }) => ms[label]! / 1000),
      })),
    };
  });
}

interface ScaleResult {
  costs: Costs;
  samples: Sample[];
  /**
   * Predictions for each size except the smallest and the largest, from a fit to the other sizes.
   */
  predictions: Prediction[];
  worstError: number;
  /** Fraction of the predictions whose error is at most 20 %. */
  withinFifth: number;
  growth: GrowthRow[];
  crossovers: Crossover[];
}

/** World sizes and tensor size in the table of times. */
const SHOWN = [8, 256];
const SHOWN_BYTES = 4_000_000;

export function section(result: ScaleResult): string {
  const { costs, worstError: worst, withinFifth } = result;
  return [
    '## Growth',
    `The cost model (\`src/collectives/plans/costModel.ts\`) is fitted by least squares of relative errors to ${result.samples.length} ` +
      'medians of all-reduces around rings of tabs on this machine. Each size except the smallest and the largest is predicted by a fit to all other sizes. Larger worlds on ' +
      'other networks are simulated with the plans that ranks run: a LAN with 1 Gbit/s and 0.3 ms; campus Wi-Fi with 75 Mbit/s, which the 16 ranks of an access point share, and 5 ms; home ' +
      'uplinks with 15 Mbit/s up, 100 Mbit/s down, and 30 ms. (`npm run -s bench -- scale`)',
    table(
      ['constant', 'fitted'],
      [
        ['a hop of an empty frame', `${costs.hopMs.toFixed(2)} ms`],
        ['each byte of a lone frame, in addition to the line', nanoseconds(costs.hopMsPerByte)],
        ['on shared cores, each frame', `${costs.sharedMsPerFrame.toFixed(2)} ms`],
        ['on shared cores, each byte', nanoseconds(costs.sharedMsPerByte)],
        ['on shared cores, each byte, for each tab', nanoseconds(costs.crowdMsPerByte)],
        ['addition of a byte to the sum', nanoseconds(costs.combineMsPerByte)],
      ],
    ),
    `${percent(withinFifth)} of the predictions differ from the measured time by at most 20 %. The largest error is ${percent(worst)}.`,
    ...NETWORKS.map((network) => {
      const rows = result.growth.filter(
        (row) => row.network === network && row.bytes === SHOWN_BYTES && SHOWN.includes(row.n),
      );
      const names = Object.keys(ALGORITHMS) as AlgorithmName[];
      return table(
        [`${network}, 4 MB: ms`, ...names, 'fastest'],
        rows.map((row) => [`${row.n} ranks`, ...names.map((name) => cell(row, name)), fastestOf(row).algorithm]),
      );
    }),
    'The constants are valid for two cores that all tabs share. In the simulation, connections have their full speed.',
  ].join('\n\n');
}

/** Returns the section with the predictions, and with the world sizes that each algorithm suits. */
function report(result: ScaleResult): string {
  const { predictions } = result;
  return [
    section(result),
    table(
      ['tabs', ...sizesOf(result).map((bytes) => `${bytes / 1024} KiB: ms`), 'worst error'],
      worldsOf(result).map((n) => {
        const own = predictions.filter((prediction) => prediction.n === n);
        const errors = own.map(({ error }) => Math.abs(error));
        return [
          String(n),
          ...own.map(({ ms, predictedMs }) => `${ms.toFixed(1)} (${predictedMs.toFixed(1)})`),
          percent(Math.max(...errors)),
        ];
      }),
    ),
    'The table has measured times, and predicted times in brackets.',
    table(
      ['ring at most 10 % slower than the fastest', 'gradient', 'up to', 'two-level is fastest from'],
      result.crossovers

        .map(({ network, bytes, ringPaysTo, twoLevelFrom }) => [
          ...[network, `${bytes / 1e6} MB`, `${ringPaysTo} ranks`],
          twoLevelFrom === null ? 'never' : `${twoLevelFrom} ranks`,
        ]),
    ),
  ].join('\n\n');
}

function cell({ ms }: GrowthRow, name: AlgorithmName): string {
  const value = ms[name];
  return value === null ? '-' : value.toFixed(0);
}

function nanoseconds(msPerByte: number): string {
  return `${(1e6 * msPerByte).toFixed(1)} ns`;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(0)} %`;
}

function sizesOf({ predictions }: ScaleResult): number[] {
  return [...new Set(predictions.map(({ bytes }) => bytes))];
}

function worldsOf({ predictions }: ScaleResult): number[] {
  return [...new Set(predictions.map(({ n }) => n))];
}

/** Maximum world size that can be simulated in reasonable time. */
const MAX_SIMULATED = 1024;

export const scale = defineBenchmark({
  name: 'scale',
  description:
    'measure how the time of an all-reduce grows with the world size: fit the cost model to tabs, and simulate larger worlds',
  options: [
    option('--ranks <n>', 'largest world size to simulate', wholeNumber(2, MAX_SIMULATED), MAX_SIMULATED),
    new Option('--picture <file>', 'PNG file for a chart of the result'),
  ],
  run: benchScale,
  section,
});
