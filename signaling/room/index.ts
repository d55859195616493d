/**
 * A room as a pure function: (state, event) -> (state, effects). The function uses no sockets, no
 * clock and no randomness. The hub passes events to it and carries out its effects. So tests can
 * pass millions of random events to a room.
 *
 *   FORMING --start--> LINKING(g) --all linked--> SYNCING(g) --all synced--> RUNNING(g)
 *      ^                   ^                                                   |   |
 *      |                   |   a member joins, leaves or cannot be reached:    |   |
 *      |                   +-- g + 1; PAUSED while too few are ready, or the --+   |
 *      |                       host pauses the run                                 |
 *      +---------------------------- all finished ---------------------------------+
 *
 * A room has a fixed world if `nodes` is null or the strategy is not elastic. Each of its runs has
 * one generation: a rank that leaves or fails ends the run for all ranks, with a message that names
 * this rank.
 */
import { asHost, configure, pauseRun, lock, ready, remove, resume, start, stop } from './controls.ts';
import { mayLink, onGrow, settle } from './generations.ts';
import {
  onAccusation,
  failed,
  onAbandoned,
  onDeadline,
  onEnteringTimeout,
  onAgeFaults,
  onGathered,
  slow,
} from './failures.ts';
import { extendSyncing, onDirect, onLinked, onSynced, report } from './reports.ts';
import { onPulse, sendPulses } from './pulses.ts';
import { join, removeMember, disconnect } from './members.ts';
import { reconnect, finishRestore, onRestoreTimeout } from './reconnect.ts';
import { removeSpectator, forwardUpdate } from './spectators.ts';
import { showReceived } from './feeds.ts';
import { endSuspension } from './suspensions.ts';
import {
  andThen,
  isAway,
  isOfRing,
  isSpectator,
  noEffects,
  type PresentEvent,
  type RoomEvent,
  type RoomState,
  type Step,
  type TimerEvent,
} from './state.ts';

export { MAX_RETRIES, mayLink } from './generations.ts';
export { ABANDONED_MS, COOLING_MS, ENTERING_MS, LINKING_MS, SYNCING_MS } from './timers.ts';
export { AWAY_MS } from './members.ts';
export { restore, RESTORE_MS } from './reconnect.ts';
export {
  createRoom,
  hostsOf,
  type LeaveReason,
  type Newcomer,
  type RoomEffect,
  type RoomEvent,
  type RoomOptions,
  type RoomState,
  type Step,
} from './state.ts';

/**
 * Applies `event` to a room. Never throws; events that do not fit the room's phase or generation
 * change nothing.
 */
export function step(state: RoomState, event: RoomEvent): Step {
  if (!('member' in event)) return onTimer(state, event);
  if (event.type === 'reconnect') return reconnect(state, event);
  const isHere = state.hidden.has(event.member);
  if (event.type === 'join') return isHere ? noEffects(state) : join(state, event.member, event);
  return isHere ? onMemberEvent(state, event) : noEffects(state);
}

function onTimer(state: RoomState, event: Exclude<TimerEvent, Missed>): Step {
  switch (event.type) {
    case 'deadline':
      return onDeadline(state, event.generation, event.phase);
    case 'gathered':
      return onGathered(state, event.generation);
    case 'entering':
      return onEnteringTimeout(state, event.generation, event.ms);
    case 'grow':
      return onGrow(state);
    case 'suspension-end':
      return andThen(endSuspension(state, event.id), settle);
    case 'age-faults':
      return onAgeFaults(state);
    case 'abandoned':
      return onAbandoned(state);
    case 'restore-timeout':
      return onRestoreTimeout(state);
    default:
      return event satisfies never;
  }
}

type Missed = Extract<TimerEvent, { type: 'missed' }>;

/** Events of members that the room of network checks accepts. */
const CHECK_EVENTS: ReadonlySet<string> = new Set<RoomEvent['type']>([
  'signal',
  'ask-pulses',
  'away',
  'missed',
  'left',
]);

function onMemberEvent(state: RoomState, event: PresentEvent | Missed): Step {
  const { member } = event;
  if (state.isCheck && !CHECK_EVENTS.has(event.type)) return noEffects(state);
  switch (event.type) {
    case 'ready':
      return isSpectator(state, member) ? noEffects(state) : ready(state, event);
    case 'configure':
      return asHost(state, member, 'change the job', () => configure(state, member, event.job));
    case 'start':
      return asHost(state, member, 'start the run', () => start(state, member));
    case 'stop':
      return asHost(state, member, 'stop the run', () => stop(state));
    case 'pause':
      return asHost(state, member, 'pause the run', () => pauseRun(state, member));
    case 'resume':
      return asHost(state, member, 'resume the run', () => resume(state));
    case 'remove':
      return asHost(state, member, 'remove members', () => remove(state, member, event.whom));
    case 'lock':
      return asHost(state, member, 'lock the room', () => lock(state, event.isLocked));
    case 'spectator-update':
      return forwardUpdate(state, member, event.update);
    case 'signal':
      return relay(state, event);
    case 'linked':
      return onLinked(state, event);
    case 'direct':
      return onDirect(state, event);
    case 'synced':
      return onSynced(state, event);
    case 'heartbeat':
      return event.pulse === undefined ? noEffects(state) : onPulse(state, member, event.pulse);
    case 'ask-pulses':
      return sendPulses(state, member, event);
    case 'syncing':
      return extendSyncing(state, member, event.generation);
    case 'finished':
      return report(state, member, event.generation, 'RUNNING', `step ${event.step}, state ${event.stateHash}`);
    case 'failed':
      return failed(state, event);
    case 'broken':
    case 'late': {
      const away = event.peers.find((peer) => isOfRing(state, event.generation, member, peer) && isAway(state, peer));
      // Both a rank and the server miss this member, so it is considered gone.
      return away !== undefined && !state.isRestoring
        ? andThen(removeMember(state, away, 'vanished'), (next) => onMemberEvent(next, event))
        : onAccusation(state, event);
    }
    case 'slow':
      return slow(state, event);
    case 'receiving':
      return showReceived(state, member, event.percent);
    case 'away':
      return isSpectator(state, member) ? removeSpectator(state, member) : disconnect(state, member);
    case 'missed':
      if (!isAway(state, member)) return noEffects(state);
      return andThen(removeMember(state, member, 'vanished'), (next) =>
        next.isRestoring ? finishRestore(next) : noEffects(next),
      );
    case 'left':
      return removeMember(state, member, event.reason);
    default:
      return event satisfies never;
  }
}

/** Forwards signals only between members that may link. */
function relay(state: RoomState, event: Extract<RoomEvent, { type: 'signal' }>): Step {
  if (!mayLink(state, event.generation, event.member, event.to)) return noEffects(state);
  const { generation, attempt, signal, member: from } = event;
  return {
    state,
    effects: [{ type: 'send', to: [event.to], message: { type: 'signal', generation, from, attempt, signal } }],
  };
}
