/**
 * Members that come back: of a lost connection, or to a server that has restarted and has to learn
 * from them what went on. Until all have returned such a room is in doubt, and begins nothing that
 * could be going on elsewhere.
 */
import type { Refusal, ServerMessage } from '../../src/protocol/control.ts';
import type { RosterEntry, ReconnectState } from '../../src/protocol/room.ts';
import { backToForming, end, needAnother, over, pauseOf, prepareOf, reform, settle, tellPause } from './generations.ts';
import { enter, left } from './members.ts';
import { watch } from './spectators.ts';
import {
  andThen,
  change,
  createRoom,
  isAway,
  isRunOn,
  isSpectator,
  nodesOf,
  rankOf,
  refuse,
  stay,
  tellRoom,
  withEffects,
  withRemoved,
  type LeaveReason,
  type RoomEffect,
  type RoomEvent,
  type RoomOptions,
  type RoomState,
  type Step,
} from './state.ts';

/**
 * Milliseconds members may take to return after a restart: they come one by one, so that they do
 * not all knock at once.
 */
export const RESTORE_MS = 15_000;

const DOUBTS: RoomEffect = { type: 'setTimer', key: 'doubts', ms: RESTORE_MS, event: { type: 'doubts' } };
/**
 * By how much members may remember a later run or generation than a room's `numbersFrom`, which are
 * seconds: clocks of servers differ. A claim that is far off would leave no numbers for what is to
 * come.
 */
const CLOCK_SKEW_S = 24 * 60 * 60;
/** For those who ask after a run of which nothing else is known. */
const OVER = { outcome: 'stopped', message: 'This run was over when the server heard of this tab again.' } as const;
const IMPOSSIBLE = 'What this tab remembers cannot have been in this room: join it again.';
const REMOVED = 'The host has sent this tab out of the room: ask to be let in again.';
const INTERRUPTED = 'The server has restarted while the run began, so it is over: start it again.';

/**
 * A room that a returning member remembers, after a restart of the server: what went on in it,
 * members have to say.
 *
 * @param numbersFrom greater than any run's or generation's number that there has been: not all who
 *   heard of one may return.
 */
export function restore(
  { removed, ...settings }: ReconnectState['settings'],
  options: Omit<RoomOptions, keyof ReconnectState['settings']>,
  numbersFrom: number,
): RoomState {
  return {
    ...createRoom({ ...options, ...settings }),
    ...settings,
    ...{ removed: new Set(removed?.members), isDoubtful: true, numbersFrom },
  };
}

/**
 * A member is back: of a connection that was lost, of a server that has restarted, or of a room
 * that has let it go.
 */
export function reconnect(state: RoomState, event: Extract<RoomEvent, { type: 'reconnect' }>): Step {
  // Only what a server has signed gets here.
  const members = event.reconnectState.settings.removed?.members ?? [];
  const known = { ...state, removed: members.reduce(withRemoved, state.removed) };
  let step = known.removed.has(event.member) ? refuse(known, event.member, 'removed', REMOVED) : readmit(known, event);
  // They may have come back before anybody who knew.
  for (const member of members.filter((one) => step.state.hidden.has(one))) {
    step = andThen(step, (next) => turnAway(next, member, 'removed', 'removed', REMOVED));
  }
  return step;
}

function readmit(state: RoomState, event: Extract<RoomEvent, { type: 'reconnect' }>): Step {
  const { member, browser, holdsKey } = event;
  const reconnectState = ownReconnectState(event);
  // It has no say in what went on.
  if (isSpectator(state, member) || (event.isSpectator && !state.hidden.has(member))) {
    const timers = state.isDoubtful && state.members.length === 0 ? [DOUBTS] : [];
    return withEffects(watch(state, member, event), ...timers);
  }
  if (state.isDoubtful && latestOf(reconnectState) > state.numbersFrom + CLOCK_SKEW_S) {
    return turnAway(state, member, 'dropped', 'not-member', IMPOSSIBLE);
  }
  const past = overBy(state, reconnectState);
  if (past !== null) {
    // Others may have missed its end, and still wait.
    return andThen(over({ ...state, run: past }, OVER.outcome, OVER.message), (next) => readmit(next, event));
  }
  const known = learn(state, member, reconnectState);
  const timers = state.isDoubtful ? absences(state, known) : [];
  if (!known.hidden.has(member)) {
    const entered = enter(known, member, event);
    // Whoever is refused has no say: the members that it spoke of might never come.
    if (!entered.state.hidden.has(member)) return { state, effects: entered.effects };
    const [admit, ...news] = entered.effects;
    // A member that hears of the next run first, and then loses its connection, would not know that
    // its own run is over.
    return { state: entered.state, effects: [admit!, ...catchUp(entered.state, event), ...news, ...timers] };
  }
  const trains = reconnectState.active?.isSteady ? { holds: reconnectState.run } : {};
  const next = change(known, member, { isAway: false, browser, holdsKey, ...trains });
  return withEffects(
    andThen(stay(next), dispelDoubts),
    ...timers,
    { type: 'clearTimer', key: `away ${member}` },
    { type: 'admit', member },
    ...catchUp(next, event),
  );
}

/**
 * The reconnectState of a member, without a generation that it was no rank of: ranks know each
 * other, and nobody else.
 */
function ownReconnectState({ member, reconnectState }: Extract<RoomEvent, { type: 'reconnect' }>): ReconnectState {
  const isRank = reconnectState.active?.ring.some((rank) => rank.member === member) ?? false;
  return isRank ? reconnectState : { ...reconnectState, active: null };
}

/** Highest number that a returning member has for a run or a generation. */
function latestOf({ run, generation, active }: ReconnectState): number {
  return Math.max(run, generation, active?.generation ?? 0);
}

/** Somebody who is not to be here goes, if it is here. */
function turnAway(state: RoomState, member: string, reason: LeaveReason, code: Refusal, message: string): Step {
  const gone = state.hidden.has(member) ? left(state, member, reason) : stay(state);
  return withEffects(
    andThen(gone, (next) => (next.isDoubtful ? dispelDoubts(next) : stay(next))),
    { type: 'expel', member, code, message },
  );
}

/**
 * Until a restart is forgotten: the run that is over by what a returning member says, and not known
 * to be.
 */
function overBy({ isDoubtful, run, ended }: RoomState, reconnectState: ReconnectState): number | null {
  if (!isDoubtful || reconnectState.run < run) return null;
  if (reconnectState.run > run && run > 0 && ended?.run !== run) return run;
  return !reconnectState.isRunOn && reconnectState.run > 0 && ended?.run !== reconnectState.run
    ? reconnectState.run
    : null;
}

/**
 * What members who return say of the time before a restart: who heard of the later run, or
 * generation of it, knows better.
 */
function learn(
  state: RoomState,
  member: string,
  { run, isRunOn: isOn, generation, active }: ReconnectState,
): RoomState {
  // A room that has no doubts knows its own generations, and that there may have been others before
  // `numbersFrom`.
  const possible = state.isDoubtful ? generation : Math.min(generation, Math.max(state.generation, state.numbersFrom));
  const known = { ...state, heardOf: Math.max(state.heardOf, possible) };
  const { phase, holders } = state;
  if (!state.isDoubtful && phase === 'PAUSED' && state.generation < state.numbersFrom && isOn && run === state.run) {
    // It is late, and nothing has begun without it: it may have the state as well as those who were
    // in time.
    return { ...known, holders: new Set(holders).add(member) };
  }
  if (!state.isDoubtful || run < state.run || state.ended?.run === run) return known;
  if (!isOn) return known;
  const room: RoomState = { ...(run > state.run ? backToForming(known) : known), run, isHeld: state.isHeld };
  if (active !== null && active.generation > room.generation) return recall(room, active);
  // It is a rank, and not where the others are.
  if (rankOf(room, member) >= 0 && active?.generation !== room.generation) return needAnother(room);
  // Nobody trains, for all that is known; whether somebody has the state, each of them says.
  if (room.ring.length > 0 || nodesOf(room) === null) return room;
  return { ...room, phase: 'PAUSED', holders: new Set(room.holders).add(member) };
}

/**
 * The room in a generation that goes on without a server; each of its members has a while to
 * return.
 */
function recall(room: RoomState, { generation, ring, isSteady }: NonNullable<ReconnectState['active']>): RoomState {
  const hidden = new Map(room.hidden);
  const members: RosterEntry[] = room.members.map((m) => ring.find((rank) => rank.member === m.member) ?? m);
  for (const entry of ring) {
    if (hidden.has(entry.member)) continue;
    members.push(entry);
    const known = {
      ...{
        browser: undefined,
        worldSize: undefined,
        hasRun: true,
        hasEntered: true,
        holdsKey: false,
        isSuspended: false,
      },
    };
    // In a generation that has not begun some may have no state yet.
    hidden.set(entry.member, { ...known, isAway: true, holds: isSteady ? room.run : undefined });
  }
  const recalled: RoomState = {
    ...{ ...room, phase: 'RUNNING', generation, ring, relayed: [], reports: new Map() },
    ...{ members, hidden, holders: new Set(ring.map((m) => m.member)) },
  };
  // Ranks that have returned before did not speak of it: they are not in it, or not any more.
  const isWhole = ring.every(({ member }) => !room.hidden.has(member) || isAway(room, member));
  return isSteady && isWhole ? recalled : needAnother(recalled);
}

/** What a returning member may have missed; hearing it twice does no harm. */
function catchUp(
  state: RoomState,
  { member, reconnectState }: Extract<RoomEvent, { type: 'reconnect' }>,
): RoomEffect[] {
  const { generation, phase, run, ended, isDoubtful, heardOf } = state;
  const told: ServerMessage[] = [];
  const isItsRunOn = isRunOn(state) && run === reconnectState.run;
  const mayBeOn = isItsRunOn || (isDoubtful && reconnectState.run >= run && reconnectState.run > (ended?.run ?? 0));
  if (reconnectState.isRunOn && !mayBeOn) {
    told.push({ type: 'ended', ...(ended?.run === reconnectState.run ? ended : { run: reconnectState.run, ...OVER }) });
  }
  if (phase === 'PAUSED' && !isDoubtful) {
    told.push(pauseOf(state));
  }
  if (rankOf(state, member) >= 0) {
    if (reconnectState.active?.generation !== generation) {
      told.push(prepareOf(state));
      if (phase !== 'LINKING') told.push({ type: 'sync', generation });
    }
    // A generation that only its members speak of may not have begun on all of them.
    if (phase === 'RUNNING' && !(isDoubtful && heardOf > generation)) told.push({ type: 'go', generation });
  }
  return told.map((message) => ({ type: 'send', to: [member], message }));
}

/** Somebody is back. Once all have returned it shows whether they train in the same generation. */
export function dispelDoubts(state: RoomState): Step {
  if (!state.isDoubtful) return settle(state);
  if (state.ring.length === 0 || state.ring.some(({ member }) => isAway(state, member))) return tellRoom(state);
  const known = { ...state, isDoubtful: false };
  if (known.heardOf <= known.generation) return settle(known);
  // The server stopped while it made another generation.
  return nodesOf(known) === null ? end(known, 'failed', INTERRUPTED) : reform(known);
}

/** Whoever was in a generation that is still on would have returned. */
export function onDoubts(state: RoomState): Step {
  if (!state.isDoubtful) return stay(state);
  // Those who are still to return have timers of their own.
  if (state.ring.length > 0) return { state, effects: [DOUBTS] };
  const known = { ...state, isDoubtful: false, isHeld: state.isHeld && isRunOn(state) };
  const isLost = state.phase === 'FORMING' && state.run > 0 && state.ended?.run !== state.run;
  if (isLost) return end(known, 'failed', INTERRUPTED);
  // Some may be in the middle of a generation that nobody else speaks of.
  return andThen(settle(known), tellPause);
}

/** Timers of those who have not returned, as far as `after` has more of them than `before`. */
function absences(before: RoomState, after: RoomState): RoomEffect[] {
  const timers: RoomEffect[] = [];
  if (before.members.length === 0) {
    timers.push(DOUBTS);
  }
  for (const { member } of after.members) {
    if (before.hidden.has(member)) continue;
    const event = { type: 'missed', member } as const;
    timers.push({ type: 'setTimer', key: `away ${member}`, ms: RESTORE_MS, event });
  }
  return timers;
}
