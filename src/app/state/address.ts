/** The address of the page: what it requests, and the settings that are stored in it. */
import { computed, signal } from '@preact/signals';
import {
  pagePartsHiddenInQuery,
  parsePageRoute,
  roomAddressHash,
  viewSettingsFromQuery,
  hashWithSettings,
  type PageRoute,
} from './route.ts';

export const pageRoute = signal<PageRoute>(parsePageRoute(location.hash));

/** The parts of the page that its address hides (`hide=`). */
export const pagePartsHiddenByAddress = computed(() => pagePartsHiddenInQuery(pageRoute.value.query));

/** Stores settings of a page in its address, without a new entry in the browser's history. */
export function writeSettingsToAddress(changes: Readonly<Record<string, string | null>>): void {
  history.replaceState(null, '', hashWithSettings(location.hash, changes));
  pageRoute.value = parsePageRoute(location.hash);
}

/**
 * Writes the room into the address, so that a reload, a bookmark or a copied address leads to the
 * room.
 */
export function showRoomInAddress(room: string): void {
  // An address that is already a link of this room stays as it is, because with its setting `auto`,
  // a reload joins again.
  if (pageRoute.peek().room === room) return;
  history.replaceState(
    null,
    '',
    hashWithSettings(roomAddressHash(room), viewSettingsFromQuery(pageRoute.peek().query)),
  );
  pageRoute.value = parsePageRoute(location.hash);
}
