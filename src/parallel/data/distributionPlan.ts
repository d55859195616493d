/**
 * Plans which rank sends which slice to which other rank. The plan is a pure function of the slices
 * that each rank has, so all ranks compute the same plan from the same reports.
 *
 * A rank receives a missing slice from its left neighbour, which already has the slice or receives
 * it first. So each slice travels along the ring: every rank receives it once and sends it at most
 * once, at the rate of one link. Only a rank that received a damaged slice may receive it from a
 * rank other than its left neighbour.
 */
import { modulo } from '../../collectives/plans/ringPlan.ts';

/** A rank's report of its slices at the start of a round. All ranks receive it. */
export interface SliceReport {
  /** One byte for each slice: 1 if the rank has the slice, otherwise 0. */
  readonly has: Uint8Array;
  /** Slices that arrived damaged on this rank: from which rank, and how often. */
  readonly damaged: readonly { slice: number; from: number; times: number }[];
}

export interface SliceTransfer {
  readonly slice: number;
  readonly from: number;
  readonly to: number;
}

export interface DistributionPlan {
  /**
   * Transfers to and from one rank, by the priority of their slices. Both ends of a link use this
   * order. A rank forwards a slice after it has received it, and all links use the same order, so
   * no transfer waits for a later one.
   */
  readonly receives: readonly SliceTransfer[];
  readonly sends: readonly SliceTransfer[];
  /** Slices that no rank has, also those that are not transferred. */
  readonly missing: readonly number[];
}

/**
 * Plans the transfers of one rank.
 *
 * @param reports one for each rank, in rank order.
 * @param order the slices to transfer, each once, by priority; equal on all ranks.
 */
export function planFileDistribution(
  rank: number,
  reports: readonly SliceReport[],
  order: Iterable<number>,
): DistributionPlan {
  const n = reports.length;
  const damaged = reports.map(damageBySlice);
  const receives: SliceTransfer[] = [];
  const sends: SliceTransfer[] = [];
  for (const slice of order) {
    const holders = reports.flatMap(({ has }, holder) => (has[slice] === 1 ? [holder] : []));
    const [first] = holders;
    if (first === undefined || holders.length === n) continue;
    for (let i = 1; i < n; i++) {
      const to = modulo(first + i, n);
      if (reports[to]!.has[slice] === 1) continue;
      const bad = damaged[to]!.get(slice);
      const from = bad === undefined ? modulo(to - 1, n) : mostReliable(holders, bad, to, n);
      const transfer = { slice, from, to };
      if (to === rank) receives.push(transfer);
      else if (from === rank) sends.push(transfer);
    }
  }
  const missing = [...reports[0]!.has.keys()].filter((slice) => reports.every(({ has }) => has[slice] === 0));
  return { receives, sends, missing };
}

type Times = ReadonlyMap<number, number>;

/** Returns, for each slice, how often each other rank has sent it damaged to the reporting rank. */
function damageBySlice({ damaged }: SliceReport): Map<number, Times> {
  const bySlice = new Map<number, Map<number, number>>();
  for (const { slice, from, times } of damaged) {
    bySlice.set(slice, (bySlice.get(slice) ?? new Map<number, number>()).set(from, times));
  }
  return bySlice;
}

/**
 * Returns the holder that sent the slice damaged least often. Among several such holders it is the
 * nearest on the left of rank `to`.
 */
function mostReliable(holders: readonly number[], bad: Times, to: number, n: number): number {
  const timesOf = (holder: number): number => bad.get(holder) ?? 0;
  const wayFrom = (holder: number): number => modulo(to - holder, n);
  return holders.reduce((best, holder) => {
    const order = timesOf(holder) - timesOf(best) || wayFrom(holder) - wayFrom(best);
    return order < 0 ? holder : best;
  });
}
