/** The membership event for an error in a generation. */
import type { RosterEntry } from '../../protocol/room.ts';
import { PeerGoneError, PeergradError, TimeoutError } from '../../util/errors.ts';
import type { MembershipEvent } from './membership.ts';
import type { RendezvousOptions } from './rendezvousOptions.ts';

/**
 * Milliseconds that a rank that lost a neighbour waits before it reports the loss: the server
 * notices a closed tab within milliseconds and then reports who left.
 */
const VERDICT_GRACE_MS = 500;
/**
 * Additional wait, milliseconds, if another rank reported the loss or the timeout to this one: the
 * rank that noticed it knows the link.
 */
const HEARSAY_GRACE_MS = 500;

interface FailedGeneration {
  generation: number;
  members: readonly RosterEntry[];
  /** This member's rank. */
  self: number;
  /** Whether its links are still being made. */
  isLinking: boolean;
  scopeOf: RendezvousOptions['scopeOf'];
}

/** Returns the event, and how long to wait for the server before it is dispatched. */
export function failureEventOf(
  failure: Error,
  { generation, members, self, isLinking, scopeOf }: FailedGeneration,
): { event: MembershipEvent; graceMs: number } {
  const { rank = self, missing = [] } = failure instanceof PeergradError ? failure.context : {};
  const peers = missing.flatMap((other) => (other === self ? [] : (members[other]?.member ?? [])));
  const isAboutPeers = failure instanceof PeerGoneError || failure instanceof TimeoutError;
  const isHearsay = isAboutPeers && rank !== self;
  const scope = isAboutPeers ? 'generation' : scopeOf(failure);
  // A timeout while linking is that of a link.
  const isLate = failure instanceof TimeoutError && !isLinking;
  const event: MembershipEvent =
    isAboutPeers && !isHearsay && peers.length > 0
      ? { type: isLate ? 'late' : 'broken', generation, peers }
      : { type: 'failed', generation, message: failure.message.slice(0, 1000), scope };
  const graceMs = (failure instanceof PeerGoneError ? VERDICT_GRACE_MS : 0) + (isHearsay ? HEARSAY_GRACE_MS : 0);
  return { event, graceMs };
}
