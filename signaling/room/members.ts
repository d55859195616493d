/** Who is in a room: joining it, losing touch with it, returning to it and leaving it. */
import type { RosterEntry, ServerMessage, Standing } from '../../src/protocol/control.ts';
import { backToForming, end, needAnother, over, pauseOf, reform, settle } from './epochs.ts';
import { nameRanks } from './sentences.ts';
import {
  andThen,
  change,
  createRoom,
  isAway,
  isRunOn,
  nodesOf,
  rankOf,
  refuse,
  roomMessage,
  stay,
  tellRoom,
  withEffects,
  type LeaveReason,
  type Newcomer,
  type RoomEffect,
  type RoomEvent,
  type RoomOptions,
  type RoomState,
  type Step,
} from './state.ts';

/** Milliseconds a member whose connection is gone may take to come back before it counts as gone. */
export const AWAY_MS = 2_000;
/** The same after the server has restarted: members come back one by one, so that they do not all knock at once. */
export const REVIVAL_MS = 15_000;

const DOUBTS: RoomEffect = { type: 'setTimer', key: 'doubts', ms: REVIVAL_MS, event: { type: 'doubts' } };
/** For those who ask after a run of which nothing else is known. */
const OVER = { outcome: 'stopped', message: 'This run was over when the server heard of this tab again.' } as const;
const INTERRUPTED = 'The server has restarted while the run began, so it is over: start it again.';

export function join(state: RoomState, member: string, newcomer: Newcomer): Step {
  if (isRunOn(state) && nodesOf(state) === null) {
    return refuse(state, member, 'room-running', 'This room is training: join again when its run has ended.');
  }
  if (state.isLocked && !newcomer.holdsKey) {
    return refuse(state, member, 'room-locked', 'This room is locked: ask whoever leads it to let you in.');
  }
  return enter(state, member, newcomer);
}

function enter(state: RoomState, member: string, newcomer: Newcomer): Step {
  const { name, browser, rank = null, worldSize, holdsKey } = newcomer;
  if (state.members.length >= state.capacity) {
    const message = `This room is full (${state.capacity} members): ask for another room, or for somebody to leave.`;
    return refuse(state, member, 'room-full', message);
  }
  const contradiction = contradictionWith(state, newcomer);
  if (contradiction !== null) return refuse(state, member, 'mismatch', contradiction);
  const entry = { member, name, device: null, browser: browserNumber(state, browser), rank };
  const known = { browser, worldSize, hasRun: false, holdsKey, isAway: false, holds: null };
  const hidden = new Map(state.hidden).set(member, known);
  const next = { ...state, members: [...state.members, entry], hidden };
  return { state: next, effects: [{ type: 'admit', member }, roomMessage(next)] };
}

/** What a newcomer asks for and cannot have here, in a sentence. */
function contradictionWith(state: RoomState, asked: Newcomer): string | null {
  // Where ranks come and go, nobody keeps one.
  if (isRunOn(state)) return null;
  const { members, worldSize, capacity } = state;
  const { rank, worldSize: counted } = asked;
  if (worldSize !== null && counted !== undefined && counted !== worldSize) {
    return `This room's world size is ${worldSize}, not ${counted}: ask for ${worldSize}, or join another room.`;
  }
  if (rank === undefined) return null;
  const ranks = counted ?? worldSize ?? capacity;
  if (rank >= ranks) return `There is no rank ${rank} in a world of ${ranks}: ask for one from 0 to ${ranks - 1}.`;
  const holder = members.find((m) => m.rank === rank);
  return holder === undefined ? null : `${holder.name} has rank ${rank} already: ask for another, or for none.`;
}

/** The number by which the room's members know a browser. */
function browserNumber({ members, hidden }: RoomState, browser: string | undefined): number {
  const sibling = members.find((m) => browser !== undefined && hidden.get(m.member)?.browser === browser);
  if (sibling !== undefined) return sibling.browser;
  let free = 0;
  while (members.some((m) => m.browser === free)) free++;
  return free;
}

/**
 * A room that a returning member remembers, after a restart of the server: what went on in it, members have to say.
 *
 * @param numbersFrom greater than any run's or epoch's number that there has been: not all who heard of one may return.
 */
export function revive(
  { isLocked, ...settings }: Standing['settings'],
  options: Omit<RoomOptions, keyof Standing['settings']>,
  numbersFrom: number,
): RoomState {
  return { ...createRoom({ ...options, ...settings }), isLocked, isDoubtful: true, numbersFrom };
}

/** A member is back: of a connection that was lost, of a server that has restarted, or of a room that has let it go. */
export function comeBack(state: RoomState, event: Extract<RoomEvent, { type: 'return' }>): Step {
  const { member, browser, holdsKey, standing } = event;
  if (state.removed.has(member)) {
    return refuse(state, member, 'removed', 'The host has sent this tab out of the room: ask to be let in again.');
  }
  const past = overBy(state, standing);
  if (past !== null) {
    // Others may have missed its end, and still wait.
    return andThen(over({ ...state, run: past }, OVER.outcome, OVER.message), (next) => comeBack(next, event));
  }
  const known = learn(state, member, standing);
  const timers = state.isDoubtful ? absences(state, known) : [];
  if (!known.hidden.has(member)) {
    const entered = enter(known, member, event);
    if (!entered.state.hidden.has(member)) return entered;
    return { state: entered.state, effects: [...entered.effects, ...catchUp(entered.state, event), ...timers] };
  }
  const trains = standing.active?.isSteady ? { holds: standing.run } : {};
  const next = change(known, member, { isAway: false, browser, holdsKey, ...trains });
  return withEffects(
    andThen(stay(next), dispelDoubts),
    ...timers,
    { type: 'clearTimer', key: `away ${member}` },
    { type: 'admit', member },
    ...catchUp(next, event),
  );
}

/** Until a restart is forgotten: the run that is over by what a returning member says, and not known to be. */
function overBy({ isDoubtful, run, ended }: RoomState, standing: Standing): number | null {
  if (!isDoubtful || standing.run < run) return null;
  if (standing.run > run && run > 0 && ended?.run !== run) return run;
  return !standing.isRunOn && standing.run > 0 && ended?.run !== standing.run ? standing.run : null;
}

/** What members who return say of the time before a restart: who heard of the later run, or epoch of it, knows better. */
function learn(state: RoomState, member: string, { run, isRunOn: isOn, epoch, active }: Standing): RoomState {
  const known = { ...state, heardOf: Math.max(state.heardOf, epoch) };
  if (!state.isDoubtful || run < state.run || state.ended?.run === run) return known;
  if (!isOn) return known;
  const room: RoomState = { ...(run > state.run ? backToForming(known) : known), run };
  if (active !== null && active.epoch > room.epoch) return recall(room, active);
  // It is a rank, and not where the others are.
  if (rankOf(room, member) >= 0 && active?.epoch !== room.epoch) return needAnother(room);
  // Nobody trains, for all that is known; whether somebody has the state, each of them says.
  if (room.ring.length > 0 || nodesOf(room) === null) return room;
  return { ...room, phase: 'PAUSED', holders: new Set(room.holders).add(member) };
}

/** The room in an epoch that goes on without a server; each of its members has a while to return. */
function recall(room: RoomState, { epoch, ring, isSteady }: NonNullable<Standing['active']>): RoomState {
  const hidden = new Map(room.hidden);
  const members: RosterEntry[] = room.members.map((m) => ring.find((rank) => rank.member === m.member) ?? m);
  for (const entry of ring) {
    if (hidden.has(entry.member)) continue;
    members.push(entry);
    const known = { browser: undefined, worldSize: undefined, hasRun: true, holdsKey: false };
    // In an epoch that has not begun some may have no state yet.
    hidden.set(entry.member, { ...known, isAway: true, holds: isSteady ? room.run : null });
  }
  const recalled: RoomState = {
    ...{ ...room, phase: 'RUNNING', epoch, ring, relayed: [], reports: new Map() },
    ...{ members, hidden, holders: new Set(ring.map((m) => m.member)) },
  };
  // Ranks that have returned before did not speak of it: they are not in it, or not any more.
  const isWhole = ring.every(({ member }) => !room.hidden.has(member) || isAway(room, member));
  return isSteady && isWhole ? recalled : needAnother(recalled);
}

/** What a returning member may have missed; hearing it twice does no harm. */
function catchUp(state: RoomState, { member, standing }: Extract<RoomEvent, { type: 'return' }>): RoomEffect[] {
  const { epoch, ring, relayed, phase, run, job, ended, isDoubtful, heardOf } = state;
  const told: ServerMessage[] = [];
  const isItsRunOn = isRunOn(state) && run === standing.run;
  const mayBeOn = isItsRunOn || (isDoubtful && standing.run >= run && standing.run > (ended?.run ?? 0));
  if (standing.isRunOn && !mayBeOn) {
    told.push({ type: 'ended', ...(ended?.run === standing.run ? ended : { run: standing.run, ...OVER }) });
  }
  if (phase === 'PAUSED' && !isDoubtful) {
    told.push(pauseOf(state));
  }
  if (rankOf(state, member) >= 0) {
    if (standing.active?.epoch !== epoch) {
      told.push({ type: 'prepare', epoch, run, members: [...ring], job, relayed: [...relayed] });
      if (phase !== 'LINKING') told.push({ type: 'sync', epoch });
    }
    // An epoch that only its members speak of may not have begun on all of them.
    if (phase === 'RUNNING' && !(isDoubtful && heardOf > epoch)) told.push({ type: 'go', epoch });
  }
  return told.map((message) => ({ type: 'send', to: [member], message }));
}

/** Somebody is back. Once all have returned it shows whether they train in the same epoch. */
export function dispelDoubts(state: RoomState): Step {
  if (!state.isDoubtful) return settle(state);
  if (state.ring.length === 0 || state.ring.some(({ member }) => isAway(state, member))) return tellRoom(state);
  const known = { ...state, isDoubtful: false };
  if (known.heardOf <= known.epoch) return settle(known);
  // The server stopped while it made another epoch.
  return nodesOf(known) === null ? end(known, 'failed', INTERRUPTED) : reform(known);
}

/** Whoever was in an epoch that is still on would have returned. */
export function onDoubts(state: RoomState): Step {
  if (!state.isDoubtful) return stay(state);
  // Those who are still to return have timers of their own.
  if (state.ring.length > 0) return { state, effects: [DOUBTS] };
  const known = { ...state, isDoubtful: false };
  const isLost = state.phase === 'FORMING' && state.run > 0 && state.ended?.run !== state.run;
  if (isLost) return end(known, 'failed', INTERRUPTED);
  return andThen(settle(known), (next) => {
    if (next.phase !== 'PAUSED') return stay(next);
    // Some may be in the middle of an epoch that nobody else speaks of.
    return { state: next, effects: [{ type: 'send', to: next.members.map((m) => m.member), message: pauseOf(next) }] };
  });
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
    timers.push({ type: 'setTimer', key: `away ${member}`, ms: REVIVAL_MS, event });
  }
  return timers;
}

/** A connection is gone without a word: a short trouble of the network, or a tab that has crashed. */
export function loseTouch(state: RoomState, member: string): Step {
  const away = change(state, member, { isAway: true });
  return withEffects(tellRoom(away), {
    ...{ type: 'setTimer', key: `away ${member}`, ms: AWAY_MS },
    event: { type: 'missed', member },
  });
}

const LEFT_HOW: Record<LeaveReason, string> = {
  left: 'left',
  silent: 'fell silent',
  vanished: 'vanished',
  dropped: 'was disconnected by the server',
  removed: 'was sent out by the host',
};
const DOING: Record<RoomState['phase'], string> = {
  FORMING: 'waiting',
  PAUSED: 'waiting',
  LINKING: 'connecting',
  SYNCING: 'comparing states',
  RUNNING: 'training',
};

export function left(state: RoomState, member: string, reason: LeaveReason): Step {
  const members = state.members.filter((m) => m.member !== member);
  const hidden = new Map(state.hidden);
  hidden.delete(member);
  const next = { ...state, members, hidden };
  return withEffects(without(state, next, member, reason), { type: 'clearTimer', key: `away ${member}` });
}

/** Nobody is left. */
function abandon(state: RoomState): Step {
  if (!isRunOn(state)) return stay(backToForming(state));
  return over({ ...state, isDoubtful: false }, 'failed', 'All its ranks have left, so the run is over.');
}

/** `next`: `state` without `member`. */
function without(state: RoomState, next: RoomState, member: string, reason: LeaveReason): Step {
  const rank = rankOf(state, member);
  const isOpen = isRunOn(state) && nodesOf(state) !== null;
  if (next.members.length === 0) {
    // Who lost the network comes back; who closed the last tab has done with the run.
    const rest = isOpen && reason !== 'left' ? reform(next) : abandon(next);
    return {
      state: rest.state,
      effects: [...rest.effects, { type: 'clearTimer', key: 'deadline' }, { type: 'empty' }],
    };
  }
  // Who has finished may close the tab: its report stands.
  const hasFinished = state.phase === 'RUNNING' && state.reports.has(member);
  if (isOpen) return rank < 0 || hasFinished ? settle(next) : reform({ ...next, retries: 0 });
  if (rank < 0 || hasFinished) return settle(state.phase === 'FORMING' ? backToForming(next) : next);
  const who = `${nameRanks(state.ring, [rank])} ${LEFT_HOW[reason]} while ${DOING[state.phase]}`;
  return end(next, 'failed', `${who}, so the run ended. Start again with the others.`);
}
