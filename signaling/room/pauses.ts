/**
 * Pauses of a run. A run pauses if too few members are ready, if no present member has the state,
 * or if the host paused it.
 */
import type { ServerMessage } from '../../src/protocol/control.ts';
import { roomMessage } from './roomMessage.ts';
import { noEffects, waitingFor, type RoomEffect, type RoomState, type Step } from './state.ts';
import { ABANDONED_MS, CLEAR_GENERATION_TIMERS, CLEAR_RUN_TIMERS } from './timers.ts';

/** Returns the highest generation that at least one member is known to have seen. */
export function latestGeneration({ generation, highestReported }: RoomState): number {
  return Math.max(generation, highestReported);
}

export function pause(state: RoomState, hasState: boolean): Step {
  const isAbandoned = !hasState;
  const paused: RoomState = {
    ...state,
    phase: 'PAUSED',
    ring: [],
    reports: new Map(),
    complaints: new Map(),
    retries: 0,
    isAbandoned,
    isRestoring: false,
  };
  const effects: RoomEffect[] = [...(isAbandoned ? CLEAR_GENERATION_TIMERS : CLEAR_RUN_TIMERS), roomMessage(paused)];
  // The timer that ends the run is set only once, so members that join and leave do not postpone
  // the end.
  if (isAbandoned && !state.isAbandoned) {
    effects.push({ type: 'setTimer', key: 'abandoned', ms: ABANDONED_MS, event: { type: 'abandoned' } });
  }
  if (state.phase !== 'PAUSED') {
    // `pause` is sent to all members, because former ranks do not know that they were left out.
    effects.push({ type: 'send', to: paused.members.map((m) => m.member), message: pauseOf(paused) });
  }
  return { state: paused, effects };
}

export function pauseOf(state: RoomState): ServerMessage {
  return { type: 'pause', run: state.run, generation: latestGeneration(state), waitingFor: waitingFor(state) };
}

/** Sends `pause` to the members of a paused room. */
export function sendPause(state: RoomState): Step {
  if (state.phase !== 'PAUSED' || state.isRestoring) return noEffects(state);
  const to = state.members.map((m) => m.member);
  return { state, effects: [{ type: 'send', to, message: pauseOf(state) }] };
}
