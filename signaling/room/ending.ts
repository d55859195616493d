/** How a run ends. */
import type { NoticeMessage } from '../../src/protocol/notices.ts';
import {
  everyone,
  hostsOf,
  noEffects,
  withEffects,
  type Ended,
  type RoomEffect,
  type RoomState,
  type Step,
} from './state.ts';
import { CLEAR_RUN_TIMERS } from './timers.ts';

/** Ends the run and reports its outcome to everyone. Unlike `end`, it begins no next run. */
export function recordEnd(state: RoomState, outcome: Ended['outcome'], { message, notice }: NoticeMessage): Step {
  const ended: Ended = { run: state.run, outcome, message: message.slice(0, 1200), ...(notice && { notice }) };
  const to = everyone(state);
  const notices: RoomEffect[] = to.length === 0 ? [] : [{ type: 'send', to, message: { type: 'ended', ...ended } }];
  return withEffects(noEffects(backToForming({ ...state, ended })), ...CLEAR_RUN_TIMERS, ...notices);
}

/**
 * Changes the phase to FORMING. If no member in the room has been a rank, `startAt` applies again:
 * the room starts its next run by itself. So several groups can use the room one after the other,
 * and a whole run can be restarted.
 */
export function backToForming(state: RoomState): RoomState {
  const isFresh = [...state.hidden.values()].every(({ hasRun }) => !hasRun);
  const startAt = isFresh ? state.worldSize : state.startAt;
  return {
    ...state,
    phase: 'FORMING',
    startAt,
    ring: [],
    reports: new Map(),
    complaints: new Map(),
    begun: new Set(),
    feeds: new Map(),
    membersWithState: new Set(),
    isAbandoned: false,
    isCooling: false,
    isPausedByHost: false,
    retries: 0,
  };
}

/** Whether a locked room stays locked. A lock that no member could open is removed. */
export function shouldStayLocked(state: RoomState): boolean {
  return state.isLocked && (state.members.length > 0 || hostsOf(state).length > 0);
}
