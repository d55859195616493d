/**
 * `bench allreduce`: an all-reduce in real tabs against bare data channels that push the same bytes
 * round the same ring, in turn in the same tabs. Sizes and columns are those of nccl-tests.
 */
import { cpus } from 'node:os';
import type { Io } from '../../launcher/io.ts';
import type { TransportName } from '../../src/spec/job.ts';
import { UsageError } from '../../src/util/errors.ts';
import { World } from '../world/world.ts';
import { rowOf, scheduleOf, tableOf, type AllReduceRow } from './figures.ts';

export interface AllReduceBenchOptions {
  tabs: readonly number[];
  transport: TransportName;
  bytes?: number;
  json?: true;
}

export interface AllReduceBenchResult {
  rows: AllReduceRow[];
  cores: number;
}

const KIB = 1024;
/** nccl-tests' `-b 1K -e 16M -f 4`. */
const SWEEP = [1, 4, 16, 64, 256, 1024, 4096, 16_384].map((kib) => kib * KIB);
/**
 * Milliseconds for a size of the sweep, and for one that is asked for alone, of ours and bare ones
 * each.
 */
const SWEEP_MS = 4_000;
const SINGLE_MS = 45_000;
/**
 * All-reduces of a size, of each kind, that warm links up: browsers compile, and SCTP finds out
 * what the line bears.
 */
const WARM_UP_OPS = 2;

/**
 * @throws (rejects) UsageError for a size that is no float32 tensor's, PeergradError where a tab
 *   fails.
 */
export async function benchAllReduce({ tabs, bytes, transport, json }: AllReduceBenchOptions, io: Io): Promise<void> {
  if (bytes !== undefined && bytes % Float32Array.BYTES_PER_ELEMENT !== 0) {
    throw new UsageError(`${bytes} bytes are no tensor of float32: give a multiple of 4.`);
  }
  const rows: AllReduceRow[] = [];
  for (const n of tabs) {
    const world = await World.open(n, { transport });
    try {
      for (const size of bytes === undefined ? SWEEP : [bytes]) {
        io.err(`${n} tabs all-reduce ${size} bytes ...`);
        const places = bytes === undefined ? [true, false] : [true];
        rows.push(...(await measure(world, size, places, bytes === undefined ? SWEEP_MS : SINGLE_MS)));
      }
    } finally {
      await world.close();
    }
  }
  const result: AllReduceBenchResult = { rows, cores: cpus().length };
  if (json === undefined) io.out(tableOf(rows));
  else io.out(JSON.stringify(bytes !== undefined && rows.length === 1 ? rows[0] : result));
}

type OursResult = { ms: number[]; wrong: number; bytesSent: number };

/**
 * Bare and ours in turn, each first in every second round, after turns that warm up and tell how
 * much fits in.
 */
async function measure(
  world: World,
  bytes: number,
  places: readonly boolean[],
  budgetMs: number,
): Promise<AllReduceRow[]> {
  const bare = (ops: number): Promise<{ ms: number[] }[]> => world.run('bareRing', { bytes, ops });
  const ours = (ops: number, isInPlace: boolean): Promise<OursResult[]> =>
    world.run('allReduce', { bytes, ops, isInPlace });

  const warm = [await bare(WARM_UP_OPS)];
  for (const isInPlace of places) warm.push(await ours(WARM_UP_OPS, isInPlace));
  const { ops, rounds } = scheduleOf(Math.max(...warm.flat().map(({ ms }) => ms.at(-1)!)), budgetMs);

  const raw: { ms: number[] }[] = [];
  const results = places.map((isInPlace) => ({ isInPlace, all: [] as OursResult[] }));
  const turns = [
    async () => void raw.push(...(await bare(ops))),
    ...results.map(
      ({ isInPlace, all }) =>
        async () =>
          void all.push(...(await ours(ops, isInPlace))),
    ),
  ];
  for (let round = 0; round < rounds; round++) {
    for (const turn of round % 2 === 0 ? turns : turns.toReversed()) await turn();
  }
  return results.map(({ isInPlace, all }) => rowOf({ n: world.size, bytes, isInPlace }, all, raw));
}
