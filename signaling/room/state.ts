/** The state, events and effects of a room. All of them are plain immutable data. */
import type { Breaks, Pairs } from './edges.ts';
import {
  MAX_SPECTATORS,
  type ClientMessage,
  type RefusalCode,
  type ServerMessage,
} from '../../src/protocol/control.ts';
import {
  type NodeCountRange,
  type Pulse,
  type RoomOpening,
  type RoomPhase,
  type RoomSettings,
  type RosterEntry,
  type Spectator,
  type ReconnectReport,
} from '../../src/protocol/room.ts';
import { MAX_WORLD_SIZE } from '../../src/protocol/scalars.ts';
import { isElasticJob } from '../../src/spec/job.ts';
import type { Complaint, Faults, Feed, Suspension } from './records.ts';

export interface RoomState extends Readonly<RoomSettings> {
  /** Whether this is the room of network checks: members link in pairs, and nobody trains. */
  readonly isCheck: boolean;
  readonly phase: RoomPhase;
  /** Number of the current or latest run; 0 before the first run. */
  readonly run: number;
  /** Number of the latest generation; 0 before the first. The number only grows. */
  readonly generation: number;
  /**
   * World size at which the room starts by itself; `null` if the host starts the runs. In a room
   * with a fixed world, all runs have this size.
   */
  readonly worldSize: number | null;
  readonly capacity: number;
  readonly spectatorCapacity: number;
  /** Whether members have a TURN relay as a last resort. */
  readonly hasRelay: boolean;
  /** Whether the server links pairs of members that cannot link directly. */
  readonly hasServerLinks: boolean;
  /**
   * Whether all pairs of different browsers link through the server. The room then has nothing to
   * decide about routes, and failures show nothing about the networks of members.
   */
  readonly servesAll: boolean;
  /**
   * Bytes per second that the server forwards for links of all rooms; `null` if it forwards none.
   */
  readonly serverLinksRate: number | null;
  /** Members in the order in which they joined. */
  readonly members: readonly RosterEntry[];
  /** Spectators in the order in which they joined. They are not members. */
  readonly spectators: readonly Spectator[];
  /** Private data of each member and spectator. It is not sent to others. */
  readonly hidden: ReadonlyMap<string, Hidden>;
  /** The generation's members by rank, as in `prepare`. Empty while FORMING and PAUSED. */
  readonly ring: readonly RosterEntry[];
  /** Neighbours that connect over a relay, as in the `prepare` message. */
  readonly relayed: readonly [string, string][];
  /**
   * Neighbours of different browsers that link through the server: as in the `prepare` message, or,
   * once an end of a link has reported, as in its report.
   */
  readonly served: readonly [string, string][];
  /** Texts that ring members reported in this phase, by member. Equal texts mean equal states. */
  readonly reports: ReadonlyMap<string, string>;
  /** Complaints of ring members, by member: why this generation cannot continue. */
  readonly complaints: ReadonlyMap<string, Complaint>;
  /**
   * Ring members that reported a slow link in this generation, for which no better order was found.
   */
  readonly slowReporters: ReadonlySet<string>;
  /** Ring members that have entered SYNCING: their work of the previous generation is over. */
  readonly begun: ReadonlySet<string>;
  /**
   * Members with the run's latest state: the ranks of the latest generation that began to train
   * (reached RUNNING). The states of other members are older and would undo steps. Empty if no
   * generation has reached RUNNING.
   */
  readonly membersWithState: ReadonlySet<string>;
  /**
   * Whether the room is PAUSED and no member with the run's latest state is present. Such a run
   * ends soon.
   */
  readonly isAbandoned: boolean;
  /** Number of consecutive further attempts after failures without a known cause; see `retry`. */
  readonly retries: number;
  /** Highest step at which a generation of this run began; 0 before the first generation. */
  readonly beganAt: number;
  /** Whether newcomers wait because a generation has just begun. */
  readonly isCooling: boolean;
  /** Feeds by newcomer; see `feeds.ts`. */
  readonly feeds: ReadonlyMap<string, Feed>;
  /** Faults that members reported about each other in the last minutes. */
  readonly faults: Faults;
  /** Suspensions by browser id, or by member id if the browser is unknown. */
  readonly suspensions: ReadonlyMap<string, Suspension>;
  /**
   * Pairs that could not link directly: they connect over the relay or, without one, through the
   * server. Empty in a room with neither. Pairs that need the server are kept for later runs.
   */
  readonly unlinked: Pairs;
  /** Pairs that began with the server only because one of their members may be isolated. */
  readonly unproven: Pairs;
  /** Pairs that linked through the server although they had to connect over the relay. */
  readonly unrelayed: Pairs;
  /**
   * Pairs of different browsers that have linked directly. Empty unless the server is the only
   * remedy of other pairs.
   */
  readonly direct: Pairs;
  /**
   * Pairs of ranks that have a direct connection beside their link through the server. The next
   * generation uses it.
   */
  readonly kept: Pairs;
  /** Number of generations of this run that began with a kept connection, by pair. */
  readonly upgrades: Breaks;
  /**
   * Number of generations that began only because another order has fewer links through the server.
   * Counted since the ranks last changed, or in the whole run if no two browsers have linked
   * directly.
   */
  readonly reorders: number;
  /**
   * Whether the ranks of the latest generation that reached RUNNING still train. They still train
   * while newcomers link to them.
   */
  readonly isTraining: boolean;
  /** Pairs that linked in failed LINKINGs of this run; empty after a LINKING that succeeded. */
  readonly linked: Pairs;
  /**
   * Pairs that are no longer neighbours because the link between them slowed down the ring. A
   * member is in one pair at most.
   */
  readonly separated: Pairs;
  /** How the latest run ended; `null` if this server knows of no run that has ended. */
  readonly ended: Ended | null;
  /** Members that a host has removed. They cannot reconnect. */
  readonly removed: ReadonlySet<string>;
  /**
   * Whether the room is being restored from the states of its members. Members that have not
   * returned yet may know a later run or generation.
   */
  readonly isRestoring: boolean;
  /**
   * Smallest number for new runs and generations. Smaller numbers may have been used before the
   * room was restored.
   */
  readonly numbersFrom: number;
  /** Highest number of a feed or of a reported generation. New generations have higher numbers. */
  readonly highestReported: number;
}

export type Ended = Omit<Extract<ServerMessage, { type: 'ended' }>, 'type'>;

export interface Hidden {
  /**
   * Id of the member's browser. It is private, because another tab could use it to pretend to be in
   * that browser.
   */
  readonly browser: string | undefined;
  /** The world size that the member expects. */
  readonly worldSize: number | undefined;
  /** Whether the member was a rank of a generation. */
  readonly hasRun: boolean;
  /** Whether the member has ever entered SYNCING: it may have received the state of other ranks. */
  readonly hasEntered: boolean;
  readonly holdsKey: boolean;
  /** The latest pulse; `null` before the first. */
  readonly pulse: Pulse | null;
  /** Whether the member's connection is lost. The member may return. */
  readonly isAway: boolean;
  /** Whether the member is left out of generations until its suspension ends. */
  readonly isSuspended: boolean;
  /**
   * The run whose state the member has, even if this state is outdated. `null`: it has no state.
   * `undefined`: it has not reported yet.
   */
  readonly stateOfRun: number | null | undefined;
}

/** A member that requests to join. */
export type Newcomer = Pick<
  Extract<ClientMessage, { type: 'join' }>,
  'name' | 'browser' | 'rank' | 'worldSize' | 'isSpectator'
> & {
  /** Whether the newcomer has presented the room's host key. */
  holdsKey: boolean;
};

/** A client's message with its sender. Only messages that concern the room are included. */
type MemberEvent = Exclude<ClientMessage, { type: 'create' | 'join' | 'reconnect' | 'leave' | 'remove' }> & {
  member: string;
};

export type LeaveReason = 'left' | 'silent' | 'vanished' | 'dropped' | 'removed';

/** A tab joins or reconnects. For `reconnect`, the connection has already checked the token. */
type ArrivalEvent =
  | ({ type: 'join'; member: string } & Newcomer)
  | ({ type: 'reconnect'; member: string; reconnectState: ReconnectReport } & Newcomer);

/** An event of a present member. */
export type PresentEvent =
  | MemberEvent
  | { type: 'remove'; member: string; whom: string }
  /** The member's connection was lost without a message. */
  | { type: 'away'; member: string }
  | { type: 'left'; member: string; reason: LeaveReason };

export type RoomEvent = ArrivalEvent | PresentEvent | TimerEvent;

/** The event of a timer that has fired; a `setTimer` effect started the timer. */
export type TimerEvent =
  | { type: 'deadline'; generation: number; phase: RoomPhase }
  | { type: 'missed'; member: string }
  /** The time for further reports of a failure of this generation is over. */
  | { type: 'gathered'; generation: number }
  /**
   * `ms` have passed since all ranks were linked. Ranks whose time limit is `ms` or less must have
   * entered SYNCING.
   */
  | { type: 'entering'; generation: number; ms: number }
  | { type: 'grow' }
  | { type: 'age-faults' }
  /** The suspension with this id has ended, or the probation after it. */
  | { type: 'suspension-end'; id: number }
  | { type: 'abandoned' }
  | { type: 'restore-timeout' };

export type RoomEffect =
  /** The member is admitted: send its id, token and ICE servers. */
  | { type: 'admit'; member: string }
  | { type: 'send'; to: readonly string[]; message: ServerMessage }
  /** Dispatch `event` after `ms`. Replaces a timer with the same key. */
  | { type: 'setTimer'; key: string; ms: number; event: TimerEvent }
  | { type: 'clearTimer'; key: string }
  /** The member is removed: send the reason and close its connection. */
  | { type: 'expel'; member: string; code: RefusalCode; message: string }
  /** The last member has left. The room can be joined again for a time that the hub decides. */
  | { type: 'empty' };

export interface Step {
  readonly state: RoomState;
  readonly effects: readonly RoomEffect[];
}

export interface RoomOptions extends RoomOpening {
  isCheck?: boolean;
  capacity?: number;
  spectatorCapacity?: number;
  hasRelay?: boolean;
  /** Not allowed together with `servesAll`, which also excludes `hasRelay`. */
  hasServerLinks?: boolean;
  servesAll?: boolean;
  serverLinksRate?: RoomState['serverLinksRate'];
}

/**
 * Maximum number of removed members that a room remembers. When there are more, the room forgets
 * the oldest, whose tokens have probably expired.
 */
export const MAX_REMOVED = 1024;

/** Returns `removed` with one more member at its end. */
export function withRemoved(removed: ReadonlySet<string>, member: string): ReadonlySet<string> {
  if (removed.has(member)) return removed;
  return new Set([...removed, member].slice(-MAX_REMOVED));
}

/** Creates an empty room. */
export function createRoom(options: RoomOptions): RoomState {
  const { job, startAt, nodes, isCheck = false } = options;
  const { hasRelay = false, hasServerLinks = false, servesAll = false, serverLinksRate = null } = options;
  const { capacity = MAX_WORLD_SIZE, spectatorCapacity = MAX_SPECTATORS } = options;
  return {
    isCheck,
    phase: 'FORMING',
    run: 0,
    generation: 0,
    job,
    startAt,
    worldSize: startAt,
    nodes,
    hasRelay,
    hasServerLinks,
    servesAll,
    serverLinksRate,
    capacity,
    spectatorCapacity,
    spectators: [],
    isLocked: false,
    isPausedByHost: false,
    members: [],
    hidden: new Map(),
    ring: [],
    relayed: [],
    served: [],
    reports: new Map(),
    membersWithState: new Set(),
    isAbandoned: false,
    retries: 0,
    beganAt: 0,
    isCooling: false,
    feeds: new Map(),
    faults: [],
    unlinked: [],
    unproven: [],
    unrelayed: [],
    direct: [],
    kept: [],
    upgrades: new Map(),
    reorders: 0,
    linked: [],
    isTraining: false,
    separated: [],
    complaints: new Map(),
    slowReporters: new Set(),
    begun: new Set(),
    suspensions: new Map(),
    ended: null,
    removed: new Set(),
    isRestoring: false,
    numbersFrom: 0,
    highestReported: 0,
  };
}

/** Returns a step without effects. */
export function noEffects(state: RoomState): Step {
  return { state, effects: [] };
}

/** Applies `next` to a step's state and appends its effects. */
export function andThen({ state, effects }: Step, next: (state: RoomState) => Step): Step {
  const after = next(state);
  return { state: after.state, effects: [...effects, ...after.effects] };
}

export function withEffects({ state, effects }: Step, ...more: readonly RoomEffect[]): Step {
  return { state, effects: [...more, ...effects] };
}

export function refuse(state: RoomState, member: string, code: RefusalCode, message: string): Step {
  return { state, effects: [{ type: 'send', to: [member], message: { type: 'refused', code, message } }] };
}

/** Returns the bounds of an elastic run, or `null` if the world is fixed. */
export function nodesOf({ nodes, job }: RoomState): NodeCountRange | null {
  return isElasticJob(job) ? nodes : null;
}

/** Whether there is a run; it may be paused. */
export function isRunOn({ phase }: RoomState): boolean {
  return phase !== 'FORMING';
}

export function isAway({ hidden }: RoomState, member: string): boolean {
  return hidden.get(member)?.isAway ?? false;
}

/** Returns the id of a member's browser, or the member's own id if its browser is unknown. */
export function browserOf({ hidden }: RoomState, member: string): string {
  return hidden.get(member)?.browser ?? member;
}

export function rankOf({ ring }: RoomState, member: string): number {
  return ring.findIndex((m) => m.member === member);
}

/** Whether `generation` is the latest generation, and `member` and `peer` are two of its ranks. */
export function isOfRing(state: RoomState, generation: number, member: string, peer: string): boolean {
  return generation === state.generation && member !== peer && rankOf(state, member) >= 0 && rankOf(state, peer) >= 0;
}

/** Whether the ranks that train go on training while the members of `ring` link. */
export function trainsOn({ isTraining, membersWithState }: RoomState, ring: readonly RosterEntry[]): boolean {
  return isTraining && [...membersWithState].every((one) => ring.some(({ member }) => member === one));
}

/** Returns the members that are connected and have a device, including suspended ones. */
export function presentMembers(state: RoomState): RosterEntry[] {
  return state.members.filter((m) => m.device !== null && !isAway(state, m.member));
}

/** Returns the members that can train: connected, with a device, and not suspended. */
export function readyMembers(state: RoomState): RosterEntry[] {
  return presentMembers(state).filter((m) => !isSuspended(state, m.member));
}

export function isSuspended({ hidden }: RoomState, member: string): boolean {
  return hidden.get(member)?.isSuspended ?? false;
}

/**
 * Returns the ids of present members and spectators with the room's host key. They may control the
 * room. If there are none, the oldest present member may control it.
 */
export function hostsOf(state: RoomState): string[] {
  const present = state.members.filter(({ member }) => !isAway(state, member)).map(({ member }) => member);
  const watching = state.spectators.map(({ member }) => member);
  const holders = [...present, ...watching].filter((member) => state.hidden.get(member)?.holdsKey);
  return holders.length > 0 ? holders : present.slice(0, 1);
}

export function isSpectator({ spectators }: RoomState, member: string): boolean {
  return spectators.some((spectator) => spectator.member === member);
}

/** Returns the ids of all members and spectators. */
export function everyone({ members, spectators }: RoomState): string[] {
  return [...members, ...spectators].map(({ member }) => member);
}

export function change(state: RoomState, member: string, known: Partial<Hidden>): RoomState {
  const before = state.hidden.get(member);
  return before === undefined
    ? state
    : { ...state, hidden: new Map(state.hidden).set(member, { ...before, ...known }) };
}

/** Marks members as not ready, with a device of `null`. */
export function unready(state: RoomState, which: (member: string) => boolean): RoomState {
  return { ...state, members: state.members.map((m) => (which(m.member) ? { ...m, device: null } : m)) };
}

/**
 * Returns the number of ready members at which a run begins by itself, or `null` if the host begins
 * it.
 */
export function startsWith(state: RoomState): number | null {
  return state.startAt === null ? null : Math.max(state.startAt, nodesOf(state)?.min ?? 0);
}

/** Returns how many ready members are still missing before a run begins by itself or resumes. */
export function waitingFor(state: RoomState): number {
  // Suspended members are included, because they are used if too few others are ready.
  if (state.phase === 'FORMING') return Math.max(0, (startsWith(state) ?? 0) - presentMembers(state).length);
  if (state.phase !== 'PAUSED') return 0;
  // If enough members are ready and the host has not paused the run, it is paused because none of
  // them has the state. So at least one more member is needed.
  return Math.max(state.isPausedByHost ? 0 : 1, (nodesOf(state)?.min ?? 0) - readyMembers(state).length);
}

/** Returns the effect that sends a message to all present members of the generation. */
export function toRing(state: RoomState, message: ServerMessage): RoomEffect {
  const here = new Set(state.members.map((m) => m.member));
  return { type: 'send', to: state.ring.map((m) => m.member).filter((id) => here.has(id)), message };
}
