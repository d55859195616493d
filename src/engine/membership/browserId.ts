/** An id of the browser that this tab belongs to, by which ranks count the tabs of one browser. */
import { systemClock } from '../../util/clock.ts';
import { within } from '../../util/deadline.ts';
import { TimeoutError } from '../../util/errors.ts';
import { hexOf } from '../../util/hex.ts';

const DATABASE = 'peergrad';
const STORE = 'ids';
const KEY = 'browser';
/** Random bytes of an id: 128 bits never collide and cannot be guessed. */
const ID_BYTES = 16;
/** Milliseconds until storage is considered broken. It usually answers within a few. */
const STORAGE_MS = 2_000;

let known: Promise<string> | null = null;

/**
 * A random id, the same in all tabs of this browser profile. It is kept in IndexedDB, which workers
 * have too (unlike localStorage), and which gives tabs that a launcher opens at the same moment the
 * same id. If storage is blocked, the id is this tab's own.
 */
export function browserId(): Promise<string> {
  known ??= within(systemClock, STORAGE_MS, storedId(), () => new TimeoutError('Storage does not answer.')).catch(
    randomId,
  );
  return known;
}

function storedId(): Promise<string> {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(DATABASE, 1);
    opening.onerror = () => reject(opening.error);
    // Called once in the database's life, for the first tab. The other tabs' openings wait for it.
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE).add(randomId(), KEY);
    opening.onsuccess = () => {
      const database = opening.result;
      const reading: IDBRequest<unknown> = database.transaction(STORE).objectStore(STORE).get(KEY);
      reading.onerror = () => reject(reading.error);
      reading.onsuccess = () => {
        database.close();
        resolve(String(reading.result));
      };
    };
  });
}

/** A random id in hexadecimal. (`crypto.randomUUID` exists in secure contexts only.) */
export function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(ID_BYTES));
  return hexOf(bytes);
}
