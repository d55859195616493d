/**
 * A collective of many ranks, played event by event on a network that is not there: by the plans
 * that real ranks run, cut into the same segments, a segment going as soon as in `planOp.ts`. For
 * what no test can open: hundreds of tabs, and lines of any kind.
 *
 * Left out: what a connection does by itself (slow start, loss), and READY, which matters only
 * where ranks begin at different times.
 */
import { FRAME_HEADER_BYTES, MAX_FRAME_BYTES } from '../protocol/frame.ts';
import type { Move } from '../collectives/plans/plans.ts';
import { EventQueue } from './eventQueue.ts';
import { COMBINE, SEND, type Schedule } from './schedule.ts';

/** What carries one frame after the other: an uplink, a radio channel, the cores of a machine. */
export interface Line {
  readonly msPerByte: number;
  readonly msPerFrame: number;
}

export interface Path {
  /** Index of the line that a sender's frames leave by, in the order they were handed over. */
  readonly first: number;
  /**
   * The line they come in by, as they come (cut-through: it does not wait for a frame's end);
   * `null` if that never holds them up.
   */
  readonly second: number | null;
  /**
   * From a frame's end leaving the first line until its receiver has it, and what each byte adds:
   * it is handed on as a whole.
   */
  readonly latencyMs: number;
  readonly latencyMsPerByte: number;
}

export interface Network {
  readonly lines: readonly Line[];
  readonly pathOf: (from: number, to: number) => Path;
  /** Of adding a received byte to one's own. */
  readonly combineMsPerByte: number;
}

export interface SimulationOptions {
  network: Network;
  elementBytes: number;
  /** By default what fits a frame. */
  segmentBytes?: number;
  /** When each rank begins, milliseconds; by default all at 0. */
  startAt?: readonly number[];
}

interface Simulated {
  /** When the last rank ended. */
  readonly ms: number;
  /** When each did. */
  readonly endedAt: Float64Array;
  /** Events it took. */
  readonly events: number;
  /** When a rank's send of `step` had left, or its receive was done; `null` if it has none. */
  readonly endOf: (rank: number, kind: Move['kind'], step: number) => number | null;
}

/** What happens to a move. */
const Event = { START: 0, ARRIVE: 1, DELIVER: 2, TAKEN: 3 } as const;
const EVENT_BITS = 2;

/** @throws Error where ranks wait for each other: the plan is wrong. */
export function simulate(schedule: Schedule, options: SimulationOptions): Simulated {
  const { network, elementBytes, startAt, segmentBytes = MAX_FRAME_BYTES - FRAME_HEADER_BYTES } = options;
  const { n, firstMove, kind, rank, start, end, lane, partner, before, after, lanes } = schedule;
  const { lines, combineMsPerByte } = network;
  const moves = kind.length;
  const segment = Math.max(1, Math.floor(segmentBytes / elementBytes));
  const paths = Array.from(lanes.from, (from, i) => network.pathOf(from, lanes.to[i]!));
  /**
   * Elements of each move that are done; of a receive those that have begun to come, and those that
   * have.
   */
  const done = new Int32Array(moves);
  const coming = new Int32Array(moves);
  const arrived = new Int32Array(moves);
  const isTaking = new Uint8Array(moves);
  const moveEnds = new Float64Array(moves);
  const laneNext = lanes.first.slice(0, -1);
  const lineFreeAt = new Float64Array(lines.length);
  /** When a rank has added up what it was adding. */
  const rankFreeAt = new Float64Array(n);
  const isStarted = new Uint8Array(n);
  const queue = new EventQueue();
  let now = 0;
  let events = 0;
  let left = moves;

  const lengthOf = (move: number): number => end[move]! - start[move]!;

  /** Whether all moves before this one are through with elements `low` .. `high`-1. */
  const isClear = (move: number, low: number, high: number): boolean => {
    for (let i = before.first[move]!; i < before.first[move + 1]!; i++) {
      const earlier = before.items[i]!;
      if (end[earlier]! <= low || start[earlier]! >= high) continue;
      if (start[earlier]! + done[earlier]! < Math.min(high, end[earlier]!)) return false;
    }
    return true;
  };

  /** When `bytes` that come to a line now are through. */
  const pass = (line: number, bytes: number): number => {
    const { msPerByte, msPerFrame } = lines[line]!;
    return (lineFreeAt[line] = Math.max(now, lineFreeAt[line]!) + bytes * msPerByte + msPerFrame);
  };

  /**
   * When `bytes` whose last one is here now have come in: they were coming while they left the
   * other end.
   */
  const comeIn = (line: number, bytes: number): number => {
    const { msPerByte, msPerFrame } = lines[line]!;
    return (lineFreeAt[line] = Math.max(now, lineFreeAt[line]! + bytes * msPerByte + msPerFrame));
  };

  const advance = (move: number, elements: number): void => {
    done[move]! += elements;
    if (done[move] === lengthOf(move)) {
      left -= 1;
      if (kind[move] !== SEND) moveEnds[move] = now;
    }
    for (let i = after.first[move]!; i < after.first[move + 1]!; i++) {
      const later = after.items[i]!;
      if (kind[later] === SEND) pump(lane[later]!);
      else take(later);
    }
  };

  /** Sends of a lane what may go. */
  const pump = (at: number): void => {
    if (isStarted[lanes.from[at]!] === 0) return;
    const { first, latencyMs, latencyMsPerByte } = paths[at]!;
    while (laneNext[at]! < lanes.first[at + 1]!) {
      const move = lanes.items[laneNext[at]!]!;
      const low = start[move]! + done[move]!;
      const high = Math.min(low + segment, end[move]!);
      if (!isClear(move, low, high)) return;
      const bytes = frameBytes(high - low);
      const leftAt = pass(first, bytes);
      queue.push(leftAt + latencyMs + bytes * latencyMsPerByte, eventOf(Event.ARRIVE, move));
      if (high === end[move]) {
        laneNext[at]! += 1;
        moveEnds[move] = leftAt;
      }
      advance(move, high - low);
    }
  };

  const frameBytes = (elements: number): number => elements * elementBytes + FRAME_HEADER_BYTES;
  /** Segments of a move come in order. */
  const nextSegment = (move: number, from: Int32Array): number => Math.min(segment, lengthOf(move) - from[move]!);

  /** A segment of a send is at the other end. */
  const deliver = (send: number): void => {
    const move = partner[send]!;
    arrived[move]! += nextSegment(move, arrived);
    take(move);
  };

  /** Takes all that has come to a receive and whose turn it is. */
  const take = (move: number): void => {
    const own = rank[move]!;
    if (isStarted[own] === 0) return;
    while (isTaking[move] === 0 && arrived[move]! > done[move]!) {
      const elements = nextSegment(move, done);
      const low = start[move]! + done[move]!;
      if (!isClear(move, low, low + elements)) return;
      if (kind[move] === COMBINE && combineMsPerByte > 0) {
        isTaking[move] = 1;
        rankFreeAt[own] = Math.max(now, rankFreeAt[own]!) + elements * elementBytes * combineMsPerByte;
        queue.push(rankFreeAt[own], eventOf(Event.TAKEN, move));
      } else advance(move, elements);
    }
  };

  const begin = (one: number): void => {
    isStarted[one] = 1;
    for (let move = firstMove[one]!; move < firstMove[one + 1]!; move++) {
      if (kind[move] === SEND) pump(lane[move]!);
      else take(move);
    }
  };

  for (let one = 0; one < n; one++) queue.push(startAt?.[one] ?? 0, eventOf(Event.START, one));
  for (; queue.size > 0; events++) {
    now = queue.time;
    const event = queue.pop();
    const subject = event >> EVENT_BITS;
    switch (event & ((1 << EVENT_BITS) - 1)) {
      case Event.START:
        begin(subject);
        break;
      case Event.ARRIVE: {
        const { second } = paths[lane[subject]!]!;
        const receive = partner[subject]!;
        const elements = nextSegment(receive, coming);
        coming[receive]! += elements;
        const at = second === null ? now : comeIn(second, frameBytes(elements));
        if (at > now) queue.push(at, eventOf(Event.DELIVER, subject));
        else deliver(subject);
        break;
      }
      case Event.DELIVER:
        deliver(subject);
        break;
      default:
        isTaking[subject] = 0;
        advance(subject, nextSegment(subject, done));
        take(subject);
    }
  }
  if (left > 0) throw new Error(`${left} moves of the plan wait for each other.`);

  const endedAt = new Float64Array(n);
  for (let move = 0; move < moves; move++) endedAt[rank[move]!] = Math.max(endedAt[rank[move]!]!, moveEnds[move]!);
  return {
    ...{ ms: Math.max(0, ...endedAt), endedAt, events },
    endOf(one, wanted, step) {
      for (let move = firstMove[one]!; move < firstMove[one + 1]!; move++) {
        if (schedule.step[move] === step && (kind[move] === SEND) === (wanted === 'send')) return moveEnds[move]!;
      }
      return null;
    },
  };
}

function eventOf(event: number, subject: number): number {
  return (subject << EVENT_BITS) | event;
}
