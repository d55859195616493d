/**
 * How far the moves of one rank's plan are, and which moves wait for which. `planOp.ts` changes
 * this state while segments are sent and arrive.
 */
import { dependencies } from './dependencies.ts';
import type { Move, Plan } from './plans.ts';

/** Progress of a move. */
export interface Progress {
  readonly move: Move;
  /** `before`: earlier moves that this move waits for. `after`: moves that wait for this move. */
  readonly before: Progress[];
  readonly after: Progress[];
  /**
   * `writers`: earlier receives into the elements of this receive. `followers`: later receives
   * whose `writers` include this receive.
   */
  readonly writers: Progress[];
  readonly followers: Progress[];
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
export interface Lane {
  readonly sends: Progress[];
  next: number;
  /** Whether a frame is being sent and the peer does not accept another one yet. */
  isBusy: boolean;
}

/**
 * Returns the progress of each move, with the moves that it waits for.
 *
 * @param isInPlace whether sends and receives use the same array.
 */
export function createProgress(plan: Plan, isInPlace: boolean): Progress[] {
  const all = plan.map((move): Progress => ({
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
  const needs = dependencies(plan, isInPlace);
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

/** Returns the lane to a peer. The first call for a peer creates its lane. */
export function laneOf(lanes: Map<number, Lane>, peer: number): Lane {
  const lane = lanes.get(peer) ?? { sends: [], next: 0, isBusy: false };
  lanes.set(peer, lane);
  return lane;
}

/** Returns one key for a peer and a step. Step numbers have 16 bits in a frame. */
export function transferKey(peer: number, step: number): number {
  return peer * 0x10000 + step;
}

export function lengthOf({ start, end }: Move): number {
  return end - start;
}

/** Whether all earlier moves are done with elements `start` .. `end`-1. */
export function isClear({ before }: Progress, start: number, end: number): boolean {
  // A loop, because a callback would be allocated for each frame.
  for (const { move, done } of before) {
    if (move.end > start && move.start < end && move.start + done < Math.min(end, move.end)) return false;
  }
  return true;
}
