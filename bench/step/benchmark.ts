/**
 * `bench step`: measures the parts of a step's time on several ranks with different bucket sizes,
 * over lines of a limited rate if one is given.
 */
import type { Io } from '../../launcher/io.ts';
import { wholeNumber } from '../../launcher/options/jobOptions.ts';
import { NO_ICE, type IceOptions } from '../../signaling/ice.ts';
import { FIRST_BUCKET_BYTES } from '../../src/parallel/flat/buckets.ts';
import type { StepTimes } from '../../src/protocol/stepTrace.ts';
import { systemClock } from '../../src/util/clock.ts';
import { LineRelay } from '../../tools/network/lineRelay.ts';
import { TurnServer } from '../../tools/network/turnServer.ts';
import { drawPanels } from '../../tools/report/plot.ts';
import { table } from '../../tools/report/table.ts';
import { defineBenchmark } from '../command/defineBenchmark.ts';
import { option, tabsOption } from '../command/options.ts';
import { World } from '../world/world.ts';
import type { StepResult, StepsOfSize } from './takeSteps.ts';

interface StepBenchOptions {
  tabs: number;
  /** Rate of the tabs' lines in megabits per second. Default: not limited. */
  rate?: number;
}

/** Batch size of a rank. A step takes at most a second without a GPU. */
const BATCH = 64;
const KIB = 1024;
/** A bucket size that is larger than the model. */
const WHOLE_BYTES = 1024 * KIB * KIB;
/**
 * Bucket sizes to compare. The weights of a layer have 256 KiB. `null`: one bucket for everything.
 */
const CAPS = [256 * KIB, 512 * KIB, 1024 * KIB, null];

/**
 * @throws (rejects) PeergradError if a tab fails, or if there is a rate and coturn is not
 *   installed.
 */
async function measure({ tabs, rate }: StepBenchOptions, io: Io): Promise<StepBenchResult> {
  const rateMbit = rate ?? null;
  io.err(
    `${tabs} tabs, ${rateMbit === null ? '' : `lines of ${rateMbit} Mbit/s, `}${CAPS.length} sizes of buckets ...`,
  );
  const { adapter, parameters, bySize } = await (rateMbit === null
    ? takeStepsIn(tabs, NO_ICE, io)
    : withLines(rateMbit, (ice) => takeStepsIn(tabs, ice, io)));
  const byCap = bySize.map((one, i) => ({ capBytes: CAPS[i]!, ...one }));
  return { adapter, tabs, batch: BATCH, parameters, rateMbit, byCap };
}

async function takeStepsIn(tabs: number, ice: IceOptions, io: Io): Promise<StepResult> {
  const sizes = CAPS.map((cap) => ({
    firstBucketBytes: cap === null ? WHOLE_BYTES : FIRST_BUCKET_BYTES,
    bucketCapBytes: cap ?? WHOLE_BYTES,
  }));
  const [taken] = await World.use(tabs, io, { ice }, (world) => world.run('takeSteps', { batch: BATCH, sizes }));
  return taken!;
}

const SECRET = 'a-secret-of-this-benchmark';

/**
 * Gives all tabs of a world lines of a limited rate: they connect over a TURN server only.
 *
 * @param main opens the world.
 */
async function withLines<T>(rateMbit: number, main: (ice: IceOptions) => Promise<T>): Promise<T> {
  const server = await TurnServer.start(SECRET);
  try {
    const lines = await LineRelay.start({ turnPort: server.port, clock: systemClock, seed: 1 });
    try {
      const kbit = 1000 * rateMbit;
      lines.setLines({ upKbit: kbit, downKbit: kbit, roundTripMs: 0, jitterMs: 0, loss: 0 });
      return await main({ ...NO_ICE, turn: [`turn:127.0.0.1:${lines.port}`], turnSecret: SECRET, relayOnly: true });
    } finally {
      lines.close();
    }
  } finally {
    await server.stop();
  }
}

/** Draws a chart of the step time and its parts by bucket size. */
async function draw({ tabs, rateMbit, byCap }: StepBenchResult, file: string): Promise<void> {
  const title = `${tabs} tabs, ${rateMbit === null ? 'uncapped' : `lines of ${rateMbit} Mbit/s`}`;
  const curve = (label: string, colour: string, part: keyof StepTimes) => ({
    ...{ label, colour, width: 2.5, dash: [] },
    values: byCap.map(({ ms }) => ms[part]),
  });
  const curves = [
    curve('step', '#2563eb', 'total'),
    curve('communication', '#ea580c', 'communicate'),
    curve('exposed', '#dc2626', 'exposed'),
  ];
  const names = byCap.map(({ capBytes }) => nameOf(capBytes));
  await drawPanels([{ title, x: 'bucket cap', y: 'ms', names, curves }], file);
}

interface StepBenchResult {
  adapter: string;
  tabs: number;
  parameters: number;
  batch: number;
  /** `null` if the lines are not limited. */
  rateMbit: number | null;
  /** With the maximum size of a bucket in bytes; `null`: one bucket for everything. */
  byCap: ({ capBytes: number | null } & StepsOfSize)[];
}

const PARTS = ['compute', 'readback', 'communicate', 'exposed', 'update'] as const satisfies (keyof StepTimes)[];

export function section({ adapter, tabs, rateMbit, parameters, batch, byCap }: StepBenchResult): string {
  const whole = byCap.at(-1)!.ms;
  return `## What a step costs

\`npm run -s bench -- step\`, on ${adapter}: ${tabs} tabs ${rateMbit === null ? 'of one browser' : `over lines of ${rateMbit} Mbit/s`} train an mlp of equal layers with ${parameters} parameters, ${batch} samples per
rank, and buckets of several sizes, which are measured in turn. Times are medians. \`compute\` ends when the first bucket has been read from the GPU,
\`readback\` when the last has been read. \`communicate\` is the time of all all-reduces, \`exposed\` the part of it after the last bucket
has been read.

${table(
  ['bucket cap', 'buckets', 'step ms', ...PARTS, 'exposed, %'],
  byCap.map(({ capBytes, buckets, ms }) => [
    ...[nameOf(capBytes), String(buckets), ms.total.toFixed(0)],
    ...PARTS.map((part) => ms[part].toFixed(0)),
    ((100 * ms.exposed) / ms.communicate).toFixed(0),
  ]),
)}

With one bucket for everything, communication takes ${(whole.communicate / whole.compute).toFixed(2)} times as long as compute.
`;
}

function nameOf(capBytes: number | null): string {
  return capBytes === null ? 'whole' : `${capBytes / KIB} KiB`;
}

export const step = defineBenchmark({
  name: 'step',
  description: 'measure the parts of the step time on several ranks with different bucket sizes',
  options: [
    tabsOption(2),
    option(
      '--rate <mbit>',
      "rate of the tabs' lines in Mbit/s, which needs coturn (default: not limited)",
      wholeNumber(1, 1000),
    ),
  ],
  measure,
  draw,
  section,
});
