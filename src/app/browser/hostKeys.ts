/**
 * The keys of rooms that this browser opened: with one, a tab that was closed is a host of its room
 * again.
 */
import * as v from 'valibot';
import { remembered } from './remembered.ts';

/** Rooms whose keys are kept, the latest: a key is good for a day. */
const MAX_ROOMS = 16;

const Keys = v.array(v.strictObject({ room: v.string(), key: v.string() }));
type Keys = v.InferOutput<typeof Keys>;

const stored = remembered('peergrad.hostKeys');

export function hostKeyOf(room: string): string | undefined {
  return read().find((one) => one.room === room)?.key;
}

export function keepHostKey(room: string, key: string): void {
  const others = read().filter((one) => one.room !== room);
  stored.set(JSON.stringify([{ room, key }, ...others].slice(0, MAX_ROOMS)));
}

function read(): Keys {
  try {
    return v.parse(Keys, JSON.parse(stored.get() ?? '[]'));
  } catch {
    // Not of this version.
    return [];
  }
}
