/**
 * Estimates the cost of collectives and chooses their algorithm. Every rank decides from the same
 * numbers, so all agree.
 *
 * Hockney's model, alpha + bytes * beta per round, as MPICH uses it (Thakur, Rabenseifner and Gropp
 * 2005), with two additions: a transfer is divided into frames, so that a long one hides the hop of
 * all frames but its first; and tabs of one machine share its cores. `bench scale` fits the
 * constants to measured tabs and compares the model with them and with the simulation of the real
 * plans (`simulation/`).
 */
import { Algorithm, FRAME_HEADER_BYTES, MAX_FRAME_BYTES } from '../../protocol/frame.ts';
import { groupSizeOf } from './plans.ts';

export interface Costs {
  /** Alpha: time of an empty frame from one rank to the next. */
  readonly hopMs: number;
  /** Additional time per byte of a frame, besides the link's: a frame is forwarded as a whole. */
  readonly hopMsPerByte: number;
  /** Beta: time per byte on a rank's own link. */
  readonly msPerByte: number;
  /** Time to combine a received byte with the own one. */
  readonly combineMsPerByte: number;
  /**
   * If all ranks are on one machine: time of its cores for each frame and byte that any of them
   * sends; otherwise 0.
   */
  readonly sharedMsPerFrame: number;
  readonly sharedMsPerByte: number;
  /** Additional time per byte for each tab: more tabs on a core cost more switches. */
  readonly crowdMsPerByte: number;
}

/**
 * Costs of ranks on separate machines with two cores, on a Wi-Fi of about 100 Mbit/s, which causes
 * most of a hop; the time per byte of a frame was fitted by `bench scale`.
 */
export const USUAL_COSTS: Costs = {
  hopMs: 3,
  hopMsPerByte: 6e-5,
  msPerByte: 1e-4,
  combineMsPerByte: 1e-6,
  sharedMsPerFrame: 0,
  sharedMsPerByte: 0,
  crowdMsPerByte: 0,
};

/**
 * Largest world that always uses the ring: it has few steps, and more links would cost more than
 * they save.
 */
const RING_WORLD = 8;
/**
 * Time to open the links of an algorithm besides the ring's, all at once: offer, answer,
 * candidates, HELLO.
 */
const LINKS_MS = 1000;
/** Calls in which new links must pay off: a generation may end after a few hundred steps. */
const CALLS = 100;

const FRAME_BYTES = MAX_FRAME_BYTES - FRAME_HEADER_BYTES;

/** Consecutive transfers, each of which waits for the previous one. */
interface Rounds {
  readonly count: number;
  /** Bytes that every rank sends in each round. */
  readonly bytes: number;
}

/** The rounds of an all-reduce of `bytes` over `n` ranks by `algorithm`. */
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
  // Ranks beyond a power of two send their tensor first and receive the result at the end.
  const folds: Rounds[] = p === n ? [] : [{ count: 2, bytes }];
  if (algorithm === Algorithm.DOUBLING) return [{ count: halvings, bytes }, ...folds];
  return [...Array.from({ length: halvings }, (_, i) => ({ count: 2, bytes: bytes / 2 ** (i + 1) })), ...folds];
}

/** Estimated milliseconds of the rounds for `n` ranks. */
export function estimate(rounds: readonly Rounds[], n: number, costs: Costs): number {
  return rounds.reduce((sum, { count, bytes }) => {
    const first = Math.min(bytes, FRAME_BYTES);
    const latency = costs.hopMs + first * (costs.hopMsPerByte + costs.combineMsPerByte);
    const hop = latency + wireMs(first, 1, costs);
    const wire = wireMs(bytes, n, costs);
    // If the link is the bottleneck, only the last frame's latency adds to it.
    return sum + (wire > hop ? count * wire + latency : count * hop);
  }, 0);
}

/** Time of a transfer on the link, while `n` ranks of one machine make one each. */
function wireMs(bytes: number, n: number, costs: Costs): number {
  const frames = Math.max(1, Math.ceil(bytes / FRAME_BYTES));
  const sharedMsPerByte = costs.sharedMsPerByte + n * costs.crowdMsPerByte;
  return bytes * costs.msPerByte + n * (bytes * sharedMsPerByte + frames * costs.sharedMsPerFrame);
}

/**
 * Algorithms with their rounds. The first one only needs the ring's links; the others need more,
 * which must pay off.
 */
type Candidates = readonly [algorithm: Algorithm, rounds: readonly Rounds[]][];

function quickest(n: number, candidates: Candidates): Algorithm {
  const times = candidates.map(([, rounds], i) => estimate(rounds, n, USUAL_COSTS) + (i === 0 ? 0 : LINKS_MS / CALLS));
  return candidates[times.indexOf(Math.min(...times))]![0];
}

const ALL_REDUCES = [Algorithm.RING, Algorithm.TWO_LEVEL, Algorithm.HALVING_DOUBLING, Algorithm.DOUBLING];

/**
 * Chooses for a tensor of `bytes` over `n` ranks.
 *
 * @param ringBytes its bytes on the ring, the only algorithm with codecs.
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

/** Chooses for parts of `bytes` in total over `n` ranks: both algorithms move the same bytes. */
export function chooseAllGather(n: number, bytes: number): Algorithm {
  if (n <= RING_WORLD) return Algorithm.RING;
  const doublings = Array.from({ length: Math.ceil(Math.log2(n)) }, (_, k) => Math.min(2 ** k, n - 2 ** k));
  return quickest(n, [
    [Algorithm.RING, [{ count: n - 1, bytes: bytes / n }]],
    [Algorithm.DOUBLING, doublings.map((parts) => ({ count: 1, bytes: (parts * bytes) / n }))],
  ]);
}

/**
 * Chooses for a broadcast or reduce of `bytes`: a chain moves them once per rank, frame by frame; a
 * tree log2(n) times at its root.
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
