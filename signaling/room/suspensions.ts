/**
 * Suspensions of ranks that blocked other ranks. A suspended member stays in the room. It is left
 * out of generations for a time, and then tried again. If it is suspended again soon, the time
 * doubles, up to an hour, unless too few other members are left to train. A suspension applies to
 * all tabs of a browser, so reopening a tab does not help.
 */
import { englishNoticeMessageOf } from '../../src/protocol/notices.ts';
import { withoutMembers } from './faults.ts';
import type { Reason, Suspension } from './records.ts';
import { MAX_NAMED } from './sentences.ts';
import {
  browserOf,
  change,
  isSuspended,
  noEffects,
  nodesOf,
  readyMembers,
  unready,
  type RoomEffect,
  type RoomState,
  type Step,
} from './state.ts';

/** Duration of a first suspension in milliseconds. */
export const SUSPENDED_MS = 30_000;
/**
 * Duration of the first suspension of a late, stuck or hanging rank in milliseconds. It is longer
 * than that of other ranks, because each new attempt with a late rank costs the others a long wait.
 */
const LATE_SUSPENDED_MS = 120_000;
const MAX_SUSPENDED_MS = 3_600_000;
/**
 * Duration of the probation after a suspension in milliseconds. The duration of a suspension that
 * begins in this time is doubled once for each earlier suspension, up to {@link MAX_SUSPENDED_MS}.
 */
export const PROBATION_MS = 600_000;

/** Suspends members. The caller begins the next generation. */
export function suspend(state: RoomState, reasons: ReadonlyMap<string, Reason>): Step {
  const { state: recorded, effects } = recordSuspensions(state, reasons);
  let next = unready({ ...recorded, faults: withoutMembers(state.faults, reasons) }, (member) => reasons.has(member));
  for (const member of reasons.keys()) next = change(next, member, { isSuspended: true });
  return { state: next, effects: [...effects, ...[...reasons.keys()].map((member) => noticeOf(next, member))] };
}

/** Records one more suspension for each browser of these members. */
function recordSuspensions(state: RoomState, reasons: ReadonlyMap<string, Reason>): Step {
  const suspensions = new Map(state.suspensions);
  const effects: RoomEffect[] = [];
  const others = readyMembers(state).filter(({ member }) => !reasons.has(member));
  // If too few others are left, the run waits for these members. So their suspension is only as
  // long as a first one.
  const isMissed = others.length < (nodesOf(state)?.min ?? 0);
  for (const [key, reason] of new Map([...reasons].map(([member, why]) => [browserOf(state, member), why]))) {
    const times = isMissed ? 1 : (suspensions.get(key)?.times ?? 0) + 1;
    const suspension = { id: idOf(suspensions, key), times, reason, isOn: true };
    suspensions.set(key, suspension);
    effects.push(timerOf(suspension));
  }
  return { state: { ...state, suspensions }, effects };
}

/** Puts the browsers of these members on probation, as after a suspension. */
export function beginProbation(state: RoomState, reasons: ReadonlyMap<string, Reason>): Step {
  const suspensions = new Map(state.suspensions);
  const effects: RoomEffect[] = [];
  for (const [member, reason] of reasons) {
    const key = browserOf(state, member);
    const probation = { id: idOf(suspensions, key), times: suspensions.get(key)?.times ?? 0, reason, isOn: false };
    suspensions.set(key, probation);
    effects.push(timerOf(probation));
  }
  return { state: { ...state, suspensions }, effects };
}

/** Returns the id of a browser's suspensions. */
function idOf(suspensions: RoomState['suspensions'], browser: string): number {
  return suspensions.get(browser)?.id ?? 1 + Math.max(0, ...[...suspensions.values()].map(({ id }) => id));
}

/**
 * Returns the suspension that is in force for all tabs of this member's browser; `null` if there is
 * none.
 */
export function suspensionOf(
  { suspensions }: RoomState,
  member: string,
  browser: string | undefined,
): Suspension | null {
  const suspension = suspensions.get(browser ?? member);
  return suspension?.isOn ? suspension : null;
}

/** Whether a member, or another tab of its browser, is suspended or on probation. */
export function isOnProbation(state: RoomState, member: string): boolean {
  return state.suspensions.has(browserOf(state, member));
}

/** Returns the effect that sends a notice to a suspended member. */
export function noticeOf(state: RoomState, member: string): RoomEffect {
  const suspension = state.suspensions.get(browserOf(state, member))!;
  const { reason } = suspension;
  return {
    type: 'send',
    to: [member],
    message: {
      type: 'suspended',
      run: state.run,
      generation: state.generation,
      ...englishNoticeMessageOf({ code: 'suspended', reason, seconds: secondsOf(suspension) }),
    },
  };
}

/** Returns sentences that name the first few suspended members and their remaining time. */
export function suspendedOf(state: RoomState): string[] {
  return state.members
    .filter(({ member }) => isSuspended(state, member))
    .slice(0, MAX_NAMED)
    .flatMap(({ member, name }) => {
      // A returning member may report a different browser than before, so there may be no
      // suspension for that browser.
      const suspension = state.suspensions.get(browserOf(state, member));
      return suspension ? [`${name} is suspended and will be tried again within ${secondsOf(suspension)} s.`] : [];
    });
}

/**
 * Ends a suspension, so that its members can train again. If the suspension has already ended, ends
 * its probation.
 */
export function endSuspension(state: RoomState, id: number): Step {
  const [key, suspension] = [...state.suspensions].find(([, one]) => one.id === id) ?? [];
  if (key === undefined || suspension === undefined) return noEffects(state);
  const suspensions = new Map(state.suspensions);
  if (!suspension.isOn) {
    suspensions.delete(key);
    return noEffects({ ...state, suspensions });
  }
  const ended = { ...suspension, isOn: false };
  let next: RoomState = { ...state, suspensions: suspensions.set(key, ended) };
  for (const { member } of state.members) {
    if (browserOf(state, member) === key) next = change(next, member, { isSuspended: false });
  }
  return { state: next, effects: [timerOf(ended)] };
}

function lengthOf({ times, reason }: Suspension): number {
  const first = reason === 'late' || reason === 'stuck' || reason === 'hanging' ? LATE_SUSPENDED_MS : SUSPENDED_MS;
  return Math.min(MAX_SUSPENDED_MS, first * 2 ** (times - 1));
}

function secondsOf(suspension: Suspension): number {
  return lengthOf(suspension) / 1000;
}

function timerOf(suspension: Suspension): RoomEffect {
  const { id, isOn } = suspension;
  const ms = isOn ? lengthOf(suspension) : PROBATION_MS;
  return { type: 'setTimer', key: `suspended ${id}`, ms, event: { type: 'suspension-end', id } };
}
