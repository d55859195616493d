/**
 * `bench step`: measures the parts of a step's time on several ranks with different bucket sizes,
 * over lines of a limited rate if one is given.
 */
import type { Io } from '../../launcher/io.ts';
import { wholeNumber } from '../../launcher/options/jobOptions.ts';
import { NO_ICE } from '../../signaling/ice.ts';
import { FIRST_BUCKET_BYTES } from '../../src/parallel/flat/buckets.ts';
import type { StepTimes } from '../../src/protocol/stepTrace.ts';
import { systemClock } from '../../src/util/clock.ts';
import { median, mediansOf } from '../../src/util/statistics.ts';
import { LineRelay } from '../../tools/network/lineRelay.ts';
import { TurnServer } from '../../tools/network/turnServer.ts';
import { drawPanels } from '../../tools/report/plot.ts';
import { table } from '../../tools/report/table.ts';
import { theoryBytes } from '../allreduce/benchmark.ts';
import { defineBenchmark } from '../command/defineBenchmark.ts';
import { option, tabsOption } from '../command/options.ts';
import { World } from '../world/world.ts';
import type { StepsOfSize } from './takeSteps.ts';

interface StepBenchOptions {
  tabs: number;
  /** Rate of the tabs' lines in megabits per second. Default: not limited. */
  rate?: number;
}

/** Batch size of a rank. A step takes at most a second without a GPU. */
const BATCH = 64;
/**
 * Bytes on the line per byte of frames. Packets of 1191 bytes have headers of SCTP, DTLS, UDP and
 * IP.
 */
const PACKET_OVERHEAD = 1.08;
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
  io.err(`${tabs} tabs, ${rate === undefined ? '' : `lines of ${rate} Mbit/s, `}${CAPS.length} sizes of buckets ...`);
  const lines = rate === undefined ? null : await Lines.open(rate);
  try {
    const world = await World.open(tabs, lines ? { ice: lines.ice } : {});
    try {
      const sizes = CAPS.map((cap) => ({
        firstBucketBytes: cap === null ? WHOLE_BYTES : FIRST_BUCKET_BYTES,
        bucketCapBytes: cap ?? WHOLE_BYTES,
      }));
      lines?.limit();
      const [taken] = await world.run('takeSteps', { batch: BATCH, sizes });
      const { adapter, parameters, bySize } = taken!;
      const kilobits = (theoryBytes(tabs, parameters * 4) * PACKET_OVERHEAD * 8) / 1000;
      const line = rate === undefined ? null : { rateMbit: rate, ms: kilobits / rate };
      return { adapter, tabs, batch: BATCH, parameters, line, byCap: resultsByCap(CAPS, bySize, line?.ms ?? null) };
    } finally {
      await world.close();
    }
  } finally {
    await lines?.close();
  }
}

const SECRET = 'a-secret-of-this-benchmark';

/** Lines of a limited rate for all tabs, which connect over a TURN server only. */
class Lines {
  readonly #rateMbit: number;
  readonly #turn: TurnServer;
  readonly #relay: LineRelay;

  private constructor(rateMbit: number, turn: TurnServer, relay: LineRelay) {
    this.#rateMbit = rateMbit;
    this.#turn = turn;
    this.#relay = relay;
  }

  static async open(rateMbit: number): Promise<Lines> {
    const turn = await TurnServer.start(SECRET);
    const relay = await LineRelay.start({ turnPort: turn.port, clock: systemClock, seed: 1 });
    return new Lines(rateMbit, turn, relay);
  }

  get ice() {
    return { ...NO_ICE, turn: [`turn:127.0.0.1:${this.#relay.port}`], turnSecret: SECRET, relayOnly: true };
  }

  /** Limits the rate from now on. */
  limit(): void {
    const kbit = 1000 * this.#rateMbit;
    this.#relay.setLines({ upKbit: kbit, downKbit: kbit, roundTripMs: 0, jitterMs: 0, loss: 0 });
  }

  async close(): Promise<void> {
    this.#relay.close();
    await this.#turn.stop();
  }
}

/** Draws a chart of the step time and its parts by bucket size. */
async function draw({ tabs, line, byCap }: StepBenchResult, file: string): Promise<void> {
  const title = `${tabs} tabs, ${line ? `lines of ${line.rateMbit} Mbit/s` : 'uncapped'}`;
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

interface CapResult {
  /** Maximum size of a bucket in bytes; `null`: one bucket for everything. */
  capBytes: number | null;
  buckets: number;
  ms: StepTimes;
  /** Fraction of the communication that does not overlap with computation. */
  exposedShare: number;
  /**
   * Lower bound of `exposedShare`, given the times at which buckets are ready; see {@link
   * leastExposed}.
   */
  leastShare: number;
}

interface StepBenchResult {
  adapter: string;
  tabs: number;
  parameters: number;
  batch: number;
  /**
   * Rate of the lines in megabits per second, and the milliseconds that a line needs for the bytes
   * of a step; `null` if the lines are not limited.
   */
  line: { rateMbit: number; ms: number } | null;
  byCap: CapResult[];
}

/**
 * Returns the fraction of communication that would be exposed on an ideal line. The line sends the
 * buckets one after the other without gaps, each after its ready time, and needs `lineMs` for all
 * of them.
 */
export function leastExposed(readyMs: readonly number[], bytes: readonly number[], lineMs: number): number {
  const total = bytes.reduce((sum, own) => sum + own, 0);
  const end = readyMs.reduce((free, ready, i) => Math.max(free, ready) + (lineMs * bytes[i]!) / total, 0);
  return (end - readyMs.at(-1)!) / (end - readyMs[0]!);
}

/**
 * @param caps maximum bucket sizes. The last one is that of one bucket for everything.
 * @param lineMs milliseconds that a line needs for all bytes; `null`: use the time that was
 * measured with one bucket.
 */
export function resultsByCap(
  caps: readonly (number | null)[],
  bySize: readonly StepsOfSize[],
  lineMs: number | null,
): CapResult[] {
  const wholeMs = mediansOf(bySize.at(-1)!.steps.map(({ ms }) => ms)).communicate;
  return bySize.map(({ steps, bucketBytes }, i) => {
    const ms = mediansOf(steps.map((one) => one.ms));
    const ready = bucketBytes.map((_, bucket) => median(steps.map(({ readyMs }) => readyMs[bucket]!)));
    const leastShare = leastExposed(ready, bucketBytes, lineMs ?? wholeMs);
    const exposedShare = ms.exposed / ms.communicate;
    return { capBytes: caps[i]!, buckets: bucketBytes.length, ms, exposedShare, leastShare };
  });
}

const PARTS = ['compute', 'readback', 'communicate', 'exposed', 'update'] as const satisfies (keyof StepTimes)[];

export function section({ adapter, tabs, line, parameters, batch, byCap }: StepBenchResult): string {
  const whole = byCap.at(-1)!.ms;
  const timesCompute = (ms: number): string => `${(ms / whole.compute).toFixed(2)} times as long as compute`;
  return `## What a step costs

\`npm run -s bench -- step\`, on ${adapter}: ${tabs} tabs ${line ? `over lines of ${line.rateMbit} Mbit/s` : 'of one browser'} train an mlp of equal layers with ${parameters} parameters, ${batch} samples per
rank, and buckets of several sizes, which are measured in turn. Times are medians. \`compute\` ends when the first bucket has been read from the GPU,
\`readback\` when the last has been read. \`communicate\` is the time of all all-reduces, \`exposed\` the part of it after the last bucket
has been read. \`least\` is the percentage that would be exposed on an ideal line, without gaps.

${table(
  ['bucket cap', 'buckets', 'step ms', ...PARTS, 'exposed, %', 'least, %'],
  byCap.map(({ capBytes, buckets, ms, exposedShare, leastShare }) => [
    ...[nameOf(capBytes), String(buckets), ms.total.toFixed(0)],
    ...PARTS.map((part) => ms[part].toFixed(0)),
    ...[exposedShare, leastShare].map((share) => (100 * share).toFixed(0)),
  ]),
)}

With one bucket for everything, communication takes ${timesCompute(whole.communicate)}${line ? `. The line alone needs ${timesCompute(line.ms)}` : ''}.

![Step time over the size of buckets](buckets.png)
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
