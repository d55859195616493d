/** Turns an error in a generation into an event of the membership. */
import type { RosterEntry } from '../../protocol/room.ts';
import { PeerGoneError, PeergradError, TimeoutError } from '../../util/errors.ts';
import type { MembershipEvent } from './membership.ts';
import type { RendezvousOptions } from './rendezvousOptions.ts';

/**
 * A rank that has lost a neighbour waits for this number of milliseconds before it reports the
 * loss. If the neighbour has closed its tab, the server notices that within milliseconds and tells
 * all ranks who has left.
 */
const VERDICT_GRACE_MS = 500;
/**
 * If another rank noticed the loss or the timeout and told this rank, this rank waits for this
 * number of additional milliseconds. Then the other rank, which knows which link failed, reports
 * first.
 */
const HEARSAY_GRACE_MS = 500;

interface FailedGeneration {
  generation: number;
  members: readonly RosterEntry[];
  /** The rank of this member. */
  self: number;
  /** Whether the links of this generation are still being opened. */
  isLinking: boolean;
  scopeOf: RendezvousOptions['scopeOf'];
}

/**
 * Returns the event, and how long to wait for a message from the server before the event is
 * dispatched.
 */
export function failureEventOf(
  failure: Error,
  { generation, members, self, isLinking, scopeOf }: FailedGeneration,
): { event: MembershipEvent; graceMs: number } {
  const { rank = self, missing = [] } = failure instanceof PeergradError ? failure.context : {};
  const peers = missing.flatMap((other) => (other === self ? [] : (members[other]?.member ?? [])));
  const isAboutPeers = failure instanceof PeerGoneError || failure instanceof TimeoutError;
  const isHearsay = isAboutPeers && rank !== self;
  const scope = isAboutPeers ? 'generation' : scopeOf(failure);
  // A timeout during linking means that a link is broken, not that a rank is late.
  const isLate = failure instanceof TimeoutError && !isLinking;
  const event: MembershipEvent =
    isAboutPeers && !isHearsay && peers.length > 0
      ? { type: isLate ? 'late' : 'broken', generation, peers }
      : { type: 'failed', generation, message: failure.message.slice(0, 1000), scope };
  const graceMs = (failure instanceof PeerGoneError ? VERDICT_GRACE_MS : 0) + (isHearsay ? HEARSAY_GRACE_MS : 0);
  return { event, graceMs };
}
