/** Members of a room: how they join, lose their connection and leave. */
import { backToForming, recordEnd, shouldStayLocked } from './ending.ts';
import { withoutFeed } from './feeds.ts';
import { end, reform, settle } from './generations.ts';
import { nameMembers } from './sentences.ts';
import { removeSpectator, admitSpectator } from './spectators.ts';
import { noticeOf, suspensionOf } from './suspensions.ts';
import { roomMessage, broadcastRoom } from './roomMessage.ts';
import {
  andThen,
  change,
  everyone,
  isAway,
  isRunOn,
  isSpectator,
  nodesOf,
  rankOf,
  refuse,
  noEffects,
  withEffects,
  type LeaveReason,
  type Newcomer,
  type RoomEffect,
  type RoomState,
  type Step,
} from './state.ts';

/**
 * Milliseconds for which a member whose connection is lost may return. After that it is considered
 * gone. A member with a busy line has more time.
 */
export const AWAY_MS = 2_000;

export function join(state: RoomState, member: string, newcomer: Newcomer): Step {
  if (isRunOn(state) && !newcomer.isSpectator && nodesOf(state) === null) {
    return refuse(state, member, 'room-running', 'This room is training. Join again when its run has ended.');
  }
  if (state.isLocked && !newcomer.holdsKey) {
    return refuse(state, member, 'room-locked', 'This room is locked. Ask its host to unlock it.');
  }
  return newcomer.isSpectator ? admitSpectator(state, member, newcomer) : enter(state, member, newcomer);
}

export function enter(state: RoomState, member: string, newcomer: Newcomer): Step {
  const holder = state.members.find((m) => m.rank !== null && m.rank === newcomer.rank);
  if (holder === undefined || !isAway(state, holder.member) || isRunOn(state) || state.isRestoring) {
    return admit(state, member, newcomer);
  }
  // The rank belongs to a member that is away. Probably the user has restarted the browser, and the
  // new tab joins before the old tab is considered gone. The newcomer receives the rank. If the
  // room is full, the old member is removed; if not, it stays in the room without a rank.
  const isFull = state.members.length >= state.capacity;
  const members = state.members.flatMap((m) => (m !== holder ? [m] : isFull ? [] : [{ ...m, rank: null }]));
  const admitted = admit({ ...state, members }, member, newcomer);
  if (!admitted.state.hidden.has(member)) return { state, effects: admitted.effects };
  return isFull ? andThen(admitted, (next) => removeMember(next, holder.member, 'vanished')) : admitted;
}

function admit(state: RoomState, member: string, newcomer: Newcomer): Step {
  const { name, browser, rank = null, worldSize, holdsKey } = newcomer;
  if (state.members.length >= state.capacity) {
    const message = `This room is full (${state.capacity} members). Use another room, or wait until a member leaves.`;
    return refuse(state, member, 'room-full', message);
  }
  const contradiction = contradictionWith(state, newcomer);
  // During a run, a newcomer whose request cannot be granted joins without a requested rank.
  if (contradiction !== null && !isRunOn(state)) return refuse(state, member, 'mismatch', contradiction);
  const granted = contradiction === null ? rank : null;
  const entry = {
    member,
    name,
    device: null,
    browser: browserNumber(state, browser),
    rank: granted,
    mark: leastWithout(state.members.map((m) => m.mark)),
  };
  const isSuspended = suspensionOf(state, member, browser) !== null;
  const known = {
    browser,
    worldSize,
    hasRun: false,
    hasEntered: false,
    pulse: null,
    holdsKey,
    isAway: false,
    isSuspended,
    stateOfRun: undefined,
  };
  const hidden = new Map(state.hidden).set(member, known);
  const next = { ...state, members: [...state.members, entry], hidden };
  const notice = isSuspended ? [noticeOf(next, member)] : [];
  return { state: next, effects: [{ type: 'admit', member }, roomMessage(next), ...notice] };
}

/**
 * Returns a sentence that explains why the room cannot grant a newcomer's request, or `null` if it
 * can.
 */
function contradictionWith(state: RoomState, request: Newcomer): string | null {
  const { members, worldSize, capacity } = state;
  const { rank, worldSize: counted } = request;
  if (worldSize !== null && counted !== undefined && counted !== worldSize) {
    return `This room's world size is ${worldSize}, not ${counted}. Request ${worldSize}, or join another room.`;
  }
  if (rank === undefined) return null;
  // During a run, the size of the next world may be unknown. A requested rank may then be at most
  // the number of members: with a higher rank, the next run could never start.
  const size = counted ?? worldSize;
  const ranks = size ?? (isRunOn(state) ? members.length + 1 : capacity);
  if (rank >= ranks) {
    const world = size === null ? '' : ` in a world of ${size}`;
    return `There is no rank ${rank}${world}. Request one from 0 to ${ranks - 1}.`;
  }
  const holder = members.find((m) => m.rank === rank);
  return holder === undefined ? null : `${holder.name} has rank ${rank} already. Request another rank, or none.`;
}

/** Returns the number under which members of the room know a browser. */
function browserNumber({ members, hidden }: RoomState, browser: string | undefined): number {
  const sibling = members.find((m) => browser !== undefined && hidden.get(m.member)?.browser === browser);
  return sibling === undefined ? leastWithout(members.map((m) => m.browser)) : sibling.browser;
}

/** Returns the least number that is not among `taken`. */
function leastWithout(taken: readonly (number | undefined)[]): number {
  let free = 0;
  while (taken.includes(free)) free++;
  return free;
}

/** Marks a member as away: its network may be interrupted, or its tab has crashed. */
export function disconnect(state: RoomState, member: string): Step {
  const away = change(state, member, { isAway: true });
  const lateMs = state.hidden.get(member)?.pulse?.lateMs ?? 0;
  return withEffects(broadcastRoom(away), {
    type: 'setTimer',
    key: `away ${member}`,
    ms: Math.max(AWAY_MS, lateMs),
    event: { type: 'missed', member },
  });
}

const LEFT_HOW: Record<LeaveReason, string> = {
  left: 'left',
  silent: 'stopped responding',
  vanished: 'lost its connection',
  dropped: 'was disconnected by the server',
  removed: 'was removed by the host',
};
const DOING: Record<RoomState['phase'], string> = {
  FORMING: 'waiting',
  PAUSED: 'waiting',
  LINKING: 'connecting',
  SYNCING: 'comparing states',
  RUNNING: 'training',
};

export function removeMember(state: RoomState, member: string, reason: LeaveReason): Step {
  if (isSpectator(state, member)) return removeSpectator(state, member);
  const members = state.members.filter((m) => m.member !== member);
  const hidden = new Map(state.hidden);
  hidden.delete(member);
  const next = { ...state, members, hidden, feeds: withoutFeed(state, member) };
  return withEffects(afterLeave(state, next, member, reason), { type: 'clearTimer', key: `away ${member}` });
}

/** Ends the run of a room without members. */
function endEmptyRoom(state: RoomState): Step {
  const open = { ...state, isLocked: shouldStayLocked(state) };
  if (!isRunOn(state)) return noEffects(backToForming(open));
  return recordEnd({ ...open, isRestoring: false }, 'failed', {
    message: 'All ranks have left, so the run has ended.',
  });
}

/**
 * Returns the newcomers of a generation that adds newcomers: ranks that have not linked yet and
 * cannot have the run's state. If another rank leaves, the next generation does not wait for these
 * newcomers.
 */
function newcomersOf({ phase, ring, membersWithState, hidden, reports }: RoomState): ReadonlySet<string> {
  const isNew = (member: string): boolean =>
    phase === 'LINKING' && !membersWithState.has(member) && !reports.has(member) && !hidden.get(member)?.hasEntered;
  return new Set(ring.flatMap(({ member }) => (membersWithState.size > 0 && isNew(member) ? [member] : [])));
}

/** Continues after `member` has left. `next` is `state` without this member. */
function afterLeave(state: RoomState, next: RoomState, member: string, reason: LeaveReason): Step {
  const rank = rankOf(state, member);
  const isOpen = isRunOn(state) && nodesOf(state) !== null;
  if (next.members.length === 0) {
    // A member that lost the network may return, so the run is paused. If the last member has
    // closed its tab, the run ends.
    const rest = isOpen && reason !== 'left' ? reform(next) : endEmptyRoom(next);
    const empty: RoomEffect[] = everyone(next).length === 0 ? [{ type: 'empty' }] : [roomMessage(rest.state)];
    return { state: rest.state, effects: [...rest.effects, { type: 'clearTimer', key: 'deadline' }, ...empty] };
  }
  // A rank that has finished may close its tab: its report has arrived, so the run does not fail.
  const hasFinished = state.phase === 'RUNNING' && state.reports.has(member);
  if (isOpen) return rank < 0 || hasFinished ? settle(next) : reform({ ...next, retries: 0 }, newcomersOf(state));
  if (rank < 0 || hasFinished) return settle(state.phase === 'FORMING' ? backToForming(next) : next);
  const who = `${nameMembers(state.ring, [rank])} ${LEFT_HOW[reason]} while ${DOING[state.phase]}`;
  return end(next, 'failed', `${who}, so the run ended. Start again with the others.`);
}
