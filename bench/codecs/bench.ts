/**
 * `bench codecs`: how much sooner an all-reduce ends that is encoded, in real tabs, and on lines of
 * a given speed where there are any; and what a model learns whose gradients travel so, in Node.
 * Fails where a codec is less accurate, or sends more, than it may.
 */
import type { Io } from '../../launcher/io.ts';
import { median } from '../../src/util/statistics.ts';
import { PeergradError } from '../../src/util/errors.ts';
import { Child } from '../signaling/child.ts';
import { withHosts } from '../world/hosts.ts';
import { World, type Hosts } from '../world/world.ts';
import type { EncodedResult } from './encodedAllReduce.ts';
import { codecTables, type CodecsResult, type TimedRow } from './section.ts';
import type { TrialOrder, TrialResult } from './trial.ts';
import { rowsOf, shortfalls, VARIANTS, type TrainedRow } from './variants.ts';

export interface CodecsBenchOptions {
  tabs: number;
  bytes: number;
  rounds: number;
  /** The tool of `world/hosts.ts`, and what its hosts receive at most. */
  hosts?: string;
  rate: string;
  seeds: number;
  epochs: number;
  /** MNIST's files. */
  data?: string;
  json?: true;
}

/** Those of an all-reduce. */
const CODECS = ['fp32', 'fp16', 'int8'] as const;
/** The first layer is 784 x 256: its gradient has 0.8 MB. */
const HIDDEN = 256;
/** Trained at once: as many as cores that tests of this project count on. */
const PROCESSES = 2;
/**
 * One exchange of statistics at the end: hashes of every twentieth step are not what is measured.
 */
const HASH_EVERY = 1_000_000;

/**
 * @throws (rejects) PeergradError where ranks' sums differ, a tab fails, or a codec falls short of
 *   what it must reach.
 */
export async function benchCodecs(options: CodecsBenchOptions, io: Io): Promise<void> {
  const { tabs, bytes, hosts, rate, seeds, json } = options;
  io.err(`${tabs} tabs add up ${bytes} bytes, ${options.rounds} times by each codec ...`);
  const local = await timed(options);
  const capped =
    hosts === undefined
      ? null
      : await withHosts({ tool: hosts, count: tabs }, (lines, limit) => timed(options, lines, () => limit(rate)));
  const trained = await trainAll(options, io);
  const result: CodecsResult = {
    tabs,
    bytes,
    local,
    rate,
    capped,
    seeds,
    isMnist: options.data !== undefined,
    trained,
  };
  io.out(json === undefined ? codecTables(result) : JSON.stringify(result));
  const wrong = shortfalls(trained);
  if (wrong.length > 0) throw new PeergradError(`Codecs fall short: ${wrong.join('; ')}.`);
}

/** @param limit caps the lines of `hosts`, once pages have come over them. */
async function timed(
  { tabs, bytes, rounds }: CodecsBenchOptions,
  hosts: Hosts | null = null,
  limit?: () => Promise<void>,
): Promise<TimedRow[]> {
  const world = await World.open(tabs, { hosts });
  try {
    await limit?.();
    const results = await world.run('encodedAllReduce', { bytes, rounds, codecs: CODECS });
    return CODECS.map((codec, i) =>
      rowOf(
        codec,
        results.map((own) => own[i]!),
        results.map(([plain]) => plain!),
      ),
    );
  } finally {
    await world.close();
  }
}

/** An all-reduce has ended once it has on all ranks. */
function slowest(of: readonly EncodedResult[]): number[] {
  return of[0]!.ms.map((_, round) => Math.max(...of.map(({ ms }) => ms[round]!)));
}

function rowOf(codec: string, ranks: readonly EncodedResult[], plain: readonly EncodedResult[]): TimedRow {
  const hashes = new Set(ranks.map(({ hash }) => hash));
  if (hashes.size > 1) throw new PeergradError(`The ranks' sums by ${codec} differ: ${[...hashes].join(', ')}.`);
  const [mine, theirs] = [slowest(ranks), slowest(plain)];
  return {
    ...{ codec, ms: median(mine), bytesSent: Math.max(...ranks.map(({ bytesSent }) => bytesSent)) },
    ...{ faster: median(mine.map((ms, round) => theirs[round]! / ms)), error: ranks[0]!.error },
  };
}

async function trainAll({ tabs, seeds, epochs, data }: CodecsBenchOptions, io: Io): Promise<TrainedRow[]> {
  const all = { hidden: HIDDEN, batchSize: 32, epochs, hashEvery: HASH_EVERY };
  const orders = VARIANTS.flatMap(({ fields }, variant) =>
    Array.from({ length: seeds }, (_, seed) => {
      const order: TrialOrder = { tabs, folder: data ?? null, fields: { ...all, ...fields, seed: seed + 1 } };
      return { variant, seed, order };
    }),
  );
  const trials: TrialResult[][] = VARIANTS.map(() => []);
  const work = async (): Promise<void> => {
    const child = new Child(new URL('./trial.ts', import.meta.url).href);
    try {
      await child.next();
      for (let next = orders.shift(); next; next = orders.shift()) {
        io.err(`${VARIANTS[next.variant]!.name}, seed ${next.seed + 1} ...`);
        trials[next.variant]![next.seed] = await child.ask<TrialResult>(next.order);
      }
    } finally {
      await child.stop();
    }
  };
  await Promise.all(Array.from({ length: PROCESSES }, work));
  return rowsOf(trials);
}
