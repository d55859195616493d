/**
 * Prepares all ranks' plans of one collective for a simulation. It finds the dependencies between
 * moves, as `inFlightOp.ts` does for ops in place. It also finds the receive that belongs to each
 * send. The numbers are in flat arrays, because a ring of 1024 ranks has four million moves.
 */
import { moveDependencies } from '../collectives/plans/moveProgress.ts';
import type { CollectivePlanner } from '../collectives/plans/plans.ts';

export interface SimulationSchedule {
  readonly n: number;
  /**
   * Rank r has the moves `firstMove[r]` .. `firstMove[r+1]`-1, in the plan's order. Empty moves are
   * left out.
   */
  readonly firstMove: Int32Array;
  readonly rank: Int32Array;
  readonly step: Int32Array;
  readonly start: Int32Array;
  readonly end: Int32Array;
  readonly kind: Int32Array;
  /** The lane of each send. */
  readonly lane: Int32Array;
  /** The receive at the other end of each send. */
  readonly partner: Int32Array;
  /**
   * List i of `before` has the moves for which move i waits. List i of `after` has the moves that
   * wait for move i.
   */
  readonly before: PackedLists;
  readonly after: PackedLists;
  readonly lanes: SimulatedSendLanes;
}

/** Kinds of moves. */
export const SIMULATED_SEND = 0;
const SIMULATED_COPY = 1;
export const SIMULATED_COMBINE = 2;

/** The items of list i have the indices `first[i]` .. `first[i+1]`-1. */
export interface PackedLists {
  readonly first: Int32Array;
  readonly items: Int32Array;
}

/** One list (lane) for each pair of ranks: the sends from one to the other, in order. */
export interface SimulatedSendLanes extends PackedLists {
  readonly from: Int32Array;
  readonly to: Int32Array;
}

/**
 * Creates the schedule.
 *
 * @throws Error if the plan is wrong: a send has no receive with the same step and length, or a
 * receive has no send.
 */
export function collectiveSimulationScheduleOf(planner: CollectivePlanner, n: number): SimulationSchedule {
  const fields = { rank: new Ints(), step: new Ints(), start: new Ints(), end: new Ints(), kind: new Ints() };
  const lane = new Ints();
  const firstMove = new Ints();
  const before = { first: new Ints(), items: new Ints() };
  const lanes = { first: new Ints(), items: new Ints(), from: new Ints(), to: new Ints() };
  /** Receives by sender and receiver, in the plan's order. */
  const receives = new Map<number, number[]>();
  for (let rank = 0; rank < n; rank++) {
    const plan = planner(rank).filter(({ start, end }) => end > start);
    const base = fields.rank.length;
    firstMove.push(base);
    for (const needs of moveDependencies(plan)) {
      before.first.push(before.items.length);
      for (const move of needs.before) before.items.push(base + move);
    }
    const sends = new Map<number, { lane: number; moves: number[] }>();
    plan.forEach((move, i) => {
      const { kind, peer, how } = move;
      fields.rank.push(rank);
      fields.step.push(move.step);
      fields.start.push(move.start);
      fields.end.push(move.end);
      fields.kind.push(kind === 'send' ? SIMULATED_SEND : how === 'copy' ? SIMULATED_COPY : SIMULATED_COMBINE);
      if (kind === 'receive') {
        lane.push(-1);
        const list = receives.get(peer * n + rank);
        if (list) list.push(base + i);
        else receives.set(peer * n + rank, [base + i]);
        return;
      }
      const known = sends.get(peer) ?? { lane: lanes.from.length + sends.size, moves: [] };
      sends.set(peer, known);
      known.moves.push(base + i);
      lane.push(known.lane);
    });
    for (const [peer, { moves }] of sends) {
      lanes.first.push(lanes.items.length);
      lanes.from.push(rank);
      lanes.to.push(peer);
      for (const move of moves) lanes.items.push(move);
    }
  }
  firstMove.push(fields.rank.length);
  before.first.push(before.items.length);
  lanes.first.push(lanes.items.length);
  const moves = { ...valuesOf(fields), lane: lane.values };
  return {
    n,
    firstMove: firstMove.values,
    ...moves,
    partner: partners(n, moves, valuesOf(lanes), receives),
    before: valuesOf(before),
    after: reversed(valuesOf(before)),
    lanes: valuesOf(lanes),
  };
}

function valuesOf<Key extends string>(lists: Record<Key, Ints>): Record<Key, Int32Array> {
  const values = Object.entries<Ints>(lists).map(([key, list]) => [key, list.values]);
  return Object.fromEntries(values) as Record<Key, Int32Array>;
}

type Moves = Pick<SimulationSchedule, 'step' | 'start' | 'end'>;

/** Matches sends and receives by step: a send and its receive have the same step number. */
function partners(n: number, moves: Moves, lanes: SimulatedSendLanes, receives: Map<number, number[]>): Int32Array {
  const { step, start, end } = moves;
  const partner = new Int32Array(step.length).fill(-1);
  const byStep = (a: number, b: number): number => step[a]! - step[b]!;
  for (const [lane, from] of lanes.from.entries()) {
    const key = from * n + lanes.to[lane]!;
    const sends = lanes.items.slice(lanes.first[lane], lanes.first[lane + 1]).sort(byStep);
    const received = (receives.get(key) ?? []).sort(byStep);
    receives.delete(key);
    sends.forEach((send, i) => {
      const receive = received[i];
      const fits = receive !== undefined && step[receive] === step[send] && received.length === sends.length;
      if (!fits || end[receive]! - start[receive]! !== end[send]! - start[send]!) {
        throw new Error(
          `Rank ${from} sends to rank ${lanes.to[lane]} in step ${step[send]}, but that rank does not receive it.`,
        );
      }
      partner[send] = receive;
    });
  }
  const [alone] = receives.keys();
  if (alone !== undefined) {
    throw new Error(`Rank ${alone % n} receives from rank ${Math.floor(alone / n)}, but that rank does not send.`);
  }
  return partner;
}

/** Returns the inverse relation: list j contains i if list i contains j. */
function reversed({ first, items }: PackedLists): PackedLists {
  const starts = new Int32Array(first.length);
  for (const item of items) starts[item + 1]! += 1;
  for (let i = 1; i < starts.length; i++) starts[i]! += starts[i - 1]!;
  const next = starts.slice();
  const lists = new Int32Array(items.length);
  for (let owner = 0; owner + 1 < first.length; owner++) {
    for (let i = first[owner]!; i < first[owner + 1]!; i++) lists[next[items[i]!]!++] = owner;
  }
  return { first: starts, items: lists };
}

/**
 * A list of int32 that grows. It can hold millions of numbers without an object for each of them.
 */
class Ints {
  #values = new Int32Array(1024);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  push(value: number): void {
    if (this.#length === this.#values.length) {
      const grown = new Int32Array(2 * this.#values.length);
      grown.set(this.#values);
      this.#values = grown;
    }
    this.#values[this.#length++] = value;
  }

  /** All values of the list, not copied. */
  get values(): Int32Array {
    return this.#values.subarray(0, this.#length);
  }
}
