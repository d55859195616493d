/**
 * One rank's training state, abstracted to what membership can get wrong: which windows were applied, in which order, and what was
 * computed of the next one. Numbers stand for parameters and gradients: two are equal exactly if their histories are.
 */

/** Samples of a pass; a run is one pass. A window has one sample per rank. */
export const PASS = 8;

/** Samples whose gradients were computed and are not applied yet. */
export interface Held {
  /** Bit i: sample `start + i`. */
  mask: number;
  start: number;
  size: number;
  /** Epoch in which this window was dealt out first. */
  dealtIn: number;
  /** The state at which they were computed. */
  base: number;
}

export interface Replica {
  /** 0: it has no state. */
  run: number;
  /** By step: the state's hash after it; [0] is the start. */
  hashes: number[];
  /** Samples applied. */
  position: number;
  /** The latest epoch in which it trained. */
  trainedIn: number;
  held: Held | null;
  /** Whether it has the reduced gradient of its last step. */
  keeps: boolean;
}

export function freshReplica(): Replica {
  return { run: 0, hashes: [], position: 0, trainedIn: 0, held: null, keeps: false };
}

export function copyOf(replica: Replica): Replica {
  return { ...replica, hashes: replica.hashes.slice(), held: replica.held && { ...replica.held } };
}

export function stepsOf({ hashes }: Replica): number {
  return hashes.length - 1;
}

export function hashOf({ hashes }: Replica): number {
  return hashes[hashes.length - 1] ?? 0;
}

export function mix(a: number, b: number): number {
  let h = Math.imul(a ^ b, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** What of a world's statuses decides whose state is everyone's: the rank whose state all take; -1: all are new. */
export type ChooseSource = (statuses: readonly Replica[], run: number) => number;

/** Of the ranks that trained last, one with the most steps: only they know what was applied since others dropped out. */
export const chooseSource: ChooseSource = (statuses, run) => {
  let best = -1;
  for (let rank = 0; rank < statuses.length; rank++) {
    const one = statuses[rank]!;
    if (one.run !== run) continue;
    const most = statuses[best];
    const isLater =
      most === undefined ||
      one.trainedIn > most.trainedIn ||
      (one.trainedIn === most.trainedIn && one.hashes.length > most.hashes.length);
    if (isLater) best = rank;
  }
  return best;
};

/** The state that `rank` has after an epoch's members have compared theirs. */
export type Reconcile = (statuses: readonly Replica[], rank: number, source: number, run: number) => Replica;

export const reconcile: Reconcile = (statuses, rank, source, run) => {
  const own = statuses[rank]!;
  if (source < 0) return { ...freshReplica(), run, hashes: [mix(run, 1)] };
  const wanted = statuses[source]!;
  const isKnown = own.run === run;
  if (isKnown && hashOf(own) === hashOf(wanted)) return own;
  const isLate = isKnown && own.hashes.length === wanted.hashes.length - 1;
  const isBefore = isLate && hashOf(own) === wanted.hashes[own.hashes.length - 1];
  const isKept = statuses.some((one) => one.run === run && one.keeps && hashOf(one) === hashOf(wanted));
  if (isBefore && isKept) {
    // One step forward, by the gradient that a neighbour kept. What it held was of that step.
    const next = hashOf(wanted);
    return { ...own, hashes: [...own.hashes, next], position: wanted.position, held: null, keeps: true };
  }
  // A copy of everything. Gradients of another state are of no use.
  return { ...wanted, hashes: wanted.hashes.slice(), held: null, keeps: false };
};

export interface Deal {
  start: number;
  size: number;
  dealtIn: number;
  /** By rank: what it holds already, and what it has to have in the end. */
  keeps: number[];
  parts: number[];
}

/** Who computes what of the step that follows `replicas`, all in the same state. */
export function deal(replicas: readonly Replica[], epoch: number): Deal {
  const n = replicas.length;
  const { position } = replicas[0]!;
  let window = { start: position, size: Math.min(n, PASS - position), dealtIn: epoch };
  let latest = -1;
  for (const { held } of replicas) {
    if (held === null || held.dealtIn <= latest) continue;
    window = { start: held.start, size: held.size, dealtIn: held.dealtIn };
    latest = held.dealtIn;
  }
  let taken = 0;
  const keeps = replicas.map(({ held }) => {
    const isSame = held?.dealtIn === window.dealtIn && held.start === window.start && held.size === window.size;
    if (!held || !isSame || (held.mask & taken) !== 0) return 0;
    taken |= held.mask;
    return held.mask;
  });
  const parts = [...keeps];
  for (let i = 0, next = 0; i < window.size; i++) {
    if ((taken & (1 << i)) !== 0) continue;
    parts[next % n]! |= 1 << i;
    next++;
  }
  return { ...window, keeps, parts };
}
