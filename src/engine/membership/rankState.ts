/** Describes a member's state, with a name of `RankState` and with a sentence. */
import { modulo } from '../../collectives/plans/ringPlan.ts';
import type { RankStatus } from '../../protocol/events.ts';
import type { MembershipState } from './membership.ts';

/** Facts that `MembershipState` does not contain. */
interface Circumstances {
  isServerAway: boolean;
  /** A sentence that tells how the latest run ended; `null` if no run has ended. */
  outcome: string | null;
  /** Whether this tab only watches. */
  isSpectator: boolean;
}

export function rankStateOf(
  membership: MembershipState,
  circumstances: Circumstances,
): Omit<RankStatus, 'isServerAway'> {
  return { ...stateOf(membership, circumstances), connecting: connectingOf(membership) };
}

function stateOf(
  membership: MembershipState,
  circumstances: Circumstances,
): Pick<RankStatus, 'state' | 'generation' | 'detail'> {
  const { member, generation, linking, active } = membership;
  if (member === null) return { state: 'OFFLINE', generation: 0, detail: 'not connected' };
  if (active !== null && active.phase !== 'STALLED') {
    if (active.phase === 'SYNCING') {
      return { state: 'SYNCING', generation: active.generation, detail: 'loading the job and comparing states' };
    }
    return { state: 'RUNNING', generation: active.generation, detail: whileRunning(membership, circumstances) };
  }
  if (linking !== null) {
    const to = linking.members.length === 2 ? 'the other rank' : 'both neighbours';
    return { state: 'LINKING', generation: linking.generation, detail: `connecting to ${to}` };
  }
  return {
    state: 'WAITING',
    generation: active?.generation ?? generation,
    detail: whileWaiting(membership, circumstances),
  };
}

/** Returns the neighbours to which this rank is connecting. */
function connectingOf({ member, linking }: MembershipState): RankStatus['connecting'] {
  if (linking === null || member === null) return [];
  const { members, relayed } = linking;
  const own = members.findIndex((entry) => entry.member === member);
  const ranks = new Set([modulo(own - 1, members.length), modulo(own + 1, members.length)]);
  ranks.delete(own);
  return [...ranks].map((rank) => {
    const peer = members[rank]!.member;
    return { rank, isRelayed: relayed.some((pair) => pair.includes(member) && pair.includes(peer)) };
  });
}

function whileRunning({ linking }: MembershipState, { isServerAway }: Circumstances): string {
  if (isServerAway) return 'training; the signaling server cannot be reached (it is only needed to join and leave)';
  return linking === null ? 'training' : 'training; the next ring is being connected';
}

function whileWaiting(
  { active, pausedFor }: MembershipState,
  { isServerAway, outcome, isSpectator }: Circumstances,
): string {
  if (isServerAway) return 'waiting for the signaling server, which cannot be reached';
  if (isSpectator) return 'watching';
  if (pausedFor === 0) return 'paused by the host';
  if (pausedFor !== null) return `paused: waiting for ${pausedFor} more`;
  if (active !== null) return 'a rank has left: waiting for the next generation';
  return outcome ?? 'waiting for the run to start';
}
