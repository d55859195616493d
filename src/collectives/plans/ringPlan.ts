/**
 * The ring all-reduce as a pure function: which rank sends which chunk to which rank in each step.
 * The executor runs it, property tests check it, and the page animates it, so the picture always
 * matches the algorithm.
 *
 * Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations"
 * (2009): the tensor is divided into n chunks. In n-1 reduce-scatter steps each chunk travels once
 * round the ring and every rank adds its own part; rank r ends with the sum of chunk r. In n-1
 * all-gather steps the sums travel round once more and are copied. Each rank sends 2(n-1)/n of the
 * tensor. Each chunk is summed once, in ring order, and the sum is copied. So every rank ends with
 * the same bits.
 */

export type RingPhase = 'reduce-scatter' | 'all-gather';

export interface RingTransfer {
  /** Number of the ring step, 0 .. 2(n-1)-1. */
  ringStep: number;
  phase: RingPhase;
  /** Step within the phase, 0 .. n-2. */
  hop: number;
  from: number;
  to: number;
  chunk: number;
}

/** Returns the number of ring steps of an all-reduce over `n` ranks: 2(n-1). */
export function ringStepCount(n: number): number {
  return 2 * (n - 1);
}

/** Returns the rank that `rank` sends to. */
export function rightNeighbourOf(rank: number, n: number): number {
  return (rank + 1) % n;
}

/** Returns the rank that `rank` receives from. */
export function leftNeighbourOf(rank: number, n: number): number {
  return (rank + n - 1) % n;
}

/**
 * Returns the transfer from `rank` to its right neighbour in `ringStep`, 0 <= ringStep < 2(n-1).
 */
export function ringTransferFrom(n: number, ringStep: number, rank: number): RingTransfer {
  const to = rightNeighbourOf(rank, n);
  if (ringStep < n - 1) {
    const hop = ringStep;
    return { ringStep, phase: 'reduce-scatter', hop, from: rank, to, chunk: modulo(rank - hop - 1, n) };
  }
  const hop = ringStep - (n - 1);
  return { ringStep, phase: 'all-gather', hop, from: rank, to, chunk: modulo(rank - hop, n) };
}

/** Returns all n transfers of one ring step, which happen at the same time. */
export function ringTransfersAt(n: number, ringStep: number): RingTransfer[] {
  return Array.from({ length: n }, (_, rank) => ringTransferFrom(n, ringStep, rank));
}

/**
 * Returns the elements of a chunk, `start` (inclusive) to `end` (exclusive), in a tensor of `count`
 * elements. Sizes of chunks differ by at most one.
 */
export function chunkRange(count: number, n: number, chunk: number): { start: number; end: number } {
  const small = Math.floor(count / n);
  const larger = count % n;
  const start = chunk * small + Math.min(chunk, larger);
  return { start, end: start + small + (chunk < larger ? 1 : 0) };
}

/** Returns `a mod n` with the sign of n. */
export function modulo(a: number, n: number): number {
  return ((a % n) + n) % n;
}
