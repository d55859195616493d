/**
 * Describes the current activity of a member that is not ready, from the reports that the room has
 * received.
 */
import type { RosterEntry } from '../../protocol/room.ts';
import { uiMessages } from '../locales/index.ts';

export function describeGettingReady({ received }: Pick<RosterEntry, 'received'>): string {
  const labels = uiMessages.value.lobby;
  if (received === undefined) return labels.gettingReady;
  return received < 100 ? labels.receives(received) : labels.catchesUp;
}
