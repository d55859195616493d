/**
 * The dependencies between the moves of one rank's plan, and the progress of the moves.
 * `inFlightOp.ts` changes the progress while segments are sent and arrive; the simulation uses the
 * dependencies only.
 */
import type { PlanMove, CollectivePlan } from './plans.ts';

/** Progress of a move. */
export interface MoveProgress {
  readonly move: PlanMove;
  /** `before`: earlier moves that this move waits for. `after`: moves that wait for this move. */
  readonly before: MoveProgress[];
  readonly after: MoveProgress[];
  /**
   * `writers`: earlier receives into the elements of this receive. `followers`: later receives
   * whose `writers` include this receive.
   */
  readonly writers: MoveProgress[];
  readonly followers: MoveProgress[];
  /** Number of elements that are done, counted from `move.start`. */
  done: number;
  /** Segments that arrived before they could be combined. */
  readonly early: ArrayBuffer[];
  /** Number of elements that have arrived. */
  arrived: number;
  /** Time at which the last element was done; `null` until then. */
  endedAt: number | null;
  /** Milliseconds spent on combining or copying received data. */
  spentMs: number;
}

/** The sends to one peer, in order. */
export interface SendLane {
  readonly sends: MoveProgress[];
  next: number;
  /** Whether a frame is being sent and the peer does not accept another one yet. */
  isBusy: boolean;
  /**
   * Whether the peer is ready for all data. Until then, only `eagerLeft` more bytes may be sent.
   */
  isReady: boolean;
  eagerLeft: number;
  /** Sends the frame that waits until the peer is ready. */
  release: (() => void) | null;
}

/**
 * Returns the progress of each move, with the moves that it waits for.
 *
 * @param isInPlace whether sends and receives use the same array.
 */
export function createMoveProgress(plan: CollectivePlan, isInPlace: boolean): MoveProgress[] {
  const all = plan.map((move): MoveProgress => ({
    move,
    before: [],
    after: [],
    writers: [],
    followers: [],
    done: 0,
    early: [],
    arrived: 0,
    endedAt: null,
    spentMs: 0,
  }));
  const needs = moveDependencies(plan, isInPlace);
  all.forEach((later, i) => {
    for (const earlier of needs[i]!.before.map((at) => all[at]!)) {
      later.before.push(earlier);
      earlier.after.push(later);
    }
    for (const writer of needs[i]!.writers.map((at) => all[at]!)) {
      later.writers.push(writer);
      writer.followers.push(later);
    }
  });
  return all;
}

/**
 * Returns the lanes of the sends, by peer.
 *
 * @param bytesOf returns the bytes of a move that may arrive before the peer is ready.
 * @param eagerBytes number of bytes that a peer may receive before it is ready.
 */
export function createSendLanes(
  moves: readonly MoveProgress[],
  bytesOf: (move: PlanMove) => number,
  eagerBytes: number,
): Map<number, SendLane> {
  const lanes = new Map<number, SendLane>();
  for (const progress of moves) {
    const { kind, peer } = progress.move;
    if (kind === 'receive') continue;
    const lane = lanes.get(peer);
    if (lane) lane.sends.push(progress);
    else
      lanes.set(peer, {
        sends: [progress],
        next: 0,
        isBusy: false,
        isReady: true,
        eagerLeft: eagerBytes,
        release: null,
      });
  }
  for (const lane of lanes.values()) {
    const bytes = lane.sends.reduce((sum, { move }) => sum + bytesOf(move), 0);
    lane.isReady = bytes <= eagerBytes;
  }
  return lanes;
}

/** Returns one key for a peer and a step. Step numbers have 16 bits in a frame. */
export function transferKey(peer: number, step: number): number {
  return peer * 0x10000 + step;
}

export function moveLength({ start, end }: PlanMove): number {
  return end - start;
}

/** Whether all earlier moves are done with elements `start` .. `end`-1. */
export function areEarlierPlanMovesDone({ before }: MoveProgress, start: number, end: number): boolean {
  // A loop, because a callback would be allocated for each frame.
  for (const { move, done } of before) {
    if (move.end > start && move.start < end && move.start + done < Math.min(end, move.end)) return false;
  }
  return true;
}

/** Dependencies of one move, as indices of earlier moves that touch the same elements. */
interface Needs {
  /**
   * Moves that this move waits for. If several of them wait for each other in a chain, only the
   * last one is listed.
   */
  readonly before: readonly number[];
  /** For a receive, the latest earlier moves that write the same elements. */
  readonly writers: readonly number[];
}

const NONE: Needs = { before: [], writers: [] };

/**
 * Returns the dependencies of each move of `plan`. A move depends on an earlier move if both touch
 * the same elements and at least one of them writes. The function does not compare all pairs of
 * moves, so that it is fast for long plans.
 *
 * @param inPlace whether sends and receives use the same array.
 */
export function moveDependencies(plan: CollectivePlan, inPlace = true): Needs[] {
  const edges = [...new Set(plan.flatMap(({ start, end }) => [start, end]))].sort((a, b) => a - b);
  const placeOf = new Map(edges.map((edge, place) => [edge, place]));
  /**
   * No move starts or ends inside the range between two neighbouring edges. For each such range,
   * `written` holds the last move that wrote it, and `read` the moves after that one that read it.
   */
  const written = edges.map(() => -1);
  const read = edges.map((): number[] => []);
  return plan.map(({ kind, start, end }, i) => {
    if (kind === 'send' && !inPlace) return NONE;
    const before = new Set<number>();
    const writers = new Set<number>();
    const last = placeOf.get(end)!;
    for (let place = placeOf.get(start)!; place < last; place++) {
      const writer = written[place]!;
      const readers = read[place]!;
      if (kind === 'send') {
        if (writer >= 0) before.add(writer);
        readers.push(i);
        continue;
      }
      if (writer >= 0) writers.add(writer);
      if (readers.length === 0 && writer >= 0) before.add(writer);
      for (const reader of readers) before.add(reader);
      written[place] = i;
      if (readers.length > 0) read[place] = [];
    }
    return { before: [...before], writers: [...writers] };
  });
}
