/**
 * Simulates a collective of many ranks event by event on a modelled network. It runs the same plans
 * with the same segments as real ranks, and sends each segment as early as `inFlightOp.ts` does. A
 * simulation can cover worlds that no test can open, with hundreds of tabs and links of any kind.
 *
 * The simulation leaves out slow start and packet loss of connections. It also leaves out READY,
 * which only matters if ranks start at different times.
 */
import { FRAME_HEADER_BYTES, MAX_FRAME_BYTES } from '../protocol/frame.ts';
import type { PlanMove } from '../collectives/plans/plans.ts';
import { SimulationEventQueue } from './eventQueue.ts';
import { SIMULATED_COMBINE, SIMULATED_SEND, type SimulationSchedule } from './schedule.ts';

/**
 * A resource that carries one frame after the other: an uplink, a radio channel, the cores of a
 * machine.
 */
export interface SerialResource {
  readonly msPerByte: number;
  readonly msPerFrame: number;
}

export interface SimulatedPath {
  /**
   * Index of the resource over which a sender's frames leave, in the order in which they were sent.
   */
  readonly first: number;
  /**
   * Index of the resource on which the frames arrive; `null` if it never limits them. It is
   * cut-through: it forwards the first bytes of a frame before it receives the last bytes.
   */
  readonly second: number | null;
  /**
   * A frame is received `latencyMs`, plus `latencyMsPerByte` for each of its bytes, after it has
   * left the first resource. The time depends on the bytes, because a frame is forwarded only as a
   * whole.
   */
  readonly latencyMs: number;
  readonly latencyMsPerByte: number;
}

export interface SimulatedNetwork {
  readonly resources: readonly SerialResource[];
  readonly pathOf: (from: number, to: number) => SimulatedPath;
  /** Time per byte to combine received values with the rank's own values. */
  readonly combineMsPerByte: number;
}

export interface SimulationOptions {
  network: SimulatedNetwork;
  elementBytes: number;
  /** Number of bytes of a segment. By default a segment fills a frame. */
  segmentBytes?: number;
  /** Time at which each rank starts, milliseconds; by default 0. */
  startAt?: readonly number[];
}

interface Simulated {
  /** Time at which the last rank ended. */
  readonly ms: number;
  /** End time of each rank. */
  readonly endedAt: Float64Array;
  readonly events: number;
  /**
   * Returns the time at which a rank's send in `step` had left the rank, or at which the rank's
   * receive in `step` was done. `null` if the rank has no such move.
   */
  readonly endOf: (rank: number, kind: PlanMove['kind'], step: number) => number | null;
}

/** Kinds of events. START is an event of a rank, the others are events of a move. */
const Event = { START: 0, ARRIVE: 1, DELIVER: 2, TAKEN: 3 } as const;
const EVENT_BITS = 2;

/**
 * Simulates the schedule.
 *
 * @throws Error if the plan is wrong: ranks wait for each other forever.
 */
export function simulateCollective(schedule: SimulationSchedule, options: SimulationOptions): Simulated {
  const { network, elementBytes, startAt, segmentBytes = MAX_FRAME_BYTES - FRAME_HEADER_BYTES } = options;
  const { n, firstMove, kind, rank, start, end, lane, partner, before, after, lanes } = schedule;
  const { resources, combineMsPerByte } = network;
  const moves = kind.length;
  const segment = Math.max(1, Math.floor(segmentBytes / elementBytes));
  const paths = Array.from(lanes.from, (from, i) => network.pathOf(from, lanes.to[i]!));
  /**
   * For each move, numbers of elements. `done`: elements that the move has finished. For receives
   * only, `coming`: elements that have begun to arrive, and `arrived`: elements that have arrived.
   */
  const done = new Int32Array(moves);
  const coming = new Int32Array(moves);
  const arrived = new Int32Array(moves);
  const isTaking = new Uint8Array(moves);
  const moveEnds = new Float64Array(moves);
  const laneNext = lanes.first.slice(0, -1);
  const freeAt = new Float64Array(resources.length);
  /** For each rank, the time at which it has combined all values that it has begun to combine. */
  const rankFreeAt = new Float64Array(n);
  const isStarted = new Uint8Array(n);
  const queue = new SimulationEventQueue();
  let now = 0;
  let events = 0;
  let left = moves;

  const lengthOf = (move: number): number => end[move]! - start[move]!;

  /** Whether all earlier moves are done with elements `low` .. `high`-1. */
  const isClear = (move: number, low: number, high: number): boolean => {
    for (let i = before.first[move]!; i < before.first[move + 1]!; i++) {
      const earlier = before.items[i]!;
      if (end[earlier]! <= low || start[earlier]! >= high) continue;
      if (start[earlier]! + done[earlier]! < Math.min(high, end[earlier]!)) return false;
    }
    return true;
  };

  /**
   * Passes `bytes` over a resource that they reach now. Returns the time at which the last byte has
   * passed.
   */
  const pass = (resource: number, bytes: number): number => {
    const { msPerByte, msPerFrame } = resources[resource]!;
    return (freeAt[resource] = Math.max(now, freeAt[resource]!) + bytes * msPerByte + msPerFrame);
  };

  /**
   * Passes `bytes` over a cut-through resource that their last byte reaches now. The earlier bytes
   * may already have passed it. Returns the time at which all bytes have passed.
   */
  const passCutThrough = (resource: number, bytes: number): number => {
    const { msPerByte, msPerFrame } = resources[resource]!;
    return (freeAt[resource] = Math.max(now, freeAt[resource]! + bytes * msPerByte + msPerFrame));
  };

  const advance = (move: number, elements: number): void => {
    done[move]! += elements;
    if (done[move] === lengthOf(move)) {
      left -= 1;
      if (kind[move] !== SIMULATED_SEND) moveEnds[move] = now;
    }
    for (let i = after.first[move]!; i < after.first[move + 1]!; i++) {
      const later = after.items[i]!;
      if (kind[later] === SIMULATED_SEND) pump(lane[later]!);
      else take(later);
    }
  };

  /** Sends all segments of a lane that are ready. */
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
  /** Returns the size of the next segment of a move. Segments arrive in order. */
  const nextSegment = (move: number, from: Int32Array): number => Math.min(segment, lengthOf(move) - from[move]!);

  /** Called when a segment of a send has reached the other end. */
  const deliver = (send: number): void => {
    const move = partner[send]!;
    arrived[move]! += nextSegment(move, arrived);
    take(move);
  };

  /**
   * Combines the arrived segments of a receive, in order, up to the first segment whose elements an
   * earlier move still uses.
   */
  const take = (move: number): void => {
    const own = rank[move]!;
    if (isStarted[own] === 0) return;
    while (isTaking[move] === 0 && arrived[move]! > done[move]!) {
      const elements = nextSegment(move, done);
      const low = start[move]! + done[move]!;
      if (!isClear(move, low, low + elements)) return;
      if (kind[move] === SIMULATED_COMBINE && combineMsPerByte > 0) {
        isTaking[move] = 1;
        rankFreeAt[own] = Math.max(now, rankFreeAt[own]!) + elements * elementBytes * combineMsPerByte;
        queue.push(rankFreeAt[own], eventOf(Event.TAKEN, move));
      } else advance(move, elements);
    }
  };

  const begin = (one: number): void => {
    isStarted[one] = 1;
    for (let move = firstMove[one]!; move < firstMove[one + 1]!; move++) {
      if (kind[move] === SIMULATED_SEND) pump(lane[move]!);
      else take(move);
    }
  };

  for (let each = 0; each < n; each++) queue.push(startAt?.[each] ?? 0, eventOf(Event.START, each));
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
        const at = second === null ? now : passCutThrough(second, frameBytes(elements));
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
    ms: Math.max(0, ...endedAt),
    endedAt,
    events,
    endOf(ofRank, wanted, step) {
      for (let move = firstMove[ofRank]!; move < firstMove[ofRank + 1]!; move++) {
        if (schedule.step[move] === step && (kind[move] === SIMULATED_SEND) === (wanted === 'send'))
          return moveEnds[move]!;
      }
      return null;
    },
  };
}

function eventOf(event: number, subject: number): number {
  return (subject << EVENT_BITS) | event;
}
