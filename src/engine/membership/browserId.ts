/**
 * Provides an id of the browser that this tab belongs to. With it, ranks can count how many tabs
 * run in the same browser.
 */
import { systemClock } from '../../util/clock.ts';
import { withinDeadline } from '../../util/deadline.ts';
import { TimeoutError } from '../../util/errors.ts';
import { hexOf } from '../../util/hex.ts';

const DATABASE = 'peergrad';
const STORE = 'ids';
const KEY = 'browser';
/**
 * The number of random bytes of an id. 128 random bits do not collide in practice and cannot be
 * guessed.
 */
const ID_BYTES = 16;
/**
 * Milliseconds until storage is considered broken. It usually responds within a few milliseconds.
 */
const STORAGE_MS = 2_000;

let known: Promise<string> | null = null;

/**
 * Returns a random id that is the same in all tabs of this browser profile. The id is stored in
 * IndexedDB, because workers have no localStorage. Tabs that a launcher opens at the same moment
 * also get the same id. If storage is blocked, the id belongs to this tab only.
 */
export function browserId(): Promise<string> {
  known ??= withinDeadline(
    systemClock,
    STORAGE_MS,
    storedId(),
    () => new TimeoutError("This browser's storage does not respond."),
  ).catch(randomId);
  return known;
}

function storedId(): Promise<string> {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(DATABASE, 1);
    opening.onerror = () => reject(opening.error);
    // Called only once, when the first tab creates the database. Meanwhile other tabs that open it
    // have to wait.
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

/** Returns a random id in hexadecimal. (`crypto.randomUUID` exists in secure contexts only.) */
export function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(ID_BYTES));
  return hexOf(bytes);
}
