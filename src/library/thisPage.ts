/** Finds the page of this program. */
import { requestTabPort } from '../transport/broker.ts';
import { connectPeer } from '../transport/peerLink.ts';
import { systemClock } from '../util/clock.ts';
import { setDebugPatterns, watchDebugPatterns } from '../util/debugLog.ts';
import { writeRoomToAddress, type ProgramPageAccess } from './page.ts';
import { requestHostPage } from './worker/hostedPage.ts';

/**
 * Whether this page follows the debug log's patterns, which other tabs of the same origin may
 * change.
 */
let isLogWatched = false;
let hostedPage: Promise<ProgramPageAccess> | null = null;

/**
 * Resolves with the page on which this program runs. If the program runs in a worker, resolves with
 * the page that hosts the worker.
 *
 * @throws (rejects) UsageError in a worker whose page does not call `hostWorker`.
 */
export function thisPage(): Promise<ProgramPageAccess> {
  if (!('DedicatedWorkerGlobalScope' in globalThis)) {
    const { location } = globalThis as Partial<typeof globalThis>;
    if (location && !isLogWatched) {
      isLogWatched = true;
      watchDebugPatterns(setDebugPatterns);
    }
    return Promise.resolve({
      address: location ?? null,
      connectPeer,
      requestTabPort,
      leaving: globalThis,
      writeRoom: writeRoomToAddress,
    });
  }
  // All groups of a worker use one page. After a failure, the next group requests it again.
  hostedPage ??= requestHostPage(systemClock).catch((error: unknown) => {
    hostedPage = null;
    throw error;
  });
  return hostedPage;
}
