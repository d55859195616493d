/**
 * Creates the plans of all collectives. A plan is the list of one rank's moves (sends and
 * receives), in the order of the algorithm. The functions are pure, so that tests can run all
 * ranks' plans without a network. `inFlightOp.ts` runs plans over a network.
 *
 * A plan is sequential: a move sees the effects of all earlier moves on the same elements. Moves
 * that do not affect each other run at the same time.
 */
import { twoLevelGroupSize } from '../../spec/algorithms.ts';
import { chunkRange, modulo, ringStepCount, ringTransferFrom } from './ringPlan.ts';

export interface PlanMove {
  readonly kind: 'send' | 'receive';
  /** The other rank. */
  readonly peer: number;
  /**
   * Number of the transfer, the same at both ends. Sender and step together identify a transfer.
   */
  readonly step: number;
  /** Elements of the sender's or receiver's own tensor, `end` exclusive. */
  readonly start: number;
  readonly end: number;
  /**
   * How the receiver uses the data. `copy`: it overwrites its own values. `combine`: it combines
   * the data with its own values. `combine-last`: the same, and the result is final. In an
   * all-reduce, a send has the same value as its receive.
   */
  readonly how: 'copy' | 'combine' | 'combine-last';
}

export type CollectivePlan = readonly PlanMove[];

export function planStepNumbers(plan: CollectivePlan): number[] {
  return [...new Set(plan.map(({ step }) => step))].sort((a, b) => a - b);
}

/**
 * Returns the plan of a rank of the group. A rank calls this only for itself, when it issues the
 * op.
 */
export type CollectivePlanner = (rank: number) => CollectivePlan;

/** n+1 numbers: the start of each rank's part in a concatenation, and the total length. */
export type Displacements = readonly number[];

export function displacementsOf(sizes: readonly number[]): Displacements {
  const displacements = [0];
  for (const size of sizes) displacements.push(displacements.at(-1)! + size);
  return displacements;
}

/**
 * Returns the displacements of n parts of `count` elements in total. The sizes of the parts differ
 * by at most one.
 */
export function evenDisplacements(count: number, n: number): Displacements {
  return Array.from({ length: n + 1 }, (_, i) => (i === n ? count : chunkRange(count, n, i).start));
}

type Range = Pick<PlanMove, 'start' | 'end'>;

const send = (peer: number, step: number, { start, end }: Range, how: PlanMove['how'] = 'copy'): PlanMove => ({
  kind: 'send',
  peer,
  step,
  start,
  end,
  how,
});
const receive = (peer: number, step: number, { start, end }: Range, how: PlanMove['how'] = 'copy'): PlanMove => ({
  kind: 'receive',
  peer,
  step,
  start,
  end,
  how,
});
const part = (displacements: Displacements, first: number, last = first): Range => ({
  start: displacements[first]!,
  end: displacements[last + 1]!,
});
const neighbours = (rank: number, n: number) => ({ left: modulo(rank - 1, n), right: modulo(rank + 1, n) });

/** A ring that consists of some of a plan's ranks. */
interface SubRing {
  /** This rank's index in the ring, and the number of ranks in the ring. */
  readonly index: number;
  readonly n: number;
  readonly rankOf: (index: number) => number;
  readonly displacements: Displacements;
  /** Step number of the ring's first step in the plan. */
  readonly firstStep: number;
  /** Whether a sum is complete after this ring. */
  readonly isLast: boolean;
}

/** Returns the moves of ring steps `from` .. `to`-1 of the all-reduce in ringPlan.ts. */
function subRingSteps(
  { index, n, rankOf, displacements, firstStep, isLast }: SubRing,
  from: number,
  to: number,
): PlanMove[] {
  const { left, right } = neighbours(index, n);
  return Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i).flatMap((step, i) => {
    const how = step >= n - 1 ? 'copy' : step === n - 2 && isLast ? 'combine-last' : 'combine';
    return [
      send(rankOf(right), firstStep + i, part(displacements, ringTransferFrom(n, step, index).chunk), how),
      receive(rankOf(left), firstStep + i, part(displacements, ringTransferFrom(n, step, left).chunk), how),
    ];
  });
}

/** Returns the moves of ring steps `from` .. `to`-1 over all ranks. */
function ringSteps(rank: number, n: number, displacements: Displacements, from: number, to: number): PlanMove[] {
  return subRingSteps({ index: rank, n, displacements, firstStep: from, isLast: true, rankOf: (r) => r }, from, to);
}

/** Ring all-reduce: all 2(n-1) ring steps. */
export function planRingAllReduce(rank: number, n: number, count: number): CollectivePlan {
  return ringSteps(rank, n, evenDisplacements(count, n), 0, ringStepCount(n));
}

/** Ring reduce-scatter: the first n-1 ring steps. Rank r ends with the sum of part r. */
export function planRingReduceScatter(rank: number, n: number, displacements: Displacements): CollectivePlan {
  return ringSteps(rank, n, displacements, 0, n - 1);
}

/**
 * Ring all-gather: the last n-1 ring steps. Rank r starts with part r, and all ranks end with all
 * parts.
 */
export function planRingAllGather(rank: number, n: number, displacements: Displacements): CollectivePlan {
  return ringSteps(rank, n, displacements, n - 1, ringStepCount(n));
}

/**
 * All-reduce on two levels. First each group of neighbours does a reduce-scatter. Then the ranks
 * that have the same index in their groups form a ring and all-reduce their part. Finally each
 * group does an all-gather. With groups of g ranks this takes 2(g-1) + 2(n/g-1) steps and four
 * links per rank. Ranks send as few bytes as on the ring, for any n. One rank sums each chunk and
 * the others copy the sum.
 *
 * Mikami et al., "Massively Distributed SGD: ImageNet/ResNet-50 Training in a Flash" (2018),
 * "2D-torus all-reduce".
 */
export function planTwoLevelAllReduce(rank: number, n: number, count: number): CollectivePlan {
  const size = twoLevelGroupSize(n);
  const groups = n / size;
  const [place, group] = [rank % size, Math.floor(rank / size)];
  const displacements = evenDisplacements(count, n);
  const within = {
    index: place,
    n: size,
    rankOf: (index: number) => group * size + index,
    isLast: groups === 1,
    displacements: Array.from({ length: size + 1 }, (_, i) => displacements[i * groups]!),
  };
  const across = {
    index: group,
    n: groups,
    rankOf: (index: number) => index * size + place,
    isLast: true,
    displacements: displacements.slice(place * groups, (place + 1) * groups + 1),
  };
  const acrossFrom = size - 1;
  const gatherFrom = acrossFrom + ringStepCount(groups);
  return [
    ...subRingSteps({ ...within, firstStep: 0 }, 0, size - 1),
    ...subRingSteps({ ...across, firstStep: acrossFrom }, 0, ringStepCount(groups)),
    ...subRingSteps({ ...within, firstStep: gatherFrom }, size - 1, ringStepCount(size)),
  ];
}

/**
 * Extends an algorithm for p ranks, with p a power of two, to n ranks. Of the first 2(n-p) ranks,
 * the even ranks send their tensor to the odd ranks, wait, and receive the result. `inner` plans
 * the moves of the other p ranks. It receives a rank's index among these p ranks, and a function
 * that converts an index to a rank.
 *
 * Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH"
 * (2005), section 4.5.
 */
function folded(
  rank: number,
  n: number,
  count: number,
  inner: (index: number, p: number, rankOf: (index: number) => number, firstStep: number) => PlanMove[],
): CollectivePlan {
  const p = 2 ** Math.floor(Math.log2(n));
  const extra = n - p;
  const all: Range = { start: 0, end: count };
  /**
   * This step follows all steps of the p ranks, which take at most two steps for each halving of p.
   */
  const lastStep = 1 + 2 * Math.log2(p);
  if (rank < 2 * extra && rank % 2 === 0) return [send(rank + 1, 0, all, 'combine'), receive(rank + 1, lastStep, all)];
  const index = rank < 2 * extra ? (rank - 1) / 2 : rank - extra;
  const moves = inner(index, p, (i) => (i < extra ? 2 * i + 1 : i + extra), 1);
  if (rank >= 2 * extra) return moves;
  return [receive(rank - 1, 0, all, 'combine'), ...moves, send(rank - 1, lastStep, all)];
}

/**
 * All-reduce by recursive halving and then recursive doubling. If n is a power of two, this takes 2
 * log2(n) steps, and ranks send as few bytes as on the ring. One rank sums each chunk and the
 * others copy the sum, so all ranks end with the same bits.
 *
 * Rabenseifner's algorithm: Thakur, Rabenseifner and Gropp (2005), section 4.5.
 */
export function planHalvingDoublingAllReduce(rank: number, n: number, count: number): CollectivePlan {
  return folded(rank, n, count, (index, p, rankOf, firstStep) => {
    const displacements = evenDisplacements(count, p);
    const moves: PlanMove[] = [];
    let step = firstStep;
    for (let mask = p / 2; mask >= 1; mask /= 2, step++) {
      const partner = index ^ mask;
      /**
       * The first of the 2*mask parts that this rank still works on. The rank keeps the half that
       * begins at `kept`, and sends the other half.
       */
      const base = index & ~(2 * mask - 1);
      const kept = base + (index & mask);
      const given = base + (partner & mask);
      const how = mask === 1 ? 'combine-last' : 'combine';
      moves.push(send(rankOf(partner), step, part(displacements, given, given + mask - 1), how));
      moves.push(receive(rankOf(partner), step, part(displacements, kept, kept + mask - 1), how));
    }
    for (let mask = 1; mask < p; mask *= 2, step++) {
      const partner = index ^ mask;
      const mine = index & ~(mask - 1);
      const theirs = partner & ~(mask - 1);
      moves.push(send(rankOf(partner), step, part(displacements, mine, mine + mask - 1)));
      moves.push(receive(rankOf(partner), step, part(displacements, theirs, theirs + mask - 1)));
    }
    return moves;
  });
}

/**
 * All-reduce by recursive doubling: log2(n) steps if n is a power of two. Each step exchanges the
 * whole tensor. The algorithm is for small tensors, where only the number of steps matters.
 * Partners combine the same two operands, so by induction all ranks have the same bits (for NaNs
 * see `unifyNaNs`).
 */
export function planRecursiveDoublingAllReduce(rank: number, n: number, count: number): CollectivePlan {
  return folded(rank, n, count, (index, p, rankOf, firstStep) => {
    const all: Range = { start: 0, end: count };
    const moves: PlanMove[] = [];
    for (let mask = 1, step = firstStep; mask < p; mask *= 2, step++) {
      const partner = rankOf(index ^ mask);
      const how = 2 * mask === p ? 'combine-last' : 'combine';
      moves.push(send(partner, step, all, how), receive(partner, step, all, how));
    }
    return moves;
  });
}

/**
 * All-gather in ceil(log2 n) steps, for any n: in step k a rank sends parts to the rank 2^k places
 * to its left. These are the parts that the receiver does not have yet.
 *
 * Bruck et al., "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing
 * Systems" (1997).
 */
export function planBruckAllGather(rank: number, n: number, displacements: Displacements): CollectivePlan {
  const moves: PlanMove[] = [];
  for (let distance = 1, k = 0; distance < n; distance *= 2, k++) {
    const parts = Math.min(distance, n - distance);
    const to = modulo(rank - distance, n);
    const from = modulo(rank + distance, n);
    moves.push(
      ...wrapped(rank, parts, n).map(([first, last], i) => send(to, 2 * k + i, part(displacements, first, last))),
    );
    moves.push(
      ...wrapped(from, parts, n).map(([first, last], i) => receive(from, 2 * k + i, part(displacements, first, last))),
    );
  }
  return moves;
}

/**
 * Returns parts `first` .. `first+count-1` (modulo n) as one or two ranges of consecutive parts.
 */
function wrapped(first: number, count: number, n: number): [first: number, last: number][] {
  const last = first + count - 1;
  if (last < n) return [[first, last]];
  return [
    [first, n - 1],
    [0, last - n],
  ];
}

/** Broadcast along the ring, segment by segment: every rank but the last sends the tensor once. */
export function planChainBroadcast(rank: number, n: number, root: number, count: number): CollectivePlan {
  const { left, right } = neighbours(rank, n);
  const all: Range = { start: 0, end: count };
  return [...(rank === root ? [] : [receive(left, 0, all)]), ...(right === root ? [] : [send(right, 0, all)])];
}

/**
 * Reduction along the ring to `root`. The root's right neighbour starts. Every rank but the root
 * sends the tensor once.
 */
export function planChainReduce(rank: number, n: number, root: number, count: number): CollectivePlan {
  const { left, right } = neighbours(rank, n);
  const all: Range = { start: 0, end: count };
  return [
    ...(left === root ? [] : [receive(left, 0, all, rank === root ? 'combine-last' : 'combine')]),
    ...(rank === root ? [] : [send(right, 0, all)]),
  ];
}

/**
 * Returns a rank's parent and children in a binomial tree, where ranks are numbered from `root`. To
 * get the number of a rank's parent, clear the lowest set bit of the rank's number.
 */
function treeLinks(rank: number, n: number, root: number): { parent: number | null; children: number[] } {
  const place = modulo(rank - root, n);
  const lowest = place === 0 ? n : place & -place;
  const children: number[] = [];
  for (let bit = 1; bit < lowest && place + bit < n; bit *= 2) children.push(modulo(rank + bit, n));
  return { parent: place === 0 ? null : modulo(rank - lowest, n), children };
}

/** Broadcast down a binomial tree in ceil(log2 n) steps. The root sends the tensor in each step. */
export function planTreeBroadcast(rank: number, n: number, root: number, count: number): CollectivePlan {
  const { parent, children } = treeLinks(rank, n, root);
  const all: Range = { start: 0, end: count };
  return [
    ...(parent === null ? [] : [receive(parent, 0, all)]),
    // The child with the largest subtree receives the tensor first, because its subtree takes the
    // longest.
    ...children.toReversed().map((child) => send(child, 0, all)),
  ];
}

/** Reduction up a binomial tree: ceil(log2 n) steps. */
export function planTreeReduce(rank: number, n: number, root: number, count: number): CollectivePlan {
  const { parent, children } = treeLinks(rank, n, root);
  const all: Range = { start: 0, end: count };
  const isLast = (i: number) => parent === null && i === children.length - 1;
  return [
    ...children.map((child, i) => receive(child, 0, all, isLast(i) ? 'combine-last' : 'combine')),
    ...(parent === null ? [] : [send(parent, 0, all)]),
  ];
}

function others(rank: number, n: number): number[] {
  return Array.from({ length: n }, (_, peer) => peer).filter((peer) => peer !== rank);
}

/** `root` sends the tensor to each rank directly, as a parameter server does. */
export function planDirectBroadcast(rank: number, n: number, root: number, count: number): CollectivePlan {
  const all: Range = { start: 0, end: count };
  return rank === root ? others(rank, n).map((peer) => send(peer, 0, all)) : [receive(root, 0, all)];
}

/**
 * Each rank sends its tensor to `root`, as to a parameter server. `root` combines its own tensor
 * with the received tensors, in rank order.
 */
export function planDirectReduce(rank: number, n: number, root: number, count: number): CollectivePlan {
  const all: Range = { start: 0, end: count };
  if (rank !== root) return [send(root, 0, all)];
  return others(rank, n).map((peer, i) => receive(peer, 0, all, i === n - 2 ? 'combine-last' : 'combine'));
}

/**
 * Each rank sends its part to `root`. On ranks other than `root`, the tensor consists only of that
 * part.
 */
export function planDirectGather(rank: number, n: number, root: number, displacements: Displacements): CollectivePlan {
  if (rank === root) return others(rank, n).map((peer) => receive(peer, 0, part(displacements, peer)));
  return [send(root, 0, { start: 0, end: displacements[rank + 1]! - displacements[rank]! })];
}

/**
 * `root` sends each rank its part. On ranks other than `root`, the tensor consists only of that
 * part.
 */
export function planDirectScatter(rank: number, n: number, root: number, displacements: Displacements): CollectivePlan {
  if (rank === root) return others(rank, n).map((peer) => send(peer, 0, part(displacements, peer)));
  return [receive(root, 0, { start: 0, end: displacements[rank + 1]! - displacements[rank]! })];
}

/**
 * Every rank sends part j of its input to rank j. Each rank starts with a different peer, so that
 * no rank receives from all others at the same time.
 */
export function planDirectAllToAll(
  rank: number,
  n: number,
  input: Displacements,
  output: Displacements,
): CollectivePlan {
  return Array.from({ length: n - 1 }, (_, i) => i + 1).flatMap((distance) => {
    const to = modulo(rank + distance, n);
    const from = modulo(rank - distance, n);
    return [send(to, 0, part(input, to)), receive(from, 0, part(output, from))];
  });
}
