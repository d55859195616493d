/**
 * The server's messages as they are sent to a tab. A tab receives the whole room when it enters,
 * and only the changes after that. If every change sent the whole room to all n members, it would
 * cost n * n bytes.
 */
import * as v from 'valibot';
import { OTHER_SERVER_MESSAGES, PrepareMessage, RoomMessage } from './control.ts';
import { RosterEntry, Spectator } from './room.ts';
import { countSchema, memberIdSchema } from './scalars.ts';

/** Consecutive elements of a list: the index of the first, and their number. */
const ListRun = v.tuple([countSchema, v.pipe(countSchema, v.minValue(1))]);
export type ListRun = v.InferOutput<typeof ListRun>;

/**
 * A list, described by runs (consecutive elements of an earlier list) and by elements that are
 * written out.
 */
const layout = <const Schema extends v.GenericSchema>(item: Schema) => v.array(v.union([ListRun, item]));
export type RoomDeltaListLayout<Item> = (ListRun | Item)[];

const { entries } = RoomMessage;

/** The whole room. The sender's later messages refer to it by `version`. */
const VersionedRoom = v.strictObject({ ...entries, version: countSchema });

/** Changes of the room. They apply to the version `base` and lead to `version`. */
export const RoomDelta = v.strictObject({
  type: v.literal('room-delta'),
  base: countSchema,
  version: countSchema,
  phase: v.exactOptional(entries.phase),
  run: v.exactOptional(entries.run),
  generation: v.exactOptional(entries.generation),
  hasTrained: v.exactOptional(entries.hasTrained),
  hosts: v.exactOptional(layout(memberIdSchema)),
  members: v.exactOptional(layout(RosterEntry)),
  /** Members whose `device` is now `null`, as runs of the new list of members. */
  unready: v.exactOptional(v.array(ListRun)),
  spectators: v.exactOptional(layout(Spectator)),
  job: v.exactOptional(entries.job),
  startAt: v.exactOptional(entries.startAt),
  nodes: v.exactOptional(entries.nodes),
  isLocked: v.exactOptional(entries.isLocked),
  isPausedByHost: v.exactOptional(entries.isPausedByHost),
  removed: v.exactOptional(v.unwrap(entries.removed)),
  waitingFor: v.exactOptional(entries.waitingFor),
  served: entries.served,
});
export type RoomDelta = v.InferOutput<typeof RoomDelta>;

/**
 * The version of the room on a connection on which no room was sent yet. This room has no members.
 */
export const NO_VERSION = 0;

/**
 * The message `prepare`. Its members are described by runs of the room's members in the version
 * `base`.
 */
const PrepareDelta = v.strictObject({
  ...v.omit(PrepareMessage, ['members', 'job']).entries,
  base: countSchema,
  members: layout(RosterEntry),
  /** The generation's job; left out if it is the room's job. */
  job: v.exactOptional(PrepareMessage.entries.job),
});
export type PrepareDelta = v.InferOutput<typeof PrepareDelta>;

export const SentMessage = v.variant('type', [VersionedRoom, RoomDelta, PrepareDelta, ...OTHER_SERVER_MESSAGES]);
export type SentMessage = v.InferOutput<typeof SentMessage>;
