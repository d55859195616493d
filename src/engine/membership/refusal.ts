/** Decides whether a refused request may succeed later. */
import type { RefusalCode } from '../../protocol/control.ts';

/**
 * Returns whether a later attempt may succeed.
 *
 * @param isAdmitted whether the server has ever admitted this tab.
 * @param isServerLost whether the server refused an attempt to reconnect.
 */
export function isTemporaryRefusal(
  code: RefusalCode,
  { isAdmitted, isServerLost }: { isAdmitted: boolean; isServerLost: boolean },
): boolean {
  if (code === 'server-closing') return true;
  if (code === 'silent' || code === 'not-member') return isAdmitted;
  // If the connection was not lost, the refusal is final. For example, a member that is
  // `rate-limited` sends too many messages, and another attempt would not help.
  if (!isServerLost) return false;
  if (code === 'rate-limited') return true;
  if (isAdmitted) return false;
  // After a restart of the server, a room exists again as soon as its first member has reconnected.
  // `mismatch` and `room-full` may occur if the answer to an earlier join of this tab was lost.
  // That join created a member, which keeps the rank or the last free place until the server
  // considers the member gone.
  return code === 'no-room' || code === 'mismatch' || code === 'room-full';
}
