/**
 * Estimates the cost of collectives and chooses their algorithm. Every rank decides from the same
 * numbers, so all ranks choose the same algorithm.
 *
 * The model is Hockney's, alpha + bytes * beta per round, which MPICH uses, too (Thakur,
 * Rabenseifner and Gropp 2005). This file adds three things to that model. A transfer is divided
 * into frames, so a long transfer has the latency of one frame only. Tabs of one machine share its
 * cores. And if links go through the server, a collective takes at least as long as the server
 * needs to forward its frames. `bench scale` fits the constants to measurements of tabs. It
 * compares the model with these measurements and with the simulation of the real plans
 * (`simulation/`).
 */
import type { ServedPairs } from '../../protocol/control.ts';
import { AlgorithmCode, FRAME_HEADER_BYTES, MAX_FRAME_BYTES } from '../../protocol/frame.ts';
import { MIN_CHARGED_MESSAGE_BYTES } from '../../protocol/serverLink.ts';
import { twoLevelGroupSize } from '../../spec/algorithms.ts';

export interface NetworkCosts {
  /** Alpha: time of an empty frame from one rank to the next. */
  readonly hopMs: number;
  /**
   * Additional time per byte of a frame, because a rank forwards a frame only after it has received
   * the whole frame.
   */
  readonly hopMsPerByte: number;
  /** Beta: time per byte on a rank's own link. */
  readonly msPerByte: number;
  /** Time per byte to combine received values with the rank's own values. */
  readonly combineMsPerByte: number;
  /**
   * If all ranks are on one machine: the time that the machine's cores need per frame sent, and the
   * additional time per byte sent, whichever rank sends. Otherwise both are 0.
   */
  readonly sharedMsPerFrame: number;
  readonly sharedMsPerByte: number;
  /**
   * Additional time per byte for each tab, because a core that has more tabs switches between tabs
   * more often.
   */
  readonly crowdMsPerByte: number;
}

/**
 * Costs of ranks on separate machines with two cores, on a Wi-Fi of about 100 Mbit/s. The Wi-Fi
 * causes most of the time of a hop. `bench scale` fitted `hopMsPerByte`.
 */
export const DEFAULT_NETWORK_COSTS: NetworkCosts = {
  hopMs: 3,
  hopMsPerByte: 6e-5,
  msPerByte: 1e-4,
  combineMsPerByte: 1e-6,
  sharedMsPerFrame: 0,
  sharedMsPerByte: 0,
  crowdMsPerByte: 0,
};

/**
 * Largest world that always uses the ring, unless links of the ring go through the server. In small
 * worlds the ring has few steps, and more links would cost more than they save.
 */
const RING_WORLD = 8;
/**
 * Time to open all links that an algorithm needs in addition to the ring's: offer, answer,
 * candidates, HELLO. The links are opened at the same time.
 */
const LINKS_MS = 1000;
/**
 * The same time if links of the ring go through the server, because no direct connection is
 * possible: the additional links may have to wait until direct connections fail.
 */
const SERVED_LINKS_MS = 4000;
/**
 * New links must save the time to open them within this number of calls, because a generation may
 * end after a few hundred steps.
 */
const CALLS = 100;

/** No link goes through the server. */
export const NO_SERVED_PAIRS: ServedPairs = { pairs: 0, areAll: false, bytesPerSecond: 0 };

const FRAME_BYTES = MAX_FRAME_BYTES - FRAME_HEADER_BYTES;

/** Consecutive transfers, each of which waits for the previous one. */
interface Rounds {
  readonly count: number;
  /** Number of bytes that every rank sends in each round. */
  readonly bytes: number;
}

/** Returns the rounds of an all-reduce of `bytes` over `n` ranks by `algorithm`. */
export function allReduceRounds(algorithm: AlgorithmCode, n: number, bytes: number): Rounds[] {
  if (n === 1) return [];
  if (algorithm === AlgorithmCode.RING) return [{ count: 2 * (n - 1), bytes: bytes / n }];
  if (algorithm === AlgorithmCode.TWO_LEVEL) {
    const size = twoLevelGroupSize(n);
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
  if (algorithm === AlgorithmCode.DOUBLING) return [{ count: halvings, bytes }, ...folds];
  return [...Array.from({ length: halvings }, (_, i) => ({ count: 2, bytes: bytes / 2 ** (i + 1) })), ...folds];
}

/** Returns the estimated milliseconds of the rounds for `n` ranks. */
export function estimateRoundsMs(rounds: readonly Rounds[], n: number, costs: NetworkCosts): number {
  return rounds.reduce((sum, { count, bytes }) => {
    const first = Math.min(bytes, FRAME_BYTES);
    const latency = costs.hopMs + first * (costs.hopMsPerByte + costs.combineMsPerByte);
    const hop = latency + wireMs(first, 1, costs);
    const wire = wireMs(bytes, n, costs);
    // If the link is the bottleneck, latency adds to the time only once, for the last frame.
    return sum + (wire > hop ? count * wire + latency : count * hop);
  }, 0);
}

/**
 * Returns the time of a transfer on the link while each of `n` ranks of one machine makes one
 * transfer.
 */
function wireMs(bytes: number, n: number, costs: NetworkCosts): number {
  const frames = Math.max(1, Math.ceil(bytes / FRAME_BYTES));
  const sharedMsPerByte = costs.sharedMsPerByte + n * costs.crowdMsPerByte;
  return bytes * costs.msPerByte + n * (bytes * sharedMsPerByte + frames * costs.sharedMsPerFrame);
}

/** An algorithm that may be chosen for a collective. */
interface Candidate {
  readonly algorithm: AlgorithmCode;
  readonly rounds: readonly Rounds[];
  /** Transfers of all ranks together. By default each rank makes one transfer in each round. */
  readonly transfers?: readonly Rounds[];
}

/**
 * Returns the quickest algorithm. The first candidate is the ring. The others need more links, and
 * must save more time than it takes to open these links.
 */
function quickest(n: number, candidates: readonly Candidate[], served: ServedPairs): AlgorithmCode {
  if (n <= RING_WORLD && served.pairs === 0) return candidates[0]!.algorithm;
  const linksMs = served.pairs === 0 || served.areAll ? LINKS_MS : SERVED_LINKS_MS;
  const times = candidates.map((candidate, i) => {
    const ms = Math.max(estimateRoundsMs(candidate.rounds, n, DEFAULT_NETWORK_COSTS), forwardMs(candidate, n, served));
    return ms + (i === 0 ? 0 : linksMs / CALLS);
  });
  return candidates[times.indexOf(Math.min(...times))]!.algorithm;
}

/**
 * Returns the milliseconds in which the server forwards the frames of a collective. All links share
 * the server's rate, and the server's line is at most as fast as a rank's. The served links divide
 * the ring into parts. Two ranks of different parts are assumed to link through the server, too.
 */
function forwardMs({ algorithm, rounds, transfers }: Candidate, n: number, served: ServedPairs): number {
  const { pairs, bytesPerSecond } = served;
  if (pairs === 0) return 0;
  const all = transfers ?? rounds.map(({ count, bytes }) => ({ count: n * count, bytes }));
  const sent = all.reduce((sum, { count, bytes }) => sum + count * Math.max(bytes, MIN_CHARGED_MESSAGE_BYTES), 0);
  const share = algorithm === AlgorithmCode.RING ? pairs / n : Math.max(pairs / n, 1 - 1 / pairs);
  return sent * share * Math.max(DEFAULT_NETWORK_COSTS.msPerByte, 1000 / bytesPerSecond);
}

const ALL_REDUCES = [
  AlgorithmCode.RING,
  AlgorithmCode.TWO_LEVEL,
  AlgorithmCode.HALVING_DOUBLING,
  AlgorithmCode.DOUBLING,
];

/**
 * Chooses the all-reduce algorithm for a tensor of `bytes` over `n` ranks.
 *
 * @param isEncoded whether a codec encodes the values; `bytes` is then their encoded size.
 * @param served the ring's links that go through the signaling server.
 */
export function chooseAllReduceAlgorithm(
  n: number,
  bytes: number,
  isEncoded = false,
  served = NO_SERVED_PAIRS,
): AlgorithmCode {
  // Recursive doubling supports no codec.
  const algorithms = ALL_REDUCES.filter((algorithm) => !isEncoded || algorithm !== AlgorithmCode.DOUBLING);
  const candidates = algorithms.map((algorithm) => ({ algorithm, rounds: allReduceRounds(algorithm, n, bytes) }));
  return quickest(n, candidates, served);
}

/**
 * Chooses the all-gather algorithm for parts of `bytes` in total over `n` ranks. All algorithms
 * move the same number of bytes.
 */
export function chooseAllGatherAlgorithm(n: number, bytes: number, served = NO_SERVED_PAIRS): AlgorithmCode {
  const doublings = Array.from({ length: Math.ceil(Math.log2(n)) }, (_, k) => Math.min(2 ** k, n - 2 ** k));
  const candidates = [
    { algorithm: AlgorithmCode.RING, rounds: [{ count: n - 1, bytes: bytes / n }] },
    { algorithm: AlgorithmCode.DOUBLING, rounds: doublings.map((parts) => ({ count: 1, bytes: (parts * bytes) / n })) },
  ];
  return quickest(n, candidates, served);
}

/**
 * Chooses the algorithm for a broadcast or reduce of `bytes`. In a chain, each rank transfers the
 * bytes once, frame by frame. In a tree, the root transfers them log2(n) times.
 */
export function chooseRootedAlgorithm(n: number, bytes: number, served = NO_SERVED_PAIRS): AlgorithmCode {
  const first = Math.min(bytes, FRAME_BYTES);
  const hops = { count: n - 1, bytes: first };
  const chain = bytes > first ? [hops, { count: 1, bytes: bytes - first }] : [hops];
  const transfers = [{ count: n - 1, bytes }];
  const candidates = [
    { algorithm: AlgorithmCode.RING, rounds: chain, transfers },
    { algorithm: AlgorithmCode.TREE, rounds: [{ count: Math.ceil(Math.log2(n)), bytes }], transfers },
  ];
  return quickest(n, candidates, served);
}
