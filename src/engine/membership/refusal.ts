/** Which refusals of the server may be followed by another try. */
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
  // A room that has lost its server exists again once the first of its members is back. A join
  // whose answer was lost may still occupy the rank, or the last place, until the server takes that
  // member for gone.
  return code === 'no-room' || code === 'mismatch' || code === 'room-full';
}
