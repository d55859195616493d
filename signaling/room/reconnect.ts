/**
 * Members that reconnect after a lost connection, or to a restarted server that restores the room
 * from their states. Until all have returned, the room is restoring: it begins no run or
 * generation, because members that have not returned may still be training.
 */
import { englishNoticeMessageOf } from '../../src/protocol/notices.ts';
import type { RefusalCode, ServerMessage } from '../../src/protocol/control.ts';
import type { RosterEntry, ReconnectReport } from '../../src/protocol/room.ts';
import { backToForming, recordEnd } from './ending.ts';
import { end, requestNextGeneration, prepareOf, reform, settle } from './generations.ts';
import { pauseOf, sendPause } from './pauses.ts';
import { enter, removeMember } from './members.ts';
import { admitSpectator } from './spectators.ts';
import { broadcastRoom } from './roomMessage.ts';
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
  noEffects,
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
 * Members have at least this many milliseconds to return after a restart. They spread their
 * attempts over this time. If a member on a busy line needs more time, all members get this time,
 * because they may share the line.
 */
export const RESTORE_MS = 15_000;

const RESTORE_TIMER = {
  type: 'setTimer',
  key: 'restore-timeout',
  ms: RESTORE_MS,
  event: { type: 'restore-timeout' },
} as const satisfies RoomEffect;
/**
 * Maximum by which a member's run or generation may exceed the room's `numbersFrom`. `numbersFrom`
 * is a time in seconds, and the clocks of servers differ. A much higher number would leave no
 * numbers for the future.
 */
const CLOCK_SKEW_S = 24 * 60 * 60;
/** Outcome of a run if the server does not know how the run ended. */
const OVER = { outcome: 'stopped', ...englishNoticeMessageOf({ code: 'missed-end' }) } as const;
const IMPOSSIBLE = 'The state of this tab does not fit this room. Join the room again.';
const REMOVED = 'The host has removed this tab from the room. Ask the host to let you join again.';
const INTERRUPTED = 'The server restarted while the run began, so the run has ended. Start it again.';

/**
 * Restores a room from a returning member's state after a restart of the server. The run and the
 * generation follow later, when each member that reconnects reports them.
 * @param numbersFrom a number that is greater than those of all earlier runs and generations. The
 * members' reports do not suffice, because the members that have seen the highest numbers may not
 * return.
 */
export function restore(
  { removed, ...settings }: ReconnectReport['settings'],
  options: Omit<RoomOptions, keyof ReconnectReport['settings']>,
  numbersFrom: number,
): RoomState {
  return {
    ...createRoom({ ...options, ...settings }),
    ...settings,
    removed: new Set(removed?.members),
    isRestoring: true,
    numbersFrom,
  };
}

/**
 * Handles a member or spectator that returns: after a lost connection, to a restarted server, or to
 * a room that had removed it as gone.
 */
export function reconnect(state: RoomState, event: Extract<RoomEvent, { type: 'reconnect' }>): Step {
  // The connection has checked that a server signed this list of removed members.
  const members = event.reconnectState.settings.removed?.members ?? [];
  const known = { ...state, removed: members.reduce(withRemoved, state.removed) };
  let step = known.removed.has(event.member) ? refuse(known, event.member, 'removed', REMOVED) : readmit(known, event);
  // Removed members may have returned before this member, which knows of their removal. Such
  // members are removed again.
  for (const member of members.filter((one) => step.state.hidden.has(one))) {
    step = andThen(step, (next) => expel(next, member, 'removed', 'removed', REMOVED));
  }
  return step;
}

function readmit(state: RoomState, event: Extract<RoomEvent, { type: 'reconnect' }>): Step {
  const { member, browser, holdsKey } = event;
  const reconnectState = ownReconnectState(event);
  // Spectators report nothing about the run.
  if (isSpectator(state, member) || (event.isSpectator && !state.hidden.has(member))) {
    const timers = state.isRestoring && state.members.length === 0 ? [RESTORE_TIMER] : [];
    return withEffects(admitSpectator(state, member, event), ...timers);
  }
  if (state.isRestoring && latestOf(reconnectState) > state.numbersFrom + CLOCK_SKEW_S) {
    return expel(state, member, 'dropped', 'not-member', IMPOSSIBLE);
  }
  const past = endedRun(state, reconnectState);
  if (past !== null) {
    // The run that this member saw end is ended for all: other members may have missed its end and
    // still wait for it.
    return andThen(recordEnd({ ...state, run: past }, OVER.outcome, OVER), (next) => readmit(next, event));
  }
  const known = applyReconnectState(state, member, reconnectState);
  const timers = state.isRestoring ? absenceTimers(state, known, reconnectState.lateMs) : [];
  if (!known.hidden.has(member)) {
    const entered = enter(known, member, event);
    // The report of a refused member is ignored, because the members that it named might never
    // return.
    if (!entered.state.hidden.has(member)) return { state, effects: entered.effects };
    const [admit, ...others] = entered.effects;
    // The end of the member's own run is sent first. If it were sent later, the member could
    // receive the next run, lose its connection, and never know that its own run has ended.
    return { state: entered.state, effects: [admit!, ...missedMessages(entered.state, event), ...others, ...timers] };
  }
  const trains = reconnectState.active?.isSteady ? { stateOfRun: reconnectState.run } : {};
  const next = change(known, member, { isAway: false, browser, holdsKey, ...trains });
  return withEffects(
    andThen(noEffects(next), finishRestore),
    ...timers,
    { type: 'clearTimer', key: `away ${member}` },
    { type: 'admit', member },
    ...missedMessages(next, event),
  );
}

/**
 * Returns the state that the member reports. If the member was not a rank of the reported
 * generation, this generation is left out, because only ranks of a generation can report it.
 */
function ownReconnectState({ member, reconnectState }: Extract<RoomEvent, { type: 'reconnect' }>): ReconnectReport {
  const isRank = reconnectState.active?.ring.some((rank) => rank.member === member) ?? false;
  return isRank ? reconnectState : { ...reconnectState, active: null };
}

/** Returns the largest of all run and generation numbers that a returning member knows. */
function latestOf({ run, generation, active }: ReconnectReport): number {
  return Math.max(run, generation, active?.generation ?? 0);
}

/** Removes a member if it is in the room. */
function expel(state: RoomState, member: string, reason: LeaveReason, code: RefusalCode, message: string): Step {
  const gone = state.hidden.has(member) ? removeMember(state, member, reason) : noEffects(state);
  return withEffects(
    andThen(gone, (next) => (next.isRestoring ? finishRestore(next) : noEffects(next))),
    { type: 'expel', member, code, message },
  );
}

/**
 * Returns the number of a run that has ended according to a returning member, if the room does not
 * know that it has ended; otherwise `null`.
 */
function endedRun({ isRestoring, run, ended }: RoomState, reconnectState: ReconnectReport): number | null {
  if (!isRestoring || reconnectState.run < run) return null;
  if (reconnectState.run > run && run > 0 && ended?.run !== run) return run;
  return !reconnectState.isRunOn && reconnectState.run > 0 && ended?.run !== reconnectState.run
    ? reconnectState.run
    : null;
}

/**
 * Applies a returning member's report about the time before a restart. If reports differ, the later
 * run or generation is used.
 */
function applyReconnectState(
  state: RoomState,
  member: string,
  { run, isRunOn: isOn, hasTrained = false, generation, active }: ReconnectReport,
): RoomState {
  // If the room is not restoring, a member cannot have seen a generation above both the room's
  // latest generation and `numbersFrom`. A higher number is wrong, and is reduced to the larger of
  // these two.
  const possible = state.isRestoring ? generation : Math.min(generation, Math.max(state.generation, state.numbersFrom));
  const known = { ...state, highestReported: Math.max(state.highestReported, possible) };
  const { phase, membersWithState } = state;
  if (!state.isRestoring && phase === 'PAUSED' && state.generation < state.numbersFrom && isOn && run === state.run) {
    // The member returned late, but no generation has begun without it. So it may have the state,
    // like members that returned in time.
    return { ...known, membersWithState: new Set(membersWithState).add(member) };
  }
  if (!state.isRestoring || run < state.run || state.ended?.run === run) return known;
  if (!isOn) return known;
  const room: RoomState = {
    ...(run > state.run ? backToForming(known) : known),
    run,
    isPausedByHost: state.isPausedByHost,
  };
  if (active !== null && active.generation > room.generation) return restoreGeneration(room, active, hasTrained);
  // The member is a rank, but it reports a generation other than the restored one.
  if (rankOf(room, member) >= 0 && active?.generation !== room.generation) return requestNextGeneration(room);
  // If no generation is known, an elastic run is paused. Each member reports later whether it has
  // the state.
  if (room.ring.length > 0 || nodesOf(room) === null) return room;
  const mayHaveState = hasTrained ? [...room.membersWithState, member] : room.membersWithState;
  return { ...room, phase: 'PAUSED', membersWithState: new Set(mayHaveState) };
}

/**
 * Restores a generation that continues without a server. Each of its members has time to return.
 */
function restoreGeneration(
  room: RoomState,
  { generation, ring, isSteady }: NonNullable<ReconnectReport['active']>,
  hasTrained: boolean,
): RoomState {
  const hidden = new Map(room.hidden);
  const members: RosterEntry[] = room.members.map((m) => ring.find((rank) => rank.member === m.member) ?? m);
  for (const entry of ring) {
    if (hidden.has(entry.member)) continue;
    members.push(entry);
    const known = {
      browser: undefined,
      worldSize: undefined,
      hasRun: true,
      hasEntered: true,
      pulse: null,
      holdsKey: false,
      isSuspended: false,
    };
    // In a generation that has not begun, some members may have no state yet.
    hidden.set(entry.member, { ...known, isAway: true, stateOfRun: isSteady ? room.run : undefined });
  }
  const recalled: RoomState = {
    ...room,
    phase: 'RUNNING',
    isTraining: isSteady,
    generation,
    ring,
    relayed: [],
    served: [],
    reports: new Map(),
    members,
    hidden,
    membersWithState: new Set(hasTrained || isSteady ? ring.map((m) => m.member) : []),
  };
  // A rank that returned earlier did not report this generation, so it is not training in it. The
  // generation is then incomplete, and another one is needed.
  const isWhole = ring.every(({ member }) => !room.hidden.has(member) || isAway(room, member));
  return isSteady && isWhole ? recalled : requestNextGeneration(recalled);
}

/**
 * Returns the messages that a returning member may have missed. A message that is received twice
 * does no harm.
 */
function missedMessages(
  state: RoomState,
  { member, reconnectState }: Extract<RoomEvent, { type: 'reconnect' }>,
): RoomEffect[] {
  const { generation, phase, run, ended, isRestoring, highestReported } = state;
  const missed: ServerMessage[] = [];
  const isItsRunOn = isRunOn(state) && run === reconnectState.run;
  const mayBeOn = isItsRunOn || (isRestoring && reconnectState.run >= run && reconnectState.run > (ended?.run ?? 0));
  if (reconnectState.isRunOn && !mayBeOn) {
    missed.push({
      type: 'ended',
      ...(ended?.run === reconnectState.run ? ended : { run: reconnectState.run, ...OVER }),
    });
  }
  if (phase === 'PAUSED' && !isRestoring) {
    missed.push(pauseOf(state));
  }
  if (rankOf(state, member) >= 0) {
    if (reconnectState.active?.generation !== generation) {
      missed.push(prepareOf(state));
      if (phase !== 'LINKING') missed.push({ type: 'sync', generation });
    }
    // `go` is not sent while another generation is due, because the restored generation may not
    // have begun on all of its members.
    if (phase === 'RUNNING' && !(isRestoring && highestReported > generation)) missed.push({ type: 'go', generation });
  }
  return missed.map((message) => ({ type: 'send', to: [member], message }));
}

/**
 * Called when a member has returned. When all members have returned, ends the restoring, because it
 * is then known whether they still train together.
 */
export function finishRestore(state: RoomState): Step {
  if (!state.isRestoring) return settle(state);
  if (state.ring.length === 0 || state.ring.some(({ member }) => isAway(state, member))) return broadcastRoom(state);
  const known = { ...state, isRestoring: false };
  if (known.highestReported <= known.generation) return settle(known);
  // The members know a later generation: the server stopped while that generation began.
  return nodesOf(known) === null ? end(known, 'failed', INTERRUPTED) : reform(known);
}

/**
 * Called when the time to return is over. If a generation continued without the server, its members
 * would have returned by now.
 */
export function onRestoreTimeout(state: RoomState): Step {
  if (!state.isRestoring) return noEffects(state);
  // If a generation continues, the restoring does not end here, because members that have not
  // returned have timers of their own.
  if (state.ring.length > 0) return { state, effects: [RESTORE_TIMER] };
  const known = { ...state, isRestoring: false, isPausedByHost: state.isPausedByHost && isRunOn(state) };
  const isLost = state.phase === 'FORMING' && state.run > 0 && state.ended?.run !== state.run;
  if (isLost) return end(known, 'failed', INTERRUPTED);
  // Some members may be in a generation that the room does not know, so the pause is sent to all.
  return andThen(settle(known), sendPause);
}

/**
 * Returns timers for members that `after` contains and `before` did not: they have been reported,
 * but have not returned.
 */
function absenceTimers(before: RoomState, after: RoomState, lateMs = 0): RoomEffect[] {
  const ms = Math.max(RESTORE_MS, lateMs);
  const timers: RoomEffect[] = [];
  if (before.members.length === 0) {
    timers.push({ ...RESTORE_TIMER, ms });
  }
  for (const { member } of after.members) {
    if (before.hidden.has(member)) continue;
    const event = { type: 'missed', member } as const;
    timers.push({ type: 'setTimer', key: `away ${member}`, ms, event });
  }
  return timers;
}
