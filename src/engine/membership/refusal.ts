/** Decides after which refusals a later try may succeed. */
import type { Refusal } from '../../protocol/control.ts';

/**
 * Whether a later try may succeed.
 *
 * @param isAdmitted whether the server has admitted this tab before.
 * @param isServerLost whether the refusal answers an attempt to connect again.
 */
export function isPassing(
  code: Refusal,
  { isAdmitted, isServerLost }: { isAdmitted: boolean; isServerLost: boolean },
): boolean {
  if (code === 'server-closing') return true;
  if (code === 'silent' || code === 'not-member') return isAdmitted;
  // A member that is in the room and rate-limited sends too much.
  if (!isServerLost) return false;
  if (code === 'rate-limited') return true;
  if (isAdmitted) return false;
  // After a restart of the server a room exists again once its first member is back. A join whose
  // answer was lost may still occupy the rank, or the last place, until the server considers that
  // member gone.
  return code === 'no-room' || code === 'mismatch' || code === 'room-full';
}
