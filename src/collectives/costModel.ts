/**
 * Which algorithm a collective takes: the one place that decides. Every rank decides from the same numbers, so all agree.
 *
 * Times are estimated by Hockney's model, steps * latency + bytes / bandwidth, as MPICH does (Thakur, Rabenseifner and Gropp
 * 2005). The ring has the fewest bytes for any n and links that are there already; log-step algorithms have fewer steps, and
 * need links to ranks far away, which are opened when first used (each about a second, once).
 */
import { Algorithm } from '../protocol/frame.ts';

/** One hop between two tabs: page, data channel, worker. */
const HOP_MS = 1.5;
/** What a data channel moves, bytes per millisecond (10 MB/s). */
const BYTES_PER_MS = 10_000;
/** Up to here a ring's steps are few, and further links cost more than they save. */
const RING_WORLD = 8;
/** Beyond, a ring's steps are too many for tensors of any size. */
const MAX_RING_WORLD = 16;

const cost = (steps: number, bytes: number): number => steps * HOP_MS + bytes / BYTES_PER_MS;

/** Whether waiting for hops outweighs moving bytes on a ring of `n` with `bytes` in all. */
function isLatencyBound(n: number, bytes: number): boolean {
  return n > RING_WORLD && (n > MAX_RING_WORLD || bytes / n / BYTES_PER_MS < HOP_MS);
}

/**
 * For a tensor of `bytes` over `n` ranks.
 *
 * @param ringBytes what it has on the ring, the only one that codecs ride on.
 */
export function chooseAllReduce(n: number, bytes: number, ringBytes = bytes): Algorithm {
  if (!isLatencyBound(n, bytes)) return Algorithm.RING;
  const rounds = Math.floor(Math.log2(n));
  const p = 2 ** rounds;
  // Ranks beyond a power of two hand their tensor over first and get the result back.
  const [foldSteps, foldBytes] = p === n ? [0, 0] : [2, 2 * bytes];
  const times: [Algorithm, number][] = [
    [Algorithm.RING, cost(2 * (n - 1), (2 * (n - 1) * ringBytes) / n)],
    [Algorithm.HALVING_DOUBLING, cost(2 * rounds + foldSteps, (2 * (p - 1) * bytes) / p + foldBytes)],
    [Algorithm.DOUBLING, cost(rounds + foldSteps, rounds * bytes + foldBytes)],
  ];
  return times.reduce((best, next) => (next[1] < best[1] ? next : best))[0];
}

/** For parts of `bytes` in all over `n` ranks: both move the same bytes. */
export function chooseAllGather(n: number, bytes: number): Algorithm {
  return isLatencyBound(n, bytes) ? Algorithm.DOUBLING : Algorithm.RING;
}

/** For a broadcast or reduce of `bytes`: a chain moves them once per rank, a tree log2(n) times at its root. */
export function chooseRooted(n: number, bytes: number): Algorithm {
  if (n <= RING_WORLD) return Algorithm.RING;
  const rounds = Math.ceil(Math.log2(n));
  return cost(rounds, rounds * bytes) < cost(n - 1, bytes) ? Algorithm.TREE : Algorithm.RING;
}
