/**
 * Stores the host keys of rooms that this browser opened. If the tab of a host was closed, a new
 * tab uses the key to become a host of the room again.
 */
import * as v from 'valibot';
import { localStorageValue } from './localStorageValue.ts';

/** The number of rooms whose keys are stored. A key is valid for a day. */
const MAX_ROOMS = 16;

const Keys = v.array(v.strictObject({ room: v.string(), key: v.string() }));
type Keys = v.InferOutput<typeof Keys>;

const stored = localStorageValue('peergrad.hostKeys');

export function storedHostKeyOf(room: string): string | undefined {
  return read().find((one) => one.room === room)?.key;
}

export function storeHostKey(room: string, key: string): void {
  const others = read().filter((one) => one.room !== room);
  stored.set(JSON.stringify([{ room, key }, ...others].slice(0, MAX_ROOMS)));
}

function read(): Keys {
  try {
    return v.parse(Keys, JSON.parse(stored.get() ?? '[]'));
  } catch {
    // The stored entry is ignored, because another version of the page wrote it.
    return [];
  }
}
