/**
 * Writes the messages of one connection. The connection receives the whole room once, and then only
 * what has changed since the room that it received last (`src/protocol/deltas.ts`).
 */
import type { PrepareMessage, RoomMessage, ServerMessage } from '../src/protocol/control.ts';
import {
  NO_VERSION,
  type RoomDeltaListLayout,
  type PrepareDelta,
  type RoomDelta,
  type ListRun,
} from '../src/protocol/deltas.ts';
import type { RosterEntry } from '../src/protocol/room.ts';

/** Stands for the room that a connection knows, if the connection has not received any room yet. */
const NO_ROOM = {};

/**
 * Texts of messages, by the room that the receiver knows. A message to many members is one object,
 * and most members know the same room. So a text is usually written only once.
 */
const texts = new WeakMap<object, WeakMap<ServerMessage, string>>();

/** Version numbers of rooms. They grow in the order in which the rooms are sent. */
const versions = new WeakMap<RoomMessage, number>();
let latestVersion = NO_VERSION;

export class DeltaEncoder {
  /** The room that the connection received last. */
  #room: RoomMessage | null = null;

  /** Returns the text to send. The caller must send all texts, in the order of the calls. */
  encode(message: ServerMessage): string {
    const base = this.#room;
    if (message.type === 'room') {
      this.#room = message;
      return textOf(base, message, () => roomOf(base, message));
    }
    if (message.type === 'prepare') return textOf(base, message, () => prepareOf(base, message));
    return textOf(null, message, () => message);
  }
}

function textOf(base: RoomMessage | null, message: ServerMessage, create: () => object): string {
  const key = base ?? NO_ROOM;
  let known = texts.get(key);
  if (known === undefined) texts.set(key, (known = new WeakMap()));
  let text = known.get(message);
  if (text === undefined) known.set(message, (text = JSON.stringify(create())));
  return text;
}

function versionOf(room: RoomMessage | null): number {
  if (room === null) return NO_VERSION;
  let version = versions.get(room);
  if (version === undefined) versions.set(room, (version = ++latestVersion));
  return version;
}

/** Returns the changes from `base`, or the whole room if they cannot be expressed. */
function roomOf(base: RoomMessage | null, room: RoomMessage): object {
  const isWhole = base === null || (base.removed !== undefined && room.removed === undefined);
  return isWhole ? { ...room, version: versionOf(room) } : deltaOf(base, room);
}

function deltaOf(base: RoomMessage, room: RoomMessage): RoomDelta {
  const { type: _type, hosts: _hosts, members: _members, spectators: _spectators, ...fields } = room;
  const changed = Object.entries(fields).filter(([name, value]) => !isSame(base[name as keyof typeof fields], value));
  const hosts = layoutOf(base.hosts, room.hosts, (member) => member);
  const members = layoutOf(base.members, room.members, idOf, isKept);
  const unready = unreadyRuns(base.members, room.members);
  const spectators = layoutOf(base.spectators, room.spectators, idOf);
  return {
    type: 'room-delta',
    base: versionOf(base),
    version: versionOf(room),
    ...Object.fromEntries(changed),
    ...(!isUnchanged(base.hosts, hosts) && { hosts }),
    ...(!isUnchanged(base.members, members) && { members }),
    ...(unready.length > 0 && { unready }),
    ...(!isUnchanged(base.spectators, spectators) && { spectators }),
  };
}

function prepareOf(base: RoomMessage | null, { job, ...prepare }: PrepareMessage): PrepareDelta {
  return {
    ...prepare,
    base: versionOf(base),
    members: layoutOf(base?.members ?? [], prepare.members, idOf),
    ...(!isSame(base?.job, job) && { job }),
  };
}

const idOf = ({ member }: { member: string }): string => member;

/** Whether a member has not changed, or only its `device` has become `null`. */
function isKept(before: RosterEntry, after: RosterEntry): boolean {
  return isSame(before, after) || (after.device === null && isSame({ ...before, device: null }, after));
}

/**
 * Whether two values are equal. Rooms of this process share the objects that have not changed.
 * Rooms that another process sent do not share them, so contents are compared.
 */
function isSame(a: unknown, b: unknown): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}

function layoutOf<Item>(
  base: readonly Item[],
  list: readonly Item[],
  id: (item: Item) => string,
  isEqual: (before: Item, after: Item) => boolean = isSame,
): RoomDeltaListLayout<Item> {
  const places = new Map(base.map((item, place) => [id(item), place]));
  const layout: RoomDeltaListLayout<Item> = [];
  let run: ListRun | null = null;
  for (const item of list) {
    const place = places.get(id(item));
    if (place === undefined || !isEqual(base[place]!, item)) {
      run = null;
      layout.push(item);
    } else if (run !== null && run[0] + run[1] === place) {
      run[1]++;
    } else {
      layout.push((run = [place, 1]));
    }
  }
  return layout;
}

/** Whether `layout` stands for all items of `base` in the same order: nothing has changed. */
function isUnchanged<Item>(base: readonly Item[], layout: RoomDeltaListLayout<Item>): boolean {
  if (base.length === 0) return layout.length === 0;
  const [part] = layout;
  return layout.length === 1 && Array.isArray(part) && part[1] === base.length;
}

/** Returns the positions in `list`, as runs, of the members whose device has become `null`. */
function unreadyRuns(base: readonly RosterEntry[], list: readonly RosterEntry[]): ListRun[] {
  const ready = new Set(base.flatMap(({ member, device }) => (device === null ? [] : [member])));
  const runs: ListRun[] = [];
  for (const [place, { member, device }] of list.entries()) {
    if (device !== null || !ready.has(member)) continue;
    const last = runs.at(-1);
    if (last !== undefined && last[0] + last[1] === place) last[1]++;
    else runs.push([place, 1]);
  }
  return runs;
}
