/** Which browser this tab belongs to, so that ranks can count the tabs beside them. */
import { systemClock } from '../../util/clock.ts';
import { within } from '../../util/deadline.ts';
import { TimeoutError } from '../../util/errors.ts';
import { hexOf } from '../../util/hex.ts';

const DATABASE = 'peergrad';
const STORE = 'ids';
const KEY = 'browser';
/** Random bytes of an id: 128 bits never collide and are never guessed. */
const ID_BYTES = 16;
/** Milliseconds that storage may take: it answers within a few, or it is broken. */
const STORAGE_MS = 2_000;

let known: Promise<string> | null = null;

/**
 * A random id, the same in all tabs of this profile of the browser, kept in its IndexedDB: unlike
 * localStorage, that is there in workers too, and tabs that a launcher opens at the same moment
 * cannot each make an id. Where storage is blocked, one of this tab's own.
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
    // Once in the database's life, whoever is first; the others' openings wait for it.
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

/**
 * Never there twice, and not to be guessed: in hexadecimal. (`crypto.randomUUID` exists in secure
 * contexts only.)
 */
export function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(ID_BYTES));
  return hexOf(bytes);
}
