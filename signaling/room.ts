/**
 * A room as a pure function: (state, event) -> (state, effects). No sockets, no clock, no randomness: the hub feeds it
 * what happened and carries out what it answers, so it can be fuzzed by the million.
 *
 *   FORMING --start--> LINKING(e) --all linked--> SYNCING(e) --all synced--> RUNNING(e) --all finished--> FORMING
 *
 * Limit: one epoch per run. Whoever leaves or fails on the way ends the run for all, with a sentence that names them.
 */
import type { ClientMessage, Refusal, RoomPhase, RosterEntry, ServerMessage } from '../src/protocol/control.ts';
import { MAX_WORLD_SIZE } from '../src/protocol/control.ts';
import type { JobSpec } from '../src/protocol/job.ts';
import { seats } from '../src/protocol/ranks.ts';
import { dissenters, majority } from '../src/util/majority.ts';

/** Milliseconds all members have to link: Chromium gives up a connection attempt after 16 s, people after less. */
export const LINKING_MS = 15_000;
/** Milliseconds all members have to build the model, share parameters and report: shaders compile for seconds. */
export const SYNCING_MS = 120_000;
/** Members a sentence names before it says "and 5 others": `ended.message` holds 1200 characters. */
const MAX_NAMED = 8;

export interface RoomState {
  readonly phase: RoomPhase;
  /** Number of the latest epoch; 0 before the first. It only grows. */
  readonly epoch: number;
  readonly job: JobSpec;
  /** The room's world size, where it has one: as many as start by themselves. */
  readonly worldSize: number | null;
  /** Start by itself when so many are ready; `null` when the host starts, and after it has fired until those have left. */
  readonly startAt: number | null;
  readonly capacity: number;
  /** In the order they joined. The oldest is the host. */
  readonly members: readonly RosterEntry[];
  /** What the room knows of each member and tells nobody. */
  readonly hidden: ReadonlyMap<string, Hidden>;
  /** The epoch's members as `prepare` said them: index is rank. Empty while FORMING. */
  readonly ring: readonly RosterEntry[];
  /** What ring members have reported in this phase; equal texts mean equal states. */
  readonly reports: ReadonlyMap<string, string>;
}

interface Hidden {
  /** Its browser's id: who knew another's could pass for a tab of that browser. */
  readonly browser: string | undefined;
  /** The world size it counts on. */
  readonly worldSize: number | undefined;
  /** Whether it was a rank of an epoch. */
  readonly hasRun: boolean;
}

/** Who somebody is that asks to be let in. */
export type Newcomer = Pick<Extract<ClientMessage, { type: 'join' }>, 'name' | 'browser' | 'rank' | 'worldSize'>;

/** A client's message with its sender, as far as it concerns the room. */
type MemberEvent = Exclude<ClientMessage, { type: 'create' | 'join' | 'heartbeat' | 'leave' }> & { member: string };

export type LeaveReason = 'left' | 'silent' | 'dropped';

export type RoomEvent =
  | MemberEvent
  | ({ type: 'join'; member: string } & Newcomer)
  | { type: 'left'; member: string; reason: LeaveReason }
  /** The time set by `setDeadline` is over. */
  | { type: 'deadline'; epoch: number; phase: RoomPhase };

export type RoomEffect =
  /** The member is in: tell it its id, token and ICE servers. */
  | { type: 'admit'; member: string }
  | { type: 'send'; to: readonly string[]; message: ServerMessage }
  /** Replaces the deadline set before. */
  | { type: 'setDeadline'; ms: number; epoch: number; phase: RoomPhase }
  | { type: 'clearDeadline' }
  /** The last member has gone. The room can be joined again: the hub decides how long it waits for that. */
  | { type: 'empty' };

export interface Step {
  readonly state: RoomState;
  readonly effects: readonly RoomEffect[];
}

/** An empty room. Whoever joins an empty room is its host. */
export function createRoom(job: JobSpec, startAt: number | null, capacity = MAX_WORLD_SIZE): RoomState {
  return {
    ...{ phase: 'FORMING', epoch: 0, job, startAt, worldSize: startAt, capacity },
    ...{ members: [], hidden: new Map(), ring: [], reports: new Map() },
  };
}

/** What `event` makes of a room. Never throws; what does not fit the room's phase or epoch changes nothing. */
export function step(state: RoomState, event: RoomEvent): Step {
  if (event.type === 'deadline') return deadline(state, event.epoch, event.phase);
  const known = state.members.some((m) => m.member === event.member);
  if (event.type === 'join') return known ? stay(state) : join(state, event.member, event);
  if (!known) return stay(state);
  switch (event.type) {
    case 'ready':
      return ready(state, event);
    case 'configure':
      return configure(state, event.member, event.job);
    case 'start':
      return start(state, event.member);
    case 'signal':
      return relay(state, event);
    case 'linked':
      return report(state, event.member, event.epoch, 'LINKING', 'linked');
    case 'synced':
      return report(state, event.member, event.epoch, 'SYNCING', `step ${event.step}, state ${event.stateHash}`);
    case 'finished':
      return report(state, event.member, event.epoch, 'RUNNING', `step ${event.step}, state ${event.stateHash}`);
    case 'failed':
      return failed(state, event.member, event.epoch, event.message);
    case 'left':
      return left(state, event.member, event.reason);
    default:
      return event satisfies never;
  }
}

function stay(state: RoomState): Step {
  return { state, effects: [] };
}

function refuse(state: RoomState, member: string, code: Refusal, message: string): Step {
  return { state, effects: [{ type: 'send', to: [member], message: { type: 'refused', code, message } }] };
}

function join(state: RoomState, member: string, newcomer: Newcomer): Step {
  const { name, browser, rank = null, worldSize } = newcomer;
  if (state.phase !== 'FORMING') {
    return refuse(state, member, 'room-running', 'This room is training: join again when its run has ended.');
  }
  if (state.members.length >= state.capacity) {
    const message = `This room is full (${state.capacity} members): ask for another room, or for somebody to leave.`;
    return refuse(state, member, 'room-full', message);
  }
  const contradiction = contradictionWith(state, newcomer);
  if (contradiction !== null) return refuse(state, member, 'mismatch', contradiction);
  const entry = { member, name, device: null, browser: browserNumber(state, browser), rank };
  const hidden = new Map(state.hidden).set(member, { browser, worldSize, hasRun: false });
  const next = { ...state, members: [...state.members, entry], hidden };
  return { state: next, effects: [{ type: 'admit', member }, roomMessage(next)] };
}

/** What a newcomer asks for and cannot have here, in a sentence. */
function contradictionWith({ members, worldSize, capacity }: RoomState, asked: Newcomer): string | null {
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

function ready(state: RoomState, { member, device }: Extract<RoomEvent, { type: 'ready' }>): Step {
  const before = state.members.find((m) => m.member === member)?.device;
  // What changes nothing is told to nobody: the roster that all would get is a hundred times as long as this message.
  if (before?.backend === device.backend && before.adapter === device.adapter) return stay(state);
  const members = state.members.map((m) => (m.member === member ? { ...m, device } : m));
  return settle({ ...state, members });
}

/** A room as it has become: starts by itself if it is complete, else everybody is told. */
function settle(state: RoomState): Step {
  const present = readyMembers(state);
  // No more than it waited for: their ranks are all below `startAt`, so they fit.
  const isComplete = state.phase === 'FORMING' && state.startAt !== null && present.length >= state.startAt;
  return isComplete ? begin(state, present.slice(0, state.startAt)) : { state, effects: [roomMessage(state)] };
}

function configure(state: RoomState, member: string, job: JobSpec): Step {
  if (member !== hostOf(state)) {
    return refuse(state, member, 'not-host', 'Only the host may change what the room trains.');
  }
  if (state.phase !== 'FORMING') {
    return refuse(state, member, 'not-now', 'The job cannot change during a run: wait until it has ended.');
  }
  // Other data has to be there first: each tab says `ready` again once it has what the new job needs.
  const isReadyStill = job.data.kind === state.job.data.kind;
  const members = isReadyStill ? state.members : state.members.map((m) => ({ ...m, device: null }));
  const next = { ...state, job, members };
  return { state: next, effects: [roomMessage(next)] };
}

function start(state: RoomState, member: string): Step {
  if (member !== hostOf(state)) return refuse(state, member, 'not-host', 'Only the host may start the run.');
  // A second click, or one that crossed with `startAt`: what it asked for has happened.
  if (state.phase !== 'FORMING') return stay(state);
  if (state.members[0]?.device === null) {
    return refuse(state, member, 'not-now', 'This tab is still warming up: start when it says that it is ready.');
  }
  const present = readyMembers(state);
  const misfit = misfitOf(state, present);
  return misfit === null ? begin(state, present) : refuse(state, member, 'not-now', misfit);
}

/** Why these members cannot be a world of their own, in a sentence. */
function misfitOf({ hidden }: RoomState, present: readonly RosterEntry[]): string | null {
  const are = present.length === 1 ? 'only 1 member is' : `${present.length} members are`;
  for (const { member, name, rank } of present) {
    const counted = hidden.get(member)?.worldSize ?? present.length;
    if (counted !== present.length)
      return `${name} counts on a world of ${counted}, and ${are} ready: start with ${counted}.`;
    if (rank !== null && rank >= present.length) {
      return `${name} asked for rank ${rank}, and ${are} ready: start when ${rank + 1} are.`;
    }
  }
  return null;
}

/**
 * A new epoch with members that are ready and fit together. Who asked for a rank has it, the others come in the order they
 * joined. Who is left out stays in the room and waits.
 */
function begin(state: RoomState, present: readonly RosterEntry[]): Step {
  const ring = seats(present).filter((m) => m !== null);
  const epoch = state.epoch + 1;
  const hidden = new Map(state.hidden);
  for (const { member } of ring) hidden.set(member, { ...hidden.get(member)!, hasRun: true });
  const next: RoomState = { ...state, phase: 'LINKING', epoch, startAt: null, hidden, ring, reports: new Map() };
  return {
    state: next,
    effects: [
      roomMessage(next),
      toRing(next, { type: 'prepare', epoch, members: ring, job: next.job }),
      { type: 'setDeadline', ms: LINKING_MS, epoch, phase: 'LINKING' },
    ],
  };
}

/** Signals cross only between two ranks of the running epoch. */
function relay(state: RoomState, event: Extract<RoomEvent, { type: 'signal' }>): Step {
  const inRing = (id: string) => rankOf(state, id) >= 0;
  if (event.epoch !== state.epoch || !inRing(event.member) || !inRing(event.to)) return stay(state);
  const { epoch, attempt, signal, member: from } = event;
  return {
    state,
    effects: [{ type: 'send', to: [event.to], message: { type: 'signal', epoch, from, attempt, signal } }],
  };
}

function report(state: RoomState, member: string, epoch: number, phase: RoomPhase, said: string): Step {
  const isDue = state.phase === phase && state.epoch === epoch && rankOf(state, member) >= 0;
  if (!isDue || state.reports.has(member)) return stay(state);
  const next = { ...state, reports: new Map(state.reports).set(member, said) };
  return next.reports.size < next.ring.length ? stay(next) : advance(next);
}

/** Everyone has reported. */
function advance(state: RoomState): Step {
  const differing = disagreement(state);
  if (differing !== null) return end(state, 'failed', differing);
  const { epoch } = state;
  const reports = new Map<string, string>();
  if (state.phase === 'LINKING') {
    const next: RoomState = { ...state, phase: 'SYNCING', reports };
    return {
      state: next,
      effects: [
        toRing(next, { type: 'sync', epoch }),
        { type: 'setDeadline', ms: SYNCING_MS, epoch, phase: 'SYNCING' },
        roomMessage(next),
      ],
    };
  }
  if (state.phase === 'SYNCING') {
    const next: RoomState = { ...state, phase: 'RUNNING', reports };
    // No deadline from here on: ranks watch each other, and the ring needs no server.
    return {
      state: next,
      effects: [toRing(next, { type: 'go', epoch }), { type: 'clearDeadline' }, roomMessage(next)],
    };
  }
  const ranks = state.ring.length === 1 ? 'Its one rank has' : `All ${state.ring.length} ranks have`;
  return end(state, 'finished', `The run has finished. ${ranks} the same state.`);
}

/** The ranks that reported something else than most did (rank 0's word counts in a draw), as a sentence. */
function disagreement({ ring, reports, phase }: RoomState): string | null {
  const said = ring.map((m) => reports.get(m.member) ?? '');
  const odds = dissenters(said);
  if (odds.length === 0) return null;
  const when = phase === 'SYNCING' ? 'began' : 'ended';
  return (
    `${nameRanks(ring, odds)} ${when} with another state than the others (${said[odds[0]!]}; the others: ${majority(said)}), ` +
    'so the run is void. Reload there and start again.'
  );
}

function failed(state: RoomState, member: string, epoch: number, message: string): Step {
  const rank = rankOf(state, member);
  if (state.epoch !== epoch || rank < 0) return stay(state);
  return end(state, 'failed', `${nameRanks(state.ring, [rank])} could not go on, so the run ended: ${message}`);
}

const LEFT_HOW: Record<LeaveReason, string> = {
  left: 'left',
  silent: 'fell silent',
  dropped: 'was disconnected by the server',
};
const DOING: Record<RoomPhase, string> = {
  FORMING: 'waiting',
  LINKING: 'connecting',
  SYNCING: 'comparing states',
  RUNNING: 'training',
};

function left(state: RoomState, member: string, reason: LeaveReason): Step {
  const members = state.members.filter((m) => m.member !== member);
  const hidden = new Map(state.hidden);
  hidden.delete(member);
  const next = { ...state, members, hidden };
  if (members.length === 0) {
    return { state: backToForming(next), effects: [{ type: 'clearDeadline' }, { type: 'empty' }] };
  }
  const rank = rankOf(state, member);
  // Who has finished may close the tab: its report stands.
  const hasFinished = state.phase === 'RUNNING' && state.reports.has(member);
  if (rank < 0 || hasFinished) return settle(state.phase === 'FORMING' ? backToForming(next) : next);
  const who = `${nameRanks(state.ring, [rank])} ${LEFT_HOW[reason]} while ${DOING[state.phase]}`;
  return end(next, 'failed', `${who}, so the run ended. Start again with the others.`);
}

function deadline(state: RoomState, epoch: number, phase: RoomPhase): Step {
  if (state.phase === 'FORMING' || state.epoch !== epoch || state.phase !== phase) return stay(state);
  const missing = state.ring.map((_, rank) => rank).filter((rank) => !state.reports.has(state.ring[rank]!.member));
  const what =
    phase === 'LINKING'
      ? `did not reach the neighbours within ${LINKING_MS / 1000} s`
      : `did not report a state within ${SYNCING_MS / 1000} s`;
  const message = `${nameRanks(state.ring, missing)} ${what}, so the run ended. Reload those pages and start again.`;
  return end(state, 'failed', message);
}

function end(state: RoomState, outcome: 'finished' | 'failed', message: string): Step {
  const next = settle(backToForming(state));
  const ended = { type: 'ended', epoch: state.epoch, outcome, message: message.slice(0, 1200) } as const;
  return { state: next.state, effects: [{ type: 'clearDeadline' }, toRing(state, ended), ...next.effects] };
}

/**
 * No epoch is on. Once all who ran have left, those who are there or come are a new world, which starts by itself again:
 * groups that are made anew in the same room, or the tabs of a run that is tried once more.
 */
function backToForming(state: RoomState): RoomState {
  const isFresh = [...state.hidden.values()].every(({ hasRun }) => !hasRun);
  const startAt = isFresh ? state.worldSize : state.startAt;
  return { ...state, phase: 'FORMING', startAt, ring: [], reports: new Map() };
}

function readyMembers({ members }: RoomState): RosterEntry[] {
  return members.filter((m) => m.device !== null);
}

function hostOf(state: RoomState): string | undefined {
  return state.members[0]?.member;
}

function rankOf(state: RoomState, member: string): number {
  return state.ring.findIndex((m) => m.member === member);
}

/** The room as it is now, for everybody in it. */
function roomMessage(state: RoomState): RoomEffect {
  const { phase, epoch, job, startAt, members } = state;
  return {
    type: 'send',
    to: members.map((m) => m.member),
    message: { type: 'room', phase, epoch, host: hostOf(state) ?? '', members: [...members], job, startAt },
  };
}

/** To the epoch's members that are still here. */
function toRing(state: RoomState, message: ServerMessage): RoomEffect {
  const here = new Set(state.members.map((m) => m.member));
  return { type: 'send', to: state.ring.map((m) => m.member).filter((id) => here.has(id)), message };
}

/** "Rank 2 (Ada)", "Rank 1 (Bo) and rank 2 (Ada)", "Rank 0 (..), ... and 3 others". */
function nameRanks(ring: readonly RosterEntry[], ranks: readonly number[]): string {
  const named = ranks.slice(0, MAX_NAMED).map((rank) => `rank ${rank} (${ring[rank]?.name})`);
  const others = ranks.length - named.length;
  if (others > 0) named.push(others === 1 ? '1 other' : `${others} others`);
  const last = named.pop() ?? 'nobody';
  const sentence = named.length > 0 ? `${named.join(', ')} and ${last}` : last;
  return sentence.charAt(0).toUpperCase() + sentence.slice(1);
}
