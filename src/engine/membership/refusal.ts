/** Decides whether a refused request may succeed later. */
import type { Refusal } from '../../protocol/control.ts';

/**
 * Returns whether a later attempt may succeed.
 *
 * @param isAdmitted whether the server has admitted this tab before.
 * @param isServerLost whether the server refused an attempt to reconnect.
 */
export function isPassing(
  code: Refusal,
  { isAdmitted, isServerLost }: { isAdmitted: boolean; isServerLost: boolean },
): boolean {
  if (code === 'server-closing') return true;
  if (code === 'silent' || code === 'not-member') return isAdmitted;
  // If a member is in its room and is rate-limited, it sends too many messages. Another attempt
  // would not help.
  if (!isServerLost) return false;
  if (code === 'rate-limited') return true;
  if (isAdmitted) return false;
  // After a restart of the server, a room exists again as soon as its first member has reconnected.
  // If the answer to a join was lost, that join may still occupy the rank or the last free place,
  // until the server considers its member gone.
  return code === 'no-room' || code === 'mismatch' || code === 'room-full';
}
