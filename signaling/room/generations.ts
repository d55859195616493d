/**
 * Generations of a run: their members, how a generation begins, and how the server reacts to a
 * failure.
 */
import type { ServerMessage } from '../../src/protocol/control.ts';
import { areNetworkCheckPartners, NETWORK_CHECK_GENERATION } from '../../src/protocol/networkCheck.ts';
import type { RosterEntry } from '../../src/protocol/room.ts';
import { assignRanks } from '../../src/protocol/seating.ts';
import { addBreaks, keptApart } from './edges.ts';
import { recordEnd } from './ending.ts';
import { isOfFeed } from './feeds.ts';
import { latestGeneration, pause } from './pauses.ts';
import { hasBetterOrder, orderOf, type RoutedOrder } from './ringOrder.ts';
import { isServerOnly, upgradesOf, withServed } from './servedPairs.ts';
import { roomMessage, broadcastRoom } from './roomMessage.ts';
import {
  andThen,
  change,
  isOfRing,
  isSuspended,
  nodesOf,
  presentMembers,
  rankOf,
  readyMembers,
  startsWith,
  noEffects,
  toRing,
  trainsOn,
  type Ended,
  type RoomState,
  type Step,
} from './state.ts';
import type { NoticeMessage } from '../../src/protocol/notices.ts';
import type { Reason } from './records.ts';
import { beginProbation, isOnProbation, suspend } from './suspensions.ts';
import { deadlineOf, LINKING_MS, CLEAR_RUN_TIMERS } from './timers.ts';

/**
 * Maximum number of further attempts with the same members. If the last attempt fails, the run
 * ends.
 */
export const MAX_RETRIES = 5;
/** Maximum number of better orders that the same ranks try, one after another. */
const MAX_REORDERS = 4;
/**
 * Maximum number of better orders in a run in which no two browsers have linked directly: then
 * probably none of them can.
 */
const MAX_VAIN_REORDERS = 2;

/**
 * Does what is due without a further request: starts, grows, pauses or resumes a run. If nothing is
 * due, it broadcasts the room.
 */
export function settle(state: RoomState): Step {
  // Other members may be training, so a restored room must not begin a run or a generation yet.
  if (state.isRestoring && state.ring.length === 0) return broadcastRoom(state);
  switch (state.phase) {
    case 'FORMING': {
      const enough = startsWith(state);
      const present = enough === null ? undefined : choicesOf(state).find(({ length }) => length >= enough);
      if (enough === null || present === undefined) return broadcastRoom(state);
      // The run begins with exactly `enough` members. Requested ranks are below this number, so
      // every member can have its rank.
      return beginRun(state, seated(state, present.slice(0, enough)));
    }
    case 'RUNNING':
      // In a room that is being restored, the host's pause takes effect when the members have
      // returned. Until then, `grow` only broadcasts the room.
      return state.isPausedByHost && !state.isRestoring ? reform(state) : grow(state);
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
 * Returns three sets of members that may begin a run, the best first: those that are neither
 * suspended nor on probation; those that are not suspended; all members.
 */
export function choicesOf(state: RoomState): RosterEntry[][] {
  const ready = readyMembers(state);
  const known = ready.filter(({ member }) => nodesOf(state) === null || !isOnProbation(state, member));
  const suspended = presentMembers(state).filter(({ member }) => isSuspended(state, member));
  return [known, ready, [...ready, ...suspended]];
}

/**
 * Returns the ring of a new run. Members have the ranks that they requested. The other members have
 * the remaining ranks in the given order, up to the maximum number of ranks.
 */
export function seated(state: RoomState, members: readonly RosterEntry[]): RosterEntry[] {
  const ring = assignRanks(members).filter((m) => m !== null);
  return ring.slice(0, nodesOf(state)?.max);
}

/**
 * Begins a run. The members of `ring` are ready and fit together. Other members stay in the room
 * and wait.
 */
export function beginRun(state: RoomState, ring: readonly RosterEntry[]): Step {
  const run = Math.max(state.run + 1, state.numbersFrom);
  const fresh = {
    startAt: null,
    membersWithState: new Set<string>(),
    retries: 0,
    beganAt: 0,
    isCooling: false,
    isPausedByHost: false,
    faults: [],
    unlinked: isServerOnly(state) ? state.unlinked : [],
    unproven: [],
    unrelayed: [],
    kept: [],
    upgrades: new Map<string, number>(),
    reorders: 0,
    linked: [],
    isTraining: false,
    separated: [],
  };
  return beginGeneration({ ...state, ...fresh, run }, { ring: [...ring], relayed: [], served: [] });
}

/**
 * Begins another generation after members joined, left or became unreachable. It includes all ready
 * members; the ranks of the previous generation come first. Members in `later` and newcomers on
 * probation are included only if there are too few others. With `isGrowth`, newcomers on probation
 * are always included: the old generation trains while they link, so their failure costs little.
 * The run is paused instead if there are too few members, if none of them has the state, or if the
 * host paused the run.
 */
export function reform(state: RoomState, later: ReadonlySet<string> = new Set(), isGrowth = false): Step {
  const nodes = nodesOf(state);
  if (nodes === null) return broadcastRoom(state);
  const { members: here, membersWithState, hidden, run } = state;
  const hasLatest = ({ member }: RosterEntry): boolean =>
    membersWithState.has(member) && hidden.get(member)?.stateOfRun === run;
  const mayHaveLatest = (one: RosterEntry): boolean =>
    hasLatest(one) || (membersWithState.has(one.member) && hidden.get(one.member)?.stateOfRun === undefined);
  // Members that have the latest state, or have not yet reported whether they have it. They are
  // included even while they are away, because they may soon return. Newcomers that are away are
  // not included.
  const waiting = here.filter((one) => mayHaveLatest(one) && !isSuspended(state, one.member));
  const rescuers = here.filter((one) => waiting.length === 0 && one.device && hasLatest(one));
  const before = state.phase === 'PAUSED' ? waiting : state.ring;
  const stayed = before.flatMap(({ member }) => here.filter((m) => m.member === member && m.device));
  const came = newcomers(state).filter((m) => !stayed.includes(m));
  // It is better to include a suspended rank than to continue without the run's state.
  const all = [...rescuers, ...stayed, ...came];
  const isOnTrial = (one: RosterEntry): boolean => !isGrowth && came.includes(one) && isOnProbation(state, one.member);
  const sooner = all.filter((one) => !later.has(one.member) && !isOnTrial(one));
  const members = (sooner.length < nodes.min ? all : sooner).slice(0, nodes.max);
  const hasState = members.some(hasLatest);
  // A run that has not trained yet needs no state to continue.
  if (state.isPausedByHost) return pause(state, hasState || (membersWithState.size === 0 && members.length > 0));
  const order = orderOf(state, members);
  const { culprits } = order;
  if (culprits.length > 0) {
    const reasons = keepingState(state, members, new Map(culprits.map(({ member }) => [member, 'unstable'])));
    return andThen(suspend({ ...state, retries: 0 }, reasons), (next) => reform(next, later, isGrowth));
  }
  if (members.length < nodes.min || (membersWithState.size > 0 && !hasState)) return pause(state, hasState);
  return beginGeneration(state, order);
}

/** Tries the same members again, because this generation failed and no member is at fault. */
export function retry(state: RoomState, why: string): Step {
  if (state.phase === 'SYNCING') {
    const tried = tryNewcomers(state, state.ring);
    if (tried !== null) return andThen(tried, reform);
  }
  if (state.retries < MAX_RETRIES) return reform({ ...state, retries: state.retries + 1 });
  const untried = withoutState(state, state.ring);
  // The members with the run's state have already trained together, without the newcomers. So the
  // newcomers probably cause the failures, and are suspended.
  if (untried.size > 0) return andThen(suspend({ ...state, retries: 0 }, untried), reform);
  return end(state, 'failed', `The run ended after ${MAX_RETRIES} attempts to continue: ${why}`);
}

/**
 * Returns the members to suspend. These are the `proposed` members. But if `proposed` contains all
 * members with the run's state, the members without the state are suspended instead, if there are
 * any.
 */
export function keepingState(
  state: RoomState,
  members: readonly RosterEntry[],
  proposed: ReadonlyMap<string, Reason>,
): ReadonlyMap<string, Reason> {
  const isLost = members.every(({ member }) => !state.membersWithState.has(member) || proposed.has(member));
  const untried = withoutState(state, members);
  return proposed.size > 0 && isLost && untried.size > 0 ? untried : proposed;
}

/** Returns the members without the run's state, if other members have it. */
function withoutState({ membersWithState }: RoomState, members: readonly RosterEntry[]): ReadonlyMap<string, Reason> {
  const untried = members.filter(({ member }) => !membersWithState.has(member));
  return new Map(untried.length < members.length ? untried.map(({ member }) => [member, 'failing']) : []);
}

/**
 * Decides about the newcomers among `members` after SYNCING with them failed: during SYNCING, the
 * other ranks cannot train. A newcomer with which SYNCING failed before is suspended; the others
 * are tried once more. Returns `null` if there are no newcomers.
 */
export function tryNewcomers(state: RoomState, members: readonly RosterEntry[]): Step | null {
  const isNew = withoutState(state, state.ring);
  const tried = new Map(members.flatMap(({ member }) => (isNew.has(member) ? [[member, isNew.get(member)!]] : [])));
  if (tried.size === 0) return null;
  const again = new Map([...tried].filter(([member]) => isOnProbation(state, member)));
  return again.size > 0 ? suspend({ ...state, retries: 0 }, again) : beginProbation(state, tried);
}

function newcomers(state: RoomState): RosterEntry[] {
  return readyMembers(state).filter(({ member }) => rankOf(state, member) < 0);
}

/** Adds newcomers to the run, unless others were added a moment ago. */
function grow(state: RoomState): Step {
  return canGrow(state) ? reform({ ...state, retries: 0 }, new Set(), true) : broadcastRoom(state);
}

function canGrow(state: RoomState): boolean {
  const nodes = nodesOf(state);
  if (nodes === null || state.isCooling || state.isRestoring || state.ring.length >= nodes.max) return false;
  return newcomers(state).length > 0;
}

/**
 * Called when a generation has trained for some time: adds newcomers, or changes to a better order
 * or to direct connections. The ranks train while they link.
 */
export function onGrow(state: RoomState): Step {
  const next = { ...state, isCooling: false };
  if (state.phase !== 'RUNNING') return noEffects(next);
  if (canGrow(next) || !isQuiet(next)) return grow(next);
  if (canReorder(next)) return reform({ ...next, retries: 0, reorders: next.reorders + 1 });
  return upgradesOf(next).length > 0 ? reform({ ...next, retries: 0 }) : broadcastRoom(next);
}

/**
 * Whether the ranks may change their links. They may not if the generation is about to end because
 * of a failure, or because ranks have finished.
 */
function isQuiet(state: RoomState): boolean {
  const { isRestoring, complaints, reports } = state;
  return nodesOf(state) !== null && !isRestoring && complaints.size === 0 && reports.size === 0;
}

/** Whether the ranks may change to a better order once {@link isQuiet}. */
function canReorder(state: RoomState): boolean {
  const most = state.direct.length > 0 ? MAX_REORDERS : MAX_VAIN_REORDERS;
  return state.reorders < most && hasBetterOrder(state);
}

function beginGeneration(state: RoomState, { ring, relayed, served }: Omit<RoutedOrder, 'culprits'>): Step {
  const areSame = ring.length === state.ring.length && ring.every(({ member }) => rankOf(state, member) >= 0);
  const generation = Math.max(latestGeneration(state) + 1, state.numbersFrom);
  let next: RoomState = {
    ...state,
    phase: 'LINKING',
    generation,
    ring,
    relayed,
    served,
    kept: [],
    upgrades: addBreaks(state.upgrades, upgradesOf(state)),
    reorders: areSame || state.direct.length === 0 ? state.reorders : 0,
    reports: new Map(),
    complaints: new Map(),
    slowReporters: new Set<string>(),
    begun: new Set<string>(),
    isRestoring: false,
    isAbandoned: false,
    isTraining: trainsOn(state, ring),
  };
  next = withServed(next);
  for (const { member } of ring) next = change(next, member, { hasRun: true, isSuspended: false });
  return {
    state: next,
    effects: [...CLEAR_RUN_TIMERS, roomMessage(next), toRing(next, prepareOf(next)), deadlineOf(next, LINKING_MS)],
  };
}

/** Returns the `prepare` message of the latest generation. */
export function prepareOf({ generation, run, ring, job, relayed, separated, served }: RoomState): ServerMessage {
  const kept = keptApart(ring, separated);
  return {
    type: 'prepare',
    generation,
    run,
    members: [...ring],
    job,
    relayed: relayed.map(([a, b]) => [a, b]),
    separated: kept,
    served: served.map(([a, b]) => [a, b]),
  };
}

/**
 * Whether two members of the room may link to each other under this number: both are ranks of the
 * latest generation, or they are the two ends of a feed.
 */
export function mayLink(state: RoomState, generation: number, member: string, peer: string): boolean {
  if (!state.hidden.has(member) || !state.hidden.has(peer)) return false;
  if (state.isCheck)
    return generation === NETWORK_CHECK_GENERATION && areNetworkCheckPartners(state.members, member, peer);
  return isOfRing(state, generation, member, peer) || isOfFeed(state, generation, member, peer);
}

/** Records that another generation must begin when all members of a restored room have returned. */
export function requestNextGeneration(state: RoomState): RoomState {
  return { ...state, highestReported: Math.max(state.highestReported, state.generation + 1) };
}

/** Ends the run. If the room starts runs by itself, the next run begins immediately. */
export function end(state: RoomState, outcome: Ended['outcome'], why: string | NoticeMessage): Step {
  const news = typeof why === 'string' ? { message: why } : why;
  return andThen(recordEnd({ ...state, isRestoring: false }, outcome, news), settle);
}
