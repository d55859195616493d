/**
 * What a collective costs, and which algorithm it takes: the one place that decides. Every rank
 * decides from the same numbers, so all agree.
 *
 * Hockney's model, alpha + bytes * beta for each round, as MPICH chooses by it (Thakur,
 * Rabenseifner and Gropp 2005), with two things added: a transfer is cut into frames, so that a
 * long one hides the hop of all but its first; and tabs of one machine share its cores. `bench
 * scale` fits the constants from tabs and holds the model against them and against the simulation
 * of the real plans (`simulation/`).
 */
import { Algorithm, FRAME_HEADER_BYTES, MAX_FRAME_BYTES } from '../../protocol/frame.ts';
import { groupSizeOf } from './plans.ts';

export interface Costs {
  /** Alpha: a frame without content from one rank to the next. */
  readonly hopMs: number;
  /** What each byte of it adds, beside the line's time: a frame is handed on as a whole. */
  readonly hopMsPerByte: number;
  /** Beta: of a rank's own line. */
  readonly msPerByte: number;
  /** Of adding a received byte to one's own. */
  readonly combineMsPerByte: number;
  /**
   * Where all ranks are on one machine: its cores' time for each frame and byte that any of them
   * sends; else 0.
   */
  readonly sharedMsPerFrame: number;
  readonly sharedMsPerByte: number;
  /**
   * What a byte adds to that for each tab there is: the more take turns on a core, the more their
   * turns cost.
   */
  readonly crowdMsPerByte: number;
}

/**
 * Ranks on machines of their own with two cores, on a room's Wi-Fi of about 100 Mbit/s, which takes
 * most of a hop; what a frame's bytes take beside the line is as `bench scale` has fitted it.
 */
export const USUAL_COSTS: Costs = {
  ...{ hopMs: 3, hopMsPerByte: 6e-5, msPerByte: 1e-4, combineMsPerByte: 1e-6 },
  ...{ sharedMsPerFrame: 0, sharedMsPerByte: 0, crowdMsPerByte: 0 },
};

/** Up to here a ring's steps are few, and further links cost more than they save. */
const RING_WORLD = 8;
/**
 * Opening the links that an algorithm needs beside the ring's, all at once: offer, answer,
 * candidates, greeting.
 */
const LINKS_MS = 1000;
/**
 * Calls in which that has to pay: a generation of a class may be over after a few hundred steps.
 */
const CALLS = 100;

const FRAME_BYTES = MAX_FRAME_BYTES - FRAME_HEADER_BYTES;

/** Transfers that follow on each other, each waiting for the one before. */
interface Rounds {
  readonly count: number;
  /** That every rank sends in each. */
  readonly bytes: number;
}

/** What `algorithm` makes of an all-reduce of `bytes` over `n` ranks. */
export function allReduceRounds(algorithm: Algorithm, n: number, bytes: number): Rounds[] {
  if (n === 1) return [];
  if (algorithm === Algorithm.RING) return [{ count: 2 * (n - 1), bytes: bytes / n }];
  if (algorithm === Algorithm.TWO_LEVEL) {
    const size = groupSizeOf(n);
    const groups = n / size;
    return [
      { count: 2 * (size - 1), bytes: bytes / size },
      { count: 2 * (groups - 1), bytes: bytes / n },
    ];
  }
  const halvings = Math.floor(Math.log2(n));
  const p = 2 ** halvings;
  // Ranks beyond a power of two hand their tensor over first and get the result back.
  const folds: Rounds[] = p === n ? [] : [{ count: 2, bytes }];
  if (algorithm === Algorithm.DOUBLING) return [{ count: halvings, bytes }, ...folds];
  return [...Array.from({ length: halvings }, (_, i) => ({ count: 2, bytes: bytes / 2 ** (i + 1) })), ...folds];
}

/** Milliseconds that they take `n` ranks. */
export function estimate(rounds: readonly Rounds[], n: number, costs: Costs): number {
  return rounds.reduce((sum, { count, bytes }) => {
    const first = Math.min(bytes, FRAME_BYTES);
    const latency = costs.hopMs + first * (costs.hopMsPerByte + costs.combineMsPerByte);
    const hop = latency + wireMs(first, 1, costs);
    const wire = wireMs(bytes, n, costs);
    // Where the line is what takes long, only the last frame's way is waited for.
    return sum + (wire > hop ? count * wire + latency : count * hop);
  }, 0);
}

/** Of a transfer that `n` ranks of one machine make at once. */
function wireMs(bytes: number, n: number, costs: Costs): number {
  const frames = Math.max(1, Math.ceil(bytes / FRAME_BYTES));
  const sharedMsPerByte = costs.sharedMsPerByte + n * costs.crowdMsPerByte;
  return bytes * costs.msPerByte + n * (bytes * sharedMsPerByte + frames * costs.sharedMsPerFrame);
}

/**
 * Named by its rounds. The first needs no links but the ring's; the others need some that have to
 * pay.
 */
type Candidates = readonly [algorithm: Algorithm, rounds: readonly Rounds[]][];

function quickest(n: number, candidates: Candidates): Algorithm {
  const times = candidates.map(([, rounds], i) => estimate(rounds, n, USUAL_COSTS) + (i === 0 ? 0 : LINKS_MS / CALLS));
  return candidates[times.indexOf(Math.min(...times))]![0];
}

const ALL_REDUCES = [Algorithm.RING, Algorithm.TWO_LEVEL, Algorithm.HALVING_DOUBLING, Algorithm.DOUBLING];

/**
 * For a tensor of `bytes` over `n` ranks.
 *
 * @param ringBytes what it has on the ring, the only one that codecs ride on.
 */
export function chooseAllReduce(n: number, bytes: number, ringBytes = bytes): Algorithm {
  if (n <= RING_WORLD) return Algorithm.RING;
  return quickest(
    n,
    ALL_REDUCES.map((algorithm) => {
      const travelling = algorithm === Algorithm.RING ? ringBytes : bytes;
      return [algorithm, allReduceRounds(algorithm, n, travelling)];
    }),
  );
}

/** For parts of `bytes` in all over `n` ranks: both move the same bytes. */
export function chooseAllGather(n: number, bytes: number): Algorithm {
  if (n <= RING_WORLD) return Algorithm.RING;
  const doublings = Array.from({ length: Math.ceil(Math.log2(n)) }, (_, k) => Math.min(2 ** k, n - 2 ** k));
  return quickest(n, [
    [Algorithm.RING, [{ count: n - 1, bytes: bytes / n }]],
    [Algorithm.DOUBLING, doublings.map((parts) => ({ count: 1, bytes: (parts * bytes) / n }))],
  ]);
}

/**
 * For a broadcast or reduce of `bytes`: a chain moves them once per rank, frame by frame; a tree
 * log2(n) times at its root.
 */
export function chooseRooted(n: number, bytes: number): Algorithm {
  if (n <= RING_WORLD) return Algorithm.RING;
  const first = Math.min(bytes, FRAME_BYTES);
  const hops = { count: n - 1, bytes: first };
  return quickest(n, [
    [Algorithm.RING, bytes > first ? [hops, { count: 1, bytes: bytes - first }] : [hops]],
    [Algorithm.TREE, [{ count: Math.ceil(Math.log2(n)), bytes }]],
  ]);
}
