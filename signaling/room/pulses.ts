/**
 * Reacts to the pulses of ranks (docs/adr/0027). Deadlines are extended while a rank that the phase
 * waits for works or makes progress. A rank that hangs is named and left out.
 */
import { englishNoticeMessageOf } from '../../src/protocol/notices.ts';
import type { Pulse } from '../../src/protocol/room.ts';
import { isWorkingOrAwaitsWork, isPulseWaiting, pulsesOfWaitChain, pulseVerdict } from '../../src/util/activity.ts';
import { end, reform } from './generations.ts';
import {
  andThen,
  change,
  isAway,
  isRunOn,
  nodesOf,
  noEffects,
  rankOf,
  toRing,
  withEffects,
  type RoomEffect,
  type RoomEvent,
  type RoomState,
  type Step,
} from './state.ts';
import { suspend } from './suspensions.ts';
import { deadlineOf, enteringOf, LINKING_MS, SYNCING_MS } from './timers.ts';

/**
 * Whether a member works, according to the latest pulses: it computes or loads, and has not
 * exceeded the time limit for this. A member that waits for such a member works, too.
 */
export function works(state: RoomState, member: string): boolean {
  return isWorkingOrAwaitsWork(member, (one) => latestPulse(state, one));
}

/** Returns the latest pulse of a member that is connected. */
function latestPulse(state: RoomState, member: string): Pulse | null | undefined {
  return isAway(state, member) ? null : state.hidden.get(member)?.pulse;
}

/**
 * Returns the members that are really late after `member` has reported that `peers` are late. If a
 * peer only waits for other members, the members at the end of this chain of waits are late instead
 * of the peer. Members that have reported a failure themselves are not late. Members that wait for
 * each other, or for `member`, stay late.
 */
export function lateBehind(state: RoomState, member: string, peers: readonly string[]): string[] {
  const late = peers.flatMap((peer) => {
    const behind = [...pulsesOfWaitChain([peer], (one) => latestPulse(state, one))];
    const ends = behind.flatMap(([one, pulse]) =>
      isPulseWaiting(pulse) || one === member || state.complaints.has(one) || rankOf(state, one) < 0 ? [] : [one],
    );
    return ends.length > 0 ? ends : [peer];
  });
  return [...new Set(late)];
}

export function onPulse(state: RoomState, member: string, pulse: Pulse): Step {
  const before = state.hidden.get(member)?.pulse ?? null;
  const next = change(state, member, { pulse });
  const verdict = pulseVerdict(pulse);
  if (verdict === 'hangs') {
    return before !== null && pulseVerdict(before) === 'hangs' ? noEffects(next) : onHang(next, member, pulse);
  }
  const hasProgress = before !== null && pulse.progress > before.progress;
  return { state: next, effects: verdict === 'works' || hasProgress ? deadlinesAgain(next, member) : [] };
}

/** Returns the effects that restart the timers of the phase, if the phase waits for this member. */
function deadlinesAgain(state: RoomState, member: string): RoomEffect[] {
  if (rankOf(state, member) < 0 || state.reports.has(member)) return [];
  if (state.phase === 'LINKING') return [deadlineOf(state, LINKING_MS)];
  if (state.phase !== 'SYNCING') return [];
  return [deadlineOf(state, SYNCING_MS), ...(state.begun.has(member) ? [] : enteringOf(state, 0))];
}

/** Leaves out a rank whose thread has not answered for longer than its work may take. */
function onHang(state: RoomState, member: string, { task, ms }: Pulse): Step {
  const rank = rankOf(state, member);
  // If the rank is alone, nobody waits for it, and its own page reports that it hangs.
  if (!isRunOn(state) || rank < 0 || state.ring.length === 1 || state.isRestoring) return noEffects(state);
  const isOver = nodesOf(state) === null;
  const { name } = state.ring[rank]!;
  const news = englishNoticeMessageOf({ code: 'hangs', rank, name, task, seconds: Math.round(ms / 1000), isOver });
  if (isOver) return end(state, 'failed', news);
  const note = toRing(state, { type: 'note', ...news });
  return withEffects(andThen(suspend(state, new Map([[member, 'hanging']])), reform), note);
}

export function sendPulses(
  state: RoomState,
  member: string,
  { peers }: Extract<RoomEvent, { type: 'ask-pulses' }>,
): Step {
  const pulses = Array.from(
    pulsesOfWaitChain(peers, (one) => latestPulse(state, one)),
    ([peer, pulse]) => ({ member: peer, pulse }),
  );
  return { state, effects: [{ type: 'send', to: [member], message: { type: 'pulses', pulses } }] };
}
