/** Generations of a run: how one begins, with which members, and what follows when one fails. */
import type { RosterEntry, ServerMessage } from '../../src/protocol/control.ts';
import { seats } from '../../src/protocol/seating.ts';
import { keptApart } from './edges.ts';
import { over } from './ending.ts';
import { latestGeneration, pause } from './pauses.ts';
import { orderOf } from './ringOrder.ts';
import {
  andThen,
  change,
  isSuspended,
  nodesOf,
  presentMembers,
  rankOf,
  readyMembers,
  roomMessage,
  startsWith,
  noEffects,
  broadcastRoom,
  toRing,
  type Ended,
  type RoomState,
  type Step,
} from './state.ts';
import { isOnProbation, suspend } from './suspensions.ts';
import { deadlineOf, LINKING_MS, NO_TIMERS } from './timers.ts';

/** Generations tried in a row with the same members before the run is given up. */
export const MAX_RETRIES = 5;

/**
 * A room as it has become: starts, grows or goes on by itself where it can, else everybody is told.
 */
export function settle(state: RoomState): Step {
  // Others may be training: what this room believes it could do, it must not do beside them.
  if (state.isRestoring && state.ring.length === 0) return broadcastRoom(state);
  switch (state.phase) {
    case 'FORMING': {
      const enough = startsWith(state);
      const present = enough === null ? undefined : choicesOf(state).find(({ length }) => length >= enough);
      if (enough === null || present === undefined) return broadcastRoom(state);
      // No more than it waited for: their ranks are all below `startAt`, so they fit.
      return beginRun(state, seated(state, present.slice(0, enough)));
    }
    case 'RUNNING':
      // Of a room that was made anew: its members have not heard of the pause.
      return state.isHeld && !state.isRestoring ? reform(state) : grow(state);
    case 'PAUSED':
      return reform(state);
    case 'LINKING':
    case 'SYNCING':
      return broadcastRoom(state);
    default:
      return state.phase satisfies never;
  }
}

/**
 * The members that may begin a run, the best choice first: others need not wait while those who
 * were suspended are tried. Each choice has all members of the one before.
 */
export function choicesOf(state: RoomState): RosterEntry[][] {
  const ready = readyMembers(state);
  const known = ready.filter(({ member }) => nodesOf(state) === null || !isOnProbation(state, member));
  const suspended = presentMembers(state).filter(({ member }) => isSuspended(state, member));
  return [known, ready, [...ready, ...suspended]];
}

/**
 * The ring of a new run. Who asked for a rank has it, the others come in the order given, as many
 * as may be.
 */
export function seated(state: RoomState, members: readonly RosterEntry[]): RosterEntry[] {
  const ring = seats(members).filter((m) => m !== null);
  return ring.slice(0, nodesOf(state)?.max);
}

/**
 * A new run with a ring of members that are ready and fit together. Who is left out stays in the
 * room and waits.
 */
export function beginRun(state: RoomState, ring: readonly RosterEntry[]): Step {
  const run = Math.max(state.run + 1, state.numbersFrom);
  const fresh = {
    startAt: null,
    holders: new Set<string>(),
    retries: 0,
    isCooling: false,
    isHeld: false,
    faults: [],
    unlinked: [],
    parted: [],
  };
  return beginGeneration({ ...state, ...fresh, run }, ring, []);
}

/**
 * Somebody came, went, or cannot be reached: another generation of all that are ready, ranks of the
 * last one first; or a pause, where they are too few or the host holds the run. `later`: newcomers
 * that need not come in now. So are those who were suspended before, unless this is for newcomers:
 * while these are tried the others train.
 */
export function reform(state: RoomState, later: ReadonlySet<string> = new Set(), isGrowth = false): Step {
  const nodes = nodesOf(state);
  if (nodes === null) return broadcastRoom(state);
  const { members: here, holders, hidden, run } = state;
  const hasLatest = ({ member }: RosterEntry): boolean => holders.has(member) && hidden.get(member)?.holds === run;
  const mayHaveLatest = (one: RosterEntry): boolean =>
    hasLatest(one) || (holders.has(one.member) && hidden.get(one.member)?.holds === undefined);
  // A rank may well be back in time, and a step ahead of the others; a newcomer that is away is
  // waited for by nobody.
  const waiting = here.filter((one) => mayHaveLatest(one) && !isSuspended(state, one.member));
  const before = state.phase === 'PAUSED' ? waiting : state.ring;
  const stayed = before.flatMap(({ member }) => here.filter((m) => m.member === member && m.device));
  const came = newcomers(state).filter((m) => !stayed.includes(m));
  const all = [...stayed, ...came];
  const isOnTrial = (one: RosterEntry): boolean => !isGrowth && came.includes(one) && isOnProbation(state, one.member);
  const sooner = all.filter((one) => !later.has(one.member) && !isOnTrial(one));
  const members = (sooner.length < nodes.min ? all : sooner).slice(0, nodes.max);
  const hasState = members.some(hasLatest);
  // A run that has not trained yet needs no state to go on.
  if (state.isHeld) return pause(state, hasState || (holders.size === 0 && members.length > 0));
  const { ring, relayed, culprits } = orderOf(state, members);
  if (culprits.length > 0) {
    const reasons = new Map(culprits.map(({ member }) => [member, 'unstable' as const]));
    return andThen(suspend({ ...state, retries: 0 }, reasons), (next) => reform(next, later, isGrowth));
  }
  if (members.length < nodes.min || (holders.size > 0 && !hasState)) return pause(state, hasState);
  return beginGeneration(state, ring, relayed);
}

/** The same members once more: nobody is to blame, but this generation cannot go on. */
export function retry(state: RoomState, why: string): Step {
  if (state.retries < MAX_RETRIES) return reform({ ...state, retries: state.retries + 1 });
  const { ring, holders } = state;
  const untried = ring.filter(({ member }) => holders.size > 0 && !holders.has(member));
  if (untried.length > 0 && untried.length < ring.length) {
    // The others trained without them.
    const reasons = new Map(untried.map(({ member }) => [member, 'failing' as const]));
    return andThen(suspend({ ...state, retries: 0 }, reasons), reform);
  }
  return end(state, 'failed', `The run ended after ${MAX_RETRIES} attempts to go on: ${why}`);
}

function newcomers(state: RoomState): RosterEntry[] {
  return readyMembers(state).filter(({ member }) => rankOf(state, member) < 0);
}

/** Lets newcomers in, unless others have just come. */
function grow(state: RoomState): Step {
  const nodes = nodesOf(state);
  if (nodes === null || state.isCooling || state.isRestoring || state.ring.length >= nodes.max)
    return broadcastRoom(state);
  return newcomers(state).length > 0 ? reform({ ...state, retries: 0 }, new Set(), true) : broadcastRoom(state);
}

export function onGrow(state: RoomState): Step {
  const next = { ...state, isCooling: false };
  return state.phase === 'RUNNING' ? grow(next) : noEffects(next);
}

function beginGeneration(state: RoomState, ring: readonly RosterEntry[], relayed: readonly [string, string][]): Step {
  const generation = Math.max(latestGeneration(state) + 1, state.numbersFrom);
  let next: RoomState = {
    ...{ ...state, phase: 'LINKING', generation, ring, relayed, reports: new Map(), complaints: new Map() },
    ...{ begun: new Set<string>(), isRestoring: false, isAbandoned: false },
  };
  for (const { member } of ring) next = change(next, member, { hasRun: true, isSuspended: false });
  return {
    state: next,
    effects: [...NO_TIMERS, roomMessage(next), toRing(next, prepareOf(next)), deadlineOf(next, LINKING_MS)],
  };
}

/** The latest generation, as its members hear of it. */
export function prepareOf({ generation, run, ring, job, relayed, parted }: RoomState): ServerMessage {
  const kept = keptApart(ring, parted);
  return {
    type: 'prepare',
    generation,
    run,
    members: [...ring],
    job,
    relayed: relayed.map(([a, b]) => [a, b]),
    parted: kept,
  };
}

/**
 * While members of a restored room are still on their way back: another generation is due once they
 * are here.
 */
export function needAnother(state: RoomState): RoomState {
  return { ...state, highestReported: Math.max(state.highestReported, state.generation + 1) };
}

/**
 * The run is over; the room waits for the next, and begins it at once where it starts by itself.
 */
export function end(state: RoomState, outcome: Ended['outcome'], message: string): Step {
  return andThen(over({ ...state, isRestoring: false }, outcome, message), settle);
}
