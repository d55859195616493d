/** What a room is, what can happen to it and what follows. Plain immutable data. */
import type { ClientMessage, Refusal, ServerMessage } from '../../src/protocol/control.ts';
import type {
  Nodes,
  RoomOpening,
  RoomPhase,
  RoomSettings,
  RosterEntry,
  Spectator,
  ReconnectState,
} from '../../src/protocol/room.ts';
import { MAX_SPECTATORS } from '../../src/protocol/control.ts';
import { MAX_WORLD_SIZE } from '../../src/protocol/scalars.ts';
import { settingsOf } from '../../src/protocol/room.ts';
import { isElastic } from '../../src/spec/job.ts';
import type { Complaint, Faults, Suspension } from './records.ts';

export interface RoomState extends Readonly<RoomSettings> {
  readonly phase: RoomPhase;
  /** Number of the run that is on or was last; 0 before the first. */
  readonly run: number;
  /** Number of the latest generation; 0 before the first. It only grows. */
  readonly generation: number;
  /** As many as start by themselves: in a fixed room the world size. */
  readonly worldSize: number | null;
  readonly capacity: number;
  readonly spectatorCapacity: number;
  /** Whether members have a TURN relay to connect over where nothing else works. */
  readonly hasRelay: boolean;
  /** In the order they joined. */
  readonly members: readonly RosterEntry[];
  /** In the order they came. No members: whatever is done about members leaves them out. */
  readonly spectators: readonly Spectator[];
  /** What the room knows of each member and spectator, and tells nobody. */
  readonly hidden: ReadonlyMap<string, Hidden>;
  /**
   * The generation's members as `prepare` said them: index is rank. Empty while FORMING and PAUSED.
   */
  readonly ring: readonly RosterEntry[];
  /** Neighbours that connect over a relay, as `prepare` said. */
  readonly relayed: readonly [string, string][];
  /** What ring members have reported in this phase; equal texts mean equal states. */
  readonly reports: ReadonlyMap<string, string>;
  /** What ring members have reported that keeps this generation from going on. */
  readonly complaints: ReadonlyMap<string, Complaint>;
  /**
   * Ring members that have begun to compare states in this generation: what they did in the one
   * before is over.
   */
  readonly begun: ReadonlySet<string>;
  /**
   * Ranks of the run's latest generation that reached RUNNING: who has an older state would undo
   * their steps. Empty: none has.
   */
  readonly holders: ReadonlySet<string>;
  /** PAUSED, and nobody who has the run's latest state is there: it is over soon. */
  readonly isAbandoned: boolean;
  /** Generations in a row that nobody left or joined in between and that did not reach RUNNING. */
  readonly retries: number;
  /** Newcomers wait a moment after the last generation began. */
  readonly isCooling: boolean;
  /** What members have reported against each other in the last minutes. */
  readonly faults: Faults;
  /**
   * Browsers whose members were suspended, by their id; by the member's where a browser has none.
   */
  readonly suspensions: ReadonlyMap<string, Suspension>;
  /**
   * Pairs that could not link directly in this run: they connect over the relay. Empty in a room
   * that has no relay.
   */
  readonly unlinked: readonly (readonly [string, string])[];
  /**
   * Neighbours no more, as the link between them held up the ring. A member is in one pair at most.
   */
  readonly parted: readonly (readonly [string, string])[];
  /** How the latest run ended; `null`: none has, for all this server knows. */
  readonly ended: Ended | null;
  /** Whom a host has sent out: they do not come back as who they were. */
  readonly removed: ReadonlySet<string>;
  /** Made from what returning members say: who is still to return may know better. */
  readonly isDoubtful: boolean;
  /**
   * Runs and generations have this number at least: those below may have been, in a room that this
   * one was made from.
   */
  readonly numbersFrom: number;
  /** Highest generation that a returning member has heard of: its number is used up. */
  readonly heardOf: number;
}

export type Ended = Omit<Extract<ServerMessage, { type: 'ended' }>, 'type'>;

export interface Hidden {
  /** Its browser's id: who knew another's could pass for a tab of that browser. */
  readonly browser: string | undefined;
  /** The world size it counts on. */
  readonly worldSize: number | undefined;
  /** Whether it was a rank of a generation. */
  readonly hasRun: boolean;
  /** Whether it has begun to compare states in one: it may have been given the others'. */
  readonly hasEntered: boolean;
  readonly holdsKey: boolean;
  /** Its connection is gone; it may come back. */
  readonly isAway: boolean;
  /** It is in the room, and counted in no generation until its suspension is over. */
  readonly isSuspended: boolean;
  /**
   * The run whose state it has, be it an old one; `null`: none, `undefined`: it has not said yet.
   */
  readonly holds: number | null | undefined;
}

/** Who somebody is that asks to be let in. */
export type Newcomer = Pick<
  Extract<ClientMessage, { type: 'join' }>,
  'name' | 'browser' | 'rank' | 'worldSize' | 'isSpectator'
> & {
  /** Whether it has shown the room's host key. */
  holdsKey: boolean;
};

/** A client's message with its sender, as far as it concerns the room. */
type MemberEvent = Exclude<
  ClientMessage,
  { type: 'create' | 'join' | 'reconnect' | 'heartbeat' | 'leave' | 'remove' }
> & {
  member: string;
};

export type LeaveReason = 'left' | 'silent' | 'vanished' | 'dropped' | 'removed';

/** Somebody is at the door. A `return` has shown a good token. */
export type ArrivalEvent =
  | ({ type: 'join'; member: string } & Newcomer)
  | ({ type: 'reconnect'; member: string; reconnectState: ReconnectState } & Newcomer);

/** Of somebody who is in the room. */
export type PresentEvent =
  | MemberEvent
  | { type: 'remove'; member: string; whom: string }
  /** Its connection is gone without a word. */
  | { type: 'away'; member: string }
  | { type: 'left'; member: string; reason: LeaveReason };

export type RoomEvent = ArrivalEvent | PresentEvent | TimerEvent;

/** A timer set by the effect of the same name has run out. */
export type TimerEvent =
  | { type: 'deadline'; generation: number; phase: RoomPhase }
  | { type: 'missed'; member: string }
  /** Whoever noticed that this generation fails has had the time to say so. */
  | { type: 'gathered'; generation: number }
  /**
   * So many milliseconds have gone since all were linked: those who may take no longer have to
   * compare states by now.
   */
  | { type: 'entering'; generation: number; ms: number }
  | { type: 'grow' }
  | { type: 'forgive' }
  /**
   * The suspension of this number is over, or so is the time after it in which another would be
   * longer.
   */
  | { type: 'pardon'; id: number }
  | { type: 'abandoned' }
  | { type: 'doubts' };

export type RoomEffect =
  /** The member is in: tell it its id, token and ICE servers. */
  | { type: 'admit'; member: string }
  | { type: 'send'; to: readonly string[]; message: ServerMessage }
  /** Hand `event` in after `ms`. Replaces a timer of the same key. */
  | { type: 'setTimer'; key: string; ms: number; event: TimerEvent }
  | { type: 'clearTimer'; key: string }
  /** The member is out: tell it why and close its connection. */
  | { type: 'expel'; member: string; code: Refusal; message: string }
  /**
   * The last member has gone. The room can be joined again: the hub decides how long it waits for
   * that.
   */
  | { type: 'empty' };

export interface Step {
  readonly state: RoomState;
  readonly effects: readonly RoomEffect[];
}

export interface RoomOptions extends RoomOpening {
  capacity?: number;
  spectatorCapacity?: number;
  hasRelay?: boolean;
}

/**
 * Members that were sent out and are remembered; who was sent out before them has long lost its
 * token.
 */
export const MAX_REMOVED = 1024;

/** `removed` with one more, the latest last. */
export function withRemoved(removed: ReadonlySet<string>, member: string): ReadonlySet<string> {
  if (removed.has(member)) return removed;
  return new Set([...removed, member].slice(-MAX_REMOVED));
}

/** An empty room. */
export function createRoom(options: RoomOptions): RoomState {
  const { job, startAt, nodes, hasRelay = false } = options;
  const { capacity = MAX_WORLD_SIZE, spectatorCapacity = MAX_SPECTATORS } = options;
  return {
    ...{ phase: 'FORMING', run: 0, generation: 0, job, startAt, worldSize: startAt, nodes, hasRelay },
    ...{ capacity, spectatorCapacity, spectators: [] },
    ...{ isLocked: false, isHeld: false, members: [], hidden: new Map(), ring: [], relayed: [], reports: new Map() },
    ...{ holders: new Set(), isAbandoned: false, retries: 0, isCooling: false, faults: [], unlinked: [], parted: [] },
    ...{ complaints: new Map(), begun: new Set(), suspensions: new Map() },
    ...{ ended: null, removed: new Set(), isDoubtful: false, numbersFrom: 0, heardOf: 0 },
  };
}

/** Nothing changes. */
export function stay(state: RoomState): Step {
  return { state, effects: [] };
}

/** What `next` makes of a step's state, behind what the step did. */
export function andThen({ state, effects }: Step, next: (state: RoomState) => Step): Step {
  const after = next(state);
  return { state: after.state, effects: [...effects, ...after.effects] };
}

export function withEffects({ state, effects }: Step, ...more: readonly RoomEffect[]): Step {
  return { state, effects: [...more, ...effects] };
}

export function refuse(state: RoomState, member: string, code: Refusal, message: string): Step {
  return { state, effects: [{ type: 'send', to: [member], message: { type: 'refused', code, message } }] };
}

/** Ranks may come and go: `null`: they may not. */
export function nodesOf({ nodes, job }: RoomState): Nodes | null {
  return isElastic(job) ? nodes : null;
}

/** Whether a run is on, if only as one that waits. */
export function isRunOn({ phase }: RoomState): boolean {
  return phase !== 'FORMING';
}

export function isAway({ hidden }: RoomState, member: string): boolean {
  return hidden.get(member)?.isAway ?? false;
}

export function rankOf({ ring }: RoomState, member: string): number {
  return ring.findIndex((m) => m.member === member);
}

/** Whether two different members are ranks of the latest generation, and `generation` is that. */
export function isOfRing(state: RoomState, generation: number, member: string, peer: string): boolean {
  return generation === state.generation && member !== peer && rankOf(state, member) >= 0 && rankOf(state, peer) >= 0;
}

/** Members that are connected and have a device, suspended ones as well. */
export function presentMembers(state: RoomState): RosterEntry[] {
  return state.members.filter((m) => m.device !== null && !isAway(state, m.member));
}

/** Members that can be counted: connected, with a device, and not suspended. */
export function readyMembers(state: RoomState): RosterEntry[] {
  return presentMembers(state).filter((m) => !isSuspended(state, m.member));
}

export function isSuspended({ hidden }: RoomState, member: string): boolean {
  return hidden.get(member)?.isSuspended ?? false;
}

/** Who may control the room: who holds its key, or else the oldest member that is there. */
export function hostsOf(state: RoomState): string[] {
  const present = state.members.filter(({ member }) => !isAway(state, member)).map(({ member }) => member);
  const watching = state.spectators.map(({ member }) => member);
  const holders = [...present, ...watching].filter((member) => state.hidden.get(member)?.holdsKey);
  return holders.length > 0 ? holders : present.slice(0, 1);
}

export function isSpectator({ spectators }: RoomState, member: string): boolean {
  return spectators.some((one) => one.member === member);
}

/** Members and spectators. */
export function everyone({ members, spectators }: RoomState): string[] {
  return [...members, ...spectators].map(({ member }) => member);
}

/** A lock that nobody could ever open is none. */
export function keepsLock(state: RoomState): boolean {
  return state.isLocked && (state.members.length > 0 || hostsOf(state).length > 0);
}

export function change(state: RoomState, member: string, known: Partial<Hidden>): RoomState {
  const before = state.hidden.get(member);
  return before === undefined
    ? state
    : { ...state, hidden: new Map(state.hidden).set(member, { ...before, ...known }) };
}

/** Makes members not ready: `null` device. */
export function unready(state: RoomState, which: (member: string) => boolean): RoomState {
  return { ...state, members: state.members.map((m) => (which(m.member) ? { ...m, device: null } : m)) };
}

/** Ready members with whom a run begins by itself; `null`: the host begins it. */
export function startsWith(state: RoomState): number | null {
  return state.startAt === null ? null : Math.max(state.startAt, nodesOf(state)?.min ?? 0);
}

/** Ready members that are missing for a run to begin by itself, or to go on. */
export function waitingFor(state: RoomState): number {
  // Suspended members are counted where too few others are ready.
  if (state.phase === 'FORMING') return Math.max(0, (startsWith(state) ?? 0) - presentMembers(state).length);
  if (state.phase !== 'PAUSED') return 0;
  // Enough are there, and the state is not; or they wait for the host.
  return Math.max(state.isHeld ? 0 : 1, (nodesOf(state)?.min ?? 0) - readyMembers(state).length);
}

/** The room as it is now, for everybody in it. */
export function roomMessage(state: RoomState): RoomEffect {
  const { phase, run, generation, members, spectators } = state;
  const [hosts, missing] = [hostsOf(state), waitingFor(state)];
  return {
    type: 'send',
    to: everyone(state),
    message: {
      ...{ type: 'room', phase, run, generation, hosts, members: [...members], spectators: [...spectators] },
      ...{ ...settingsOf(state), waitingFor: missing },
    },
  };
}

export function tellRoom(state: RoomState): Step {
  return { state, effects: [roomMessage(state)] };
}

/** To the generation's members that are still here. */
export function toRing(state: RoomState, message: ServerMessage): RoomEffect {
  const here = new Set(state.members.map((m) => m.member));
  return { type: 'send', to: state.ring.map((m) => m.member).filter((id) => here.has(id)), message };
}
