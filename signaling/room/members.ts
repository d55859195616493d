/** Who is in a room: joining it, losing touch with it, returning to it and leaving it. */
import type { RosterEntry, Standing } from '../../src/protocol/control.ts';
import { backToForming, end, needAnother, reform, settle } from './epochs.ts';
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

/** The room that a returning member remembers, after a restart of the server. Others may know better. */
export function revive(
  { settings, run, epoch, active }: Standing,
  options: Omit<RoomOptions, keyof Standing['settings']>,
): RoomState {
  const fresh = createRoom({ ...options, ...settings });
  const room: RoomState = { ...fresh, isLocked: settings.isLocked, run, heardOf: epoch, isDoubtful: true };
  if (active !== null) return recall(room, active);
  return run > 0 && nodesOf(room) !== null ? { ...room, phase: 'PAUSED', holders: new Set() } : room;
}

/** The room in an epoch that goes on without a server; each of its members has a while to return. */
function recall(room: RoomState, { epoch, ring, isSteady }: NonNullable<Standing['active']>): RoomState {
  const hidden = new Map(room.hidden);
  const members: RosterEntry[] = [...room.members];
  for (const entry of ring) {
    if (hidden.has(entry.member)) continue;
    members.push(entry);
    const known = { browser: undefined, worldSize: undefined, hasRun: true, holdsKey: false };
    hidden.set(entry.member, { ...known, isAway: true, holds: room.run });
  }
  const recalled: RoomState = {
    ...{ ...room, phase: 'RUNNING', epoch, ring, relayed: [], reports: new Map() },
    ...{ members, hidden, holders: new Set(ring.map((m) => m.member)), isDoubtful: true },
  };
  return isSteady ? recalled : needAnother(recalled);
}

/** A member is back: of a connection that was lost, of a server that has restarted, or of a room that has let it go. */
export function comeBack(state: RoomState, event: Extract<RoomEvent, { type: 'return' }>): Step {
  const { member, standing } = event;
  const { active } = standing;
  // After a restart, whoever trains in a later epoch knows better.
  const isNews = state.isDoubtful && active !== null && active.epoch > state.epoch;
  const informed = isNews ? recall({ ...state, run: Math.max(state.run, standing.run) }, active) : state;
  const known = { ...informed, heardOf: Math.max(state.heardOf, standing.epoch) };
  if (known.hidden.has(member)) return greet(known, event, isNews);
  return enter(known, member, event);
}

function greet(state: RoomState, event: Extract<RoomEvent, { type: 'return' }>, isNews: boolean): Step {
  const { member, browser, holdsKey, standing } = event;
  const { epoch, ring, relayed, phase, run, job } = state;
  const next = change(state, member, { isAway: false, browser, holdsKey });
  const missed: RoomEffect[] = [
    { type: 'clearTimer', key: `away ${member}` },
    { type: 'admit', member },
  ];
  if (isNews) missed.push(...absences(next));
  const tell = (message: Extract<RoomEffect, { type: 'send' }>['message']): void => {
    missed.push({ type: 'send', to: [member], message });
  };
  if (rankOf(next, member) >= 0 && standing.active?.epoch !== epoch) {
    // What it may have missed; hearing it twice does no harm.
    tell({ type: 'prepare', epoch, run, members: [...ring], job, relayed: [...relayed] });
    if (phase !== 'LINKING') tell({ type: 'sync', epoch });
  }
  if (rankOf(next, member) >= 0 && phase === 'RUNNING') tell({ type: 'go', epoch });
  return withEffects(andThen(stay(next), dispelDoubts), ...missed);
}

/** Somebody is back. Once all have returned it shows whether they train in the same epoch. */
export function dispelDoubts(state: RoomState): Step {
  if (!state.isDoubtful) return settle(state);
  if (state.ring.some(({ member }) => isAway(state, member))) return tellRoom(state);
  const known = { ...state, isDoubtful: false };
  // The server stopped while it made another epoch.
  return known.heardOf > known.epoch && nodesOf(known) !== null ? reform(known) : settle(known);
}

/** Timers of those who have not returned. */
export function absences(state: RoomState): RoomEffect[] {
  return state.members
    .filter(({ member }) => isAway(state, member))
    .map(({ member }) => ({
      ...{ type: 'setTimer', key: `away ${member}`, ms: REVIVAL_MS },
      event: { type: 'missed', member },
    }));
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

/** `next`: `state` without `member`. */
function without(state: RoomState, next: RoomState, member: string, reason: LeaveReason): Step {
  const rank = rankOf(state, member);
  const isOpen = isRunOn(state) && nodesOf(state) !== null;
  if (next.members.length === 0) {
    // Who lost the network comes back; who closed the last tab has done with the run.
    const rest = isOpen && reason !== 'left' ? reform(next) : stay(backToForming(next));
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
