/**
 * `bench scale`: measures and predicts the time of an all-reduce by world size. The cost model is
 * fitted to rings of 2 to 8 tabs, and checked with tensor sizes that were left out of the fit. With
 * the fitted costs, larger worlds on other networks are simulated.
 */
import type { Io } from '../../launcher/io.ts';
import type { NetworkCosts } from '../../src/collectives/plans/costModel.ts';
import { ALL_REDUCE_NAMES, type AllReduceName } from '../../src/spec/algorithms.ts';
import { measureRings } from '../allreduce/benchmark.ts';
import { defineBenchmark } from '../command/defineBenchmark.ts';
import { median } from '../../src/util/statistics.ts';
import { drawPanels } from '../../tools/report/plot.ts';
import { table } from '../../tools/report/table.ts';
import { World } from '../world/world.ts';
import { crossValidate, fitCosts, type Sample } from './fit.ts';
import { fastestOf, type GrowthRow, NETWORKS, simulateGrowth, WORLDS } from './growth.ts';

const TABS = [2, 3, 4, 6, 8];
const SIZES = [1, 4, 16, 64, 256, 1024].map((kibibytes) => 1024 * kibibytes);
/** Time budget in milliseconds for each size and world. */
const BUDGET_MS = 1000;
const FIFTH = 0.2;

/** @throws (rejects) PeergradError if a tab fails. */
async function measure(_options: object, io: Io): Promise<ScaleResult> {
  const rings = await measureRings({ tabs: TABS, bytes: SIZES, transport: 'webrtc', budgetMs: BUDGET_MS }, io);
  const samples = rings.map(({ n, bytes, medianMs }) => ({ n, bytes, ms: medianMs }));
  const combineMsPerByte = median(await World.use(2, io, {}, (world) => world.run('combine', null)));
  const costs = fitCosts(samples, combineMsPerByte);
  const errors = crossValidate(samples, combineMsPerByte).map(({ error }) => Math.abs(error));
  return {
    ...{ costs, samples, worstError: Math.max(...errors) },
    withinFifth: errors.filter((error) => error <= FIFTH).length / errors.length,
    growth: simulateGrowth(costs, WORLDS, io.err),
  };
}

const COLOURS: Record<AllReduceName, string> = {
  ring: '#1f6feb',
  'two-level': '#2da44e',
  'halving-doubling': '#bf3989',
  doubling: '#9a6700',
};

function draw({ growth }: ScaleResult, file: string): Promise<void> {
  const panels = NETWORKS.map((network) => {
    const rows = growth.filter((row) => row.network === network);
    return {
      ...{ title: `All-reduce of 4 MB, ${network}`, x: 'ranks', y: 'seconds', isLogarithmic: true as const },
      xs: rows.map(({ n }) => n),
      curves: ALL_REDUCE_NAMES.map((label) => ({
        ...{ label, colour: COLOURS[label], width: 2, dash: [] },
        values: rows.map(({ ms }) => ms[label] / 1000),
      })),
    };
  });
  return drawPanels(panels, file);
}

interface ScaleResult {
  costs: NetworkCosts;
  samples: Sample[];
  /**
   * Largest relative error of the predictions for each size except the smallest and the largest,
   * from a fit to the other sizes, and the fraction of errors of at most 20 %.
   */
  worstError: number;
  withinFifth: number;
  growth: GrowthRow[];
}

/** World sizes in the section. */
const SHOWN = [8, 256];

const nanoseconds = (msPerByte: number): string => `${(1e6 * msPerByte).toFixed(1)} ns`;
const percent = (share: number): string => `${(100 * share).toFixed(0)} %`;

export function section({ costs, samples, worstError, withinFifth, growth }: ScaleResult): string {
  return [
    '## Growth',
    `\`npm run -s bench -- scale\`: the cost model (\`src/collectives/plans/costModel.ts\`) is fitted to ${samples.length} medians of all-reduces around rings of tabs. Each size
except the smallest and the largest is predicted by a fit to all other sizes. Larger worlds are simulated with the plans that ranks run: on a LAN with
1 Gbit/s and 0.3 ms; on campus Wi-Fi with 75 Mbit/s, which the 16 ranks of an access point share, and 5 ms; on home uplinks with 15 Mbit/s up, 100 Mbit/s down, and 30 ms.`,
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
    `${percent(withinFifth)} of the predictions differ from the measured time by at most 20 %. The largest error is ${percent(worstError)}.`,
    ...NETWORKS.map((network) =>
      table(
        [`${network}, 4 MB: ms`, ...ALL_REDUCE_NAMES, 'fastest'],
        growth
          .filter((row) => row.network === network && SHOWN.includes(row.n))
          .map((row) => [
            ...[`${row.n} ranks`, ...ALL_REDUCE_NAMES.map((name) => row.ms[name].toFixed(0)), fastestOf(row)],
          ]),
      ),
    ),
    'The constants are valid for two cores that all tabs share.',
  ].join('\n\n');
}

export const scale = defineBenchmark({
  name: 'scale',
  description:
    'measure how the time of an all-reduce grows with the world size: fit the cost model to tabs, and simulate larger worlds',
  options: [],
  measure,
  draw,
  section,
});
