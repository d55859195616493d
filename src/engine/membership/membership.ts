/**
 * Decides how a member follows the generations of its room. It is a pure function: (state, event)
 * -> (state, effects). It has no sockets, clock or links. The rendezvous passes the server's
 * messages and the results of links and runs to this function, and executes the effects. So tests
 * can run this function together with the server's `signaling/room`, and with messages in any
 * order.
 *
 * WAITING -> LINKING(g) -> SYNCING(g) -> RUNNING(g), and back
 *
 * Two generations may exist at the same time: if members only join, the older generation trains
 * until all links of the newer generation are open.
 */
import { roomSettingsOf, type RosterEntry, type ReconnectReport } from '../../protocol/room.ts';
import type { ClientMessage, RunOutcome, ServerMessage } from '../../protocol/control.ts';
import { englishNoticeMessageOf, type NoticeMessage } from '../../protocol/notices.ts';

export interface MembershipState {
  /** This member's id; `null` before the server has admitted it. */
  readonly member: string | null;
  /** Whether the server receives this member's messages. */
  readonly isConnected: boolean;
  /** The latest run that this member knows; 0 if it knows none. */
  readonly run: number;
  /** The highest generation that this member knows; 0 if it knows none. */
  readonly generation: number;
  /** The generation whose links are being opened. */
  readonly linking: Linking | null;
  /** The generation whose process group exists. */
  readonly active: Active | null;
  /**
   * The number of further ready members that a paused run needs; 0 if it waits for the host. `null`
   * if no run is paused.
   */
  readonly pausedFor: number | null;
  /** Whether the latest run has ended. */
  readonly isOver: boolean;
  /**
   * The run in which this tab took part under an earlier id; 0 if the tab takes part in a run
   * again, or knows that the earlier run has ended.
   */
  readonly lostRun: number;
}

export interface RunEnd extends NoticeMessage {
  run: number;
  outcome: RunOutcome;
}

interface GenerationOf {
  readonly generation: number;
  readonly run: number;
  /** In ring order. */
  readonly members: readonly RosterEntry[];
}

/**
 * Reports that the server needs about a generation. They are sent again after a lost connection.
 */
type Report = Extract<ClientMessage, { type: 'linked' | 'synced' | 'finished' | 'failed' | 'broken' | 'late' }>;

/**
 * Tells the server that this rank has begun to synchronize. It is sent again after a lost
 * connection, unless there is a later report.
 */
type Begun = Extract<ClientMessage, { type: 'syncing' }>;

interface Linking extends GenerationOf {
  /** Pairs of members that must connect over a TURN relay. */
  readonly relayed: readonly (readonly [string, string])[];
  readonly report: Report | null;
}

interface Active extends GenerationOf {
  /**
   * STALLED means that the generation has failed on this rank, and the server decides what to do.
   */
  readonly phase: 'SYNCING' | 'RUNNING' | 'FINISHED' | 'STALLED';
  /** Whether this rank has begun to compare states with the other ranks. */
  readonly hasBegun: boolean;
  readonly report: Report | null;
}

/** A rank's state before the first step of a generation, or after its last step. */
export interface RankStateReport {
  /** The number of steps applied so far. */
  step: number;
  stateHash: string;
}

export type MembershipEvent =
  | Extract<ServerMessage, { type: 'prepare' | 'sync' | 'go' | 'pause' | 'suspended' | 'ended' }>
  /** The server has described the room. */
  | Pick<Extract<ServerMessage, { type: 'room' }>, 'type' | 'run' | 'phase'>
  /** The server has admitted this member, possibly again. */
  | { type: 'admitted'; member: string }
  /** The connection to the server is lost. */
  | { type: 'lost' }
  /**
   * All links to the ring neighbours are open. `served` lists the neighbours whose link goes
   * through the server; it is missing if there are no such neighbours.
   */
  | { type: 'linked'; generation: number; served?: string[] }
  /**
   * Links to these ranks broke or could not be opened (`broken`), or these ranks did not call a
   * collective in time (`late`).
   */
  | { type: 'broken' | 'late'; generation: number; peers: string[] }
  /** `enter` has begun. Work of this rank for earlier generations has ended. */
  | { type: 'entering'; generation: number }
  /** `enter` or `train` has resolved with this state. */
  | ({ type: 'entered' | 'trained'; generation: number } & RankStateReport)
  | { type: 'failed'; generation: number; message: string; scope: Extract<Report, { type: 'failed' }>['scope'] };

export type MembershipEffect =
  | { type: 'send'; message: Report | Begun }
  /** Open the generation's links. */
  | { type: 'link'; prepare: Extract<ServerMessage, { type: 'prepare' }> }
  /** The generation has ended on this rank: abort its waiting operations and close its links. */
  | { type: 'drop'; generation: number; reason: string }
  /**
   * Create the generation's process group, and synchronize the rank's state with the other ranks.
   */
  | { type: 'enter'; generation: number }
  /** Train. */
  | { type: 'train'; generation: number }
  | ({ type: 'end' } & RunEnd);

interface MembershipStep {
  readonly state: MembershipState;
  readonly effects: readonly MembershipEffect[];
}

export const INITIAL_MEMBERSHIP: MembershipState = {
  member: null,
  isConnected: false,
  run: 0,
  generation: 0,
  linking: null,
  active: null,
  pausedFor: null,
  isOver: false,
  lostRun: 0,
};

/**
 * Returns the state after `event`, and the effects. Never throws. An event of a generation that is
 * not the expected one changes nothing.
 */
export function nextMembership(state: MembershipState, event: MembershipEvent): MembershipStep {
  const { linking, active } = state;
  switch (event.type) {
    case 'admitted':
      return admitted(state, event.member);
    case 'lost':
      return { state: { ...state, isConnected: false }, effects: [] };
    case 'prepare':
      return prepare(state, event);
    case 'linked':
      if (linking?.generation !== event.generation || linking.report !== null) return stay(state);
      return send({ ...state, linking: { ...linking, report: event } }, event);
    case 'sync': {
      if (linking?.generation !== event.generation || linking.report?.type !== 'linked') return stay(state);
      const { generation, run, members } = linking;
      const entering: Active = { generation, run, members, phase: 'SYNCING', hasBegun: false, report: null };
      return {
        state: { ...state, linking: null, active: entering },
        effects: [...drop(active, `Generation ${generation} began.`), { type: 'enter', generation }],
      };
    }
    case 'entering':
      if (active?.generation !== event.generation || active.phase !== 'SYNCING' || active.report) return stay(state);
      return send(
        { ...state, active: { ...active, hasBegun: true } },
        { type: 'syncing', generation: event.generation },
      );
    case 'entered':
      return done(state, event, 'SYNCING', 'SYNCING', 'synced');
    case 'go':
      if (active?.generation !== event.generation || active.phase !== 'SYNCING' || !active.report) return stay(state);
      return {
        state: { ...state, active: { ...active, phase: 'RUNNING', report: null } },
        effects: [{ type: 'train', generation: event.generation }],
      };
    case 'trained':
      return done(state, event, 'RUNNING', 'FINISHED', 'finished');
    case 'failed':
    case 'broken':
    case 'late':
      return fail(state, event);
    case 'pause':
      if (event.generation < state.generation || event.run < state.run || (state.isOver && event.run === state.run))
        return stay(state);
      return leaveGenerations(
        { ...state, run: event.run, pausedFor: event.waitingFor, isOver: false },
        event.waitingFor === 0 ? 'The host has paused the run.' : 'The run is paused until more ranks join.',
      );
    case 'suspended':
      if (event.generation < state.generation) return stay(state);
      return leaveGenerations({ ...state, generation: event.generation }, event.message);
    case 'room': {
      const { lostRun } = state;
      const isOver = event.run > lostRun || (event.run === lostRun && event.phase === 'FORMING');
      return lostRun > 0 && isOver ? endWithoutThisTab(state) : stay(state);
    }
    case 'ended': {
      const isLost = state.lostRun > 0 && event.run === state.lostRun;
      if (isLost && event.outcome === 'finished') return endWithoutThisTab(state);
      if (!isLost && (event.run !== state.run || state.isOver)) return stay(state);
      const left = leaveGenerations({ ...state, pausedFor: null, isOver: true, lostRun: 0 }, event.message);
      return { state: left.state, effects: [...left.effects, { ...event, type: 'end' }] };
    }
    default:
      return event satisfies never;
  }
}

/**
 * Ends a run for a tab that is in no generation and does not know how the run ended. If the tab had
 * already finished the run, it has the result.
 */
function endWithoutThisTab(state: MembershipState): MembershipStep {
  const end: RunEnd = { run: state.lostRun, outcome: 'finished', ...englishNoticeMessageOf({ code: 'lost-place' }) };
  return { state: { ...state, isOver: true, lostRun: 0 }, effects: [{ type: 'end', ...end }] };
}

function stay(state: MembershipState): MembershipStep {
  return { state, effects: [] };
}

function send(state: MembershipState, message: Report | Begun): MembershipStep {
  return { state, effects: state.isConnected ? [{ type: 'send', message }] : [] };
}

function drop(generation: GenerationOf | null, reason: string): MembershipEffect[] {
  return generation === null ? [] : [{ type: 'drop', generation: generation.generation, reason }];
}

function leaveGenerations(state: MembershipState, reason: string): MembershipStep {
  const effects = [...drop(state.linking, reason), ...drop(state.active, reason)];
  return { state: { ...state, linking: null, active: null }, effects };
}

function admitted(state: MembershipState, member: string): MembershipStep {
  // The server has admitted this tab as a new member. A new member belongs to none of the
  // generations that the tab knows, so the tab forgets their numbers.
  if (state.member !== null && state.member !== member) {
    const { effects } = leaveGenerations(state, 'This tab is no longer in the ring.');
    const lostRun = state.run > 0 && !state.isOver ? state.run : state.lostRun;
    return { state: { ...INITIAL_MEMBERSHIP, member, isConnected: true, lostRun }, effects };
  }
  const next = { ...state, member, isConnected: true };
  const { linking, active } = state;
  const begun: Begun | null = active?.hasBegun ? { type: 'syncing', generation: active.generation } : null;
  const reports = [linking?.report, active?.report ?? (active?.phase === 'SYNCING' ? begun : null)];
  return { state: next, effects: reports.flatMap((message) => (message ? [{ type: 'send', message }] : [])) };
}

function prepare(state: MembershipState, event: Extract<MembershipEvent, { type: 'prepare' }>): MembershipStep {
  const { generation, run, members, relayed } = event;
  if (generation <= state.generation) return stay(state);
  const { linking, active } = state;
  const staysOn =
    active !== null && active.run === run && active.phase !== 'STALLED' && isWithin(active.members, members);
  const reason = `Generation ${generation} began.`;
  return {
    state: {
      ...{ ...state, generation, run, pausedFor: null, isOver: false, lostRun: 0, active: staysOn ? active : null },
      linking: { generation, run, members, relayed, report: null },
    },
    effects: [...drop(linking, reason), ...drop(staysOn ? null : active, reason), { type: 'link', prepare: event }],
  };
}

function isWithin(some: readonly RosterEntry[], all: readonly RosterEntry[]): boolean {
  const ids = new Set(all.map(({ member }) => member));
  return some.every(({ member }) => ids.has(member));
}

function done(
  state: MembershipState,
  { generation, step, stateHash }: Extract<MembershipEvent, { type: 'entered' | 'trained' }>,
  before: Active['phase'],
  after: Active['phase'],
  type: 'synced' | 'finished',
): MembershipStep {
  const { active } = state;
  if (active?.generation !== generation || active.phase !== before || active.report) return stay(state);
  const report = { type, generation, step, stateHash };
  return send({ ...state, active: { ...active, phase: after, report } }, report);
}

function fail(
  state: MembershipState,
  event: Extract<MembershipEvent, { type: 'failed' | 'broken' | 'late' }>,
): MembershipStep {
  const { linking, active } = state;
  if (linking?.generation === event.generation)
    return send({ ...state, linking: { ...linking, report: event } }, event);
  // A finished rank does not report lost neighbours, because it no longer needs them. Ranks that
  // have not finished report them, and the server starts another generation.
  if (active?.generation !== event.generation || active.phase === 'STALLED' || active.phase === 'FINISHED')
    return stay(state);
  const stalled: Active = { ...active, phase: 'STALLED', report: event };
  const isOut = event.type === 'failed' && event.scope === 'rank';
  const sent = send({ ...state, active: stalled, linking: isOut ? null : linking }, event);
  // If the error concerns this rank alone, the rank also leaves the generation whose links are
  // being opened.
  return isOut ? { ...sent, effects: [...drop(linking, event.message), ...sent.effects] } : sent;
}

/** Returns a line for the debug log: the event, the phases before and after it, and the effects. */
export function describeMembershipStep(
  before: MembershipState,
  event: MembershipEvent,
  { state, effects }: MembershipStep,
): string {
  const names = effects.map((effect) => (effect.type === 'send' ? `send ${effect.message.type}` : effect.type));
  const phases = [...new Set([describePhase(before), describePhase(state)])].join(' -> ');
  return `Member ${state.member}, generation ${state.generation}: ${event.type}, ${phases}; effects: ${names.join(', ') || 'none'}.`;
}

function describePhase({ linking, active, isConnected }: MembershipState): string {
  const generations = [active && `${active.phase}(${active.generation})`, linking && `LINKING(${linking.generation})`];
  return `${generations.filter(Boolean).join(' ') || 'WAITING'}${isConnected ? '' : ' without the server'}`;
}

/** Returns a member's report after a reconnect. `room` is the latest message about its room. */
export function reconnectStateOf(
  state: MembershipState,
  room: Extract<ServerMessage, { type: 'room' }>,
): ReconnectReport {
  const { removed, phase } = room;
  const { active } = state;
  const isSteady = active?.phase === 'RUNNING' || active?.phase === 'FINISHED';
  return {
    settings: { ...roomSettingsOf(room), ...(removed && { removed }) },
    run: Math.max(state.run, room.run),
    isRunOn: room.run > state.run ? phase !== 'FORMING' : state.run > 0 && !state.isOver,
    hasTrained: isSteady || (room.run >= state.run && room.hasTrained),
    generation: Math.max(state.generation, room.generation),
    active: active && {
      generation: active.generation,
      ring: [...active.members],
      isSteady,
    },
  };
}
