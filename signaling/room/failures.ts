/** Ranks that cannot go on, links that break or are slow, deadlines that are missed: who of them goes, and what follows. */
import type { ClientMessage, RoomPhase } from '../../src/protocol/control.ts';
import { addBreaks, keptApart, neighbours, orderAround } from './edges.ts';
import { end, LINKING_MS, needAnother, reform, retry, SYNCING_MS } from './epochs.ts';
import { nameRanks } from './sentences.ts';
import {
  isOfRing,
  isRunOn,
  nodesOf,
  rankOf,
  stay,
  unready,
  type RoomEvent,
  type RoomState,
  type Step,
} from './state.ts';

export function failed(state: RoomState, event: Extract<ClientMessage, { type: 'failed' }> & { member: string }): Step {
  const { member, epoch, message, scope } = event;
  const rank = rankOf(state, member);
  // A rank that cannot go on, as its GPU is lost, can do so in no other epoch that has begun meanwhile.
  const isDue = scope === 'rank' && nodesOf(state) !== null ? epoch <= state.epoch : epoch === state.epoch;
  if (!isDue || rank < 0) return stay(state);
  if (state.isDoubtful && nodesOf(state) !== null) return stay(needAnother(state));
  const sentence = `${nameRanks(state.ring, [rank])} could not go on, so the run ended: ${message}`;
  if (nodesOf(state) === null || scope === 'run') return end(state, 'failed', sentence);
  return scope === 'epoch' ? retry(state, message) : reform(unready(state, (m) => m === member));
}

export function broken(state: RoomState, { member, epoch, peer }: Extract<RoomEvent, { type: 'broken' }>): Step {
  if (!isOfRing(state, epoch, member, peer)) return stay(state);
  if (state.isDoubtful && nodesOf(state) !== null) return stay(needAnother(state));
  if (nodesOf(state) === null) {
    const ranks = nameRanks(state.ring, [rankOf(state, member), rankOf(state, peer)]);
    return end(state, 'failed', `${ranks} lost the link between them, so the run ended. Start again with the others.`);
  }
  return breakApart(state, [[member, peer]]);
}

function breakApart(state: RoomState, pairs: [string, string][]): Step {
  return reform({ ...state, breaks: addBreaks(state.breaks, pairs) });
}

/**
 * A link holds up the ring: its ends are parted, in a ring where they can be. Once for each member: if its next link is slow as well,
 * its own line is, and no order helps.
 */
export function slow(state: RoomState, { member, epoch, peer }: Extract<RoomEvent, { type: 'slow' }>): Step {
  const { phase, ring, parted, breaks, hasRelay, isDoubtful } = state;
  const isDue = phase === 'RUNNING' && isOfRing(state, epoch, member, peer) && !isDoubtful;
  const isNew = !parted.some((pair) => pair.includes(member) || pair.includes(peer));
  if (nodesOf(state) === null || !isDue || !isNew) return stay(state);
  const pair = [member, peer] as const;
  const next = { ...state, parted: [...parted, pair] };
  const order = orderAround(ring, breaks, hasRelay, next.parted);
  const helps = keptApart(ring, [pair]).length === 0 && keptApart(order.ring, [pair]).length > 0;
  return helps && order.culprits.length === 0 ? reform(next) : stay(state);
}

export function onDeadline(state: RoomState, epoch: number, phase: RoomPhase): Step {
  if (!isRunOn(state) || state.epoch !== epoch || state.phase !== phase) return stay(state);
  const missing = state.ring.map((_, rank) => rank).filter((rank) => !state.reports.has(state.ring[rank]!.member));
  const what =
    phase === 'LINKING'
      ? `did not reach the neighbours within ${LINKING_MS / 1000} s`
      : `did not report a state within ${SYNCING_MS / 1000} s`;
  const who = `${nameRanks(state.ring, missing)} ${what}`;
  if (nodesOf(state) === null) {
    return end(state, 'failed', `${who}, so the run ended. Reload those pages and start again.`);
  }
  const late = new Set(missing.map((rank) => state.ring[rank]!.member));
  if (phase === 'LINKING') {
    // A link that is not there has two ends that wait for it.
    const pairs = neighbours(state.ring).filter((pair) => pair.every(({ member }) => late.has(member)));
    if (pairs.length > 0) {
      return breakApart(
        state,
        pairs.map(([a, b]) => [a.member, b.member]),
      );
    }
  }
  // Where one rank is stuck in a collective, so are all.
  if (missing.length === state.ring.length) return retry(state, `${who}.`);
  return reform(unready(state, (member) => late.has(member)));
}
