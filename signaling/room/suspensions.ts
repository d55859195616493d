/**
 * Suspended members: ranks that held up the others. They stay in the room, are left out of its
 * generations for a while and then tried again, each time after twice as long. The time goes by
 * browser, so that a tab that is opened again gains nothing.
 */
import { withoutMembers } from './faults.ts';
import type { Reason, Suspension } from './records.ts';
import { MAX_NAMED } from './sentences.ts';
import { change, isSuspended, noEffects, unready, type RoomEffect, type RoomState, type Step } from './state.ts';

/** Milliseconds of a first suspension. */
export const SUSPENDED_MS = 30_000;
/**
 * The first suspension of a rank that others waited for: to try it again costs them as long a wait.
 */
export const LATE_SUSPENDED_MS = 120_000;
const MAX_SUSPENDED_MS = 3_600_000;
/** Milliseconds after a suspension in which another is twice as long. */
export const PROBATION_MS = 600_000;

const NETWORK =
  'Check the network of this machine (VPN, firewall, guest Wi-Fi). Between different networks the server needs a TURN relay (--turn).';
const REASONS: Record<Reason, string> = {
  unreachable: `The other ranks could not connect to this tab over the network, so they go on without it. ${NETWORK}`,
  unstable: `Links between this tab and other ranks failed more than once, so they go on without it. ${NETWORK}`,
  late:
    'The other ranks waited for this tab until their deadline, so they go on without it. Close other programs and tabs on this ' +
    'machine, or ask the host for a smaller batch.',
  stuck:
    'This tab did not end what it did in the generation before, so the other ranks go on without it. If it does not go on by itself, ' +
    'reload it.',
  alone:
    'This tab ended one generation after the other with faults that no other rank saw, so they go on without it. Reload it, and check ' +
    'its network.',
  failing: `Each generation with this tab in it failed, so the other ranks go on without it. ${NETWORK}`,
};

/** Takes members out of the room's generations. The caller begins the next one. */
export function suspend(state: RoomState, reasons: ReadonlyMap<string, Reason>): Step {
  const { state: recorded, effects } = recordSuspensions(state, reasons);
  let next = unready({ ...recorded, faults: withoutMembers(state.faults, reasons) }, (member) => reasons.has(member));
  for (const member of reasons.keys()) next = change(next, member, { isSuspended: true });
  return { state: next, effects: [...effects, ...[...reasons.keys()].map((member) => noticeOf(next, member))] };
}

/** Counts one suspension more of these members' browsers, of each browser once. */
function recordSuspensions(state: RoomState, reasons: ReadonlyMap<string, Reason>): Step {
  const suspensions = new Map(state.suspensions);
  const effects: RoomEffect[] = [];
  for (const [key, reason] of new Map([...reasons].map(([member, why]) => [keyOf(state, member), why]))) {
    const before = suspensions.get(key);
    const id = before?.id ?? 1 + Math.max(0, ...[...suspensions.values()].map((one) => one.id));
    const suspension = { id, times: (before?.times ?? 0) + 1, reason, isOn: true };
    suspensions.set(key, suspension);
    effects.push(timerOf(suspension));
  }
  return { state: { ...state, suspensions }, effects };
}

/** The suspension that whoever comes from this browser shares. */
export function suspensionOf(
  { suspensions }: RoomState,
  member: string,
  browser: string | undefined,
): Suspension | null {
  const suspension = suspensions.get(browser ?? member);
  return suspension?.isOn ? suspension : null;
}

/** Whether a member, or another tab of its browser, was suspended some minutes ago. */
export function isOnProbation(state: RoomState, member: string): boolean {
  return state.suspensions.has(keyOf(state, member));
}

/** What a suspended member is told. */
export function noticeOf(state: RoomState, member: string): RoomEffect {
  const suspension = state.suspensions.get(keyOf(state, member))!;
  const message = `${REASONS[suspension.reason]} It is tried again within ${secondsOf(suspension)} s.`;
  return {
    type: 'send',
    to: [member],
    message: { type: 'suspended', run: state.run, generation: state.generation, message },
  };
}

/** Sentences that say which members are suspended, and for how long; of the first few. */
export function suspendedOf(state: RoomState): string[] {
  return state.members
    .filter(({ member }) => isSuspended(state, member))
    .slice(0, MAX_NAMED)
    .flatMap(({ member, name }) => {
      // A member that returns may name another browser.
      const suspension = state.suspensions.get(keyOf(state, member));
      return suspension ? [`${name} is suspended, and tried again within ${secondsOf(suspension)} s.`] : [];
    });
}

/** A suspension's time is up: its members are counted again, and it is remembered for a while. */
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
    if (keyOf(state, member) === key) next = change(next, member, { isSuspended: false });
  }
  return { state: next, effects: [timerOf(ended)] };
}

function keyOf({ hidden }: RoomState, member: string): string {
  return hidden.get(member)?.browser ?? member;
}

function lengthOf({ times, reason }: Suspension): number {
  const first = reason === 'late' || reason === 'stuck' ? LATE_SUSPENDED_MS : SUSPENDED_MS;
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
