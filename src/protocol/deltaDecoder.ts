/** Restores the server's messages from the changes that one connection receives. */
import * as v from 'valibot';
import { ProtocolError } from '../util/errors.ts';
import type { PrepareMessage, RoomMessage, ServerMessage } from './control.ts';
import {
  NO_VERSION,
  type RoomDeltaListLayout,
  type PrepareDelta,
  type RoomDelta,
  type ListRun,
  type SentMessage,
} from './deltas.ts';
import { ringSchema, type RosterEntry } from './room.ts';

export class DeltaDecoder {
  #version = NO_VERSION;
  #room: RoomMessage | null = null;

  /**
   * Returns the message with whole lists instead of changes.
   *
   * @throws ProtocolError if the message refers to a version of the room other than the latest one,
   *   or does not fit the latest one. The connection is then useless: only a new one sends the
   *   whole room.
   */
  decode(message: SentMessage): ServerMessage {
    if (message.type === 'room') {
      const { version, ...room } = message;
      return this.#keep(version, room);
    }
    if (message.type === 'room-delta') {
      this.#check(message.base);
      return this.#keep(message.version, changed(this.#room, message));
    }
    if (message.type === 'prepare') {
      this.#check(message.base);
      return prepared(this.#room, message);
    }
    return message;
  }

  #keep(version: number, room: RoomMessage): RoomMessage {
    this.#version = version;
    this.#room = room;
    return room;
  }

  #check(base: number): void {
    if (base === this.#version) return;
    throw new ProtocolError(
      `The server sent changes to version ${base} of the room, but this tab has version ${this.#version}.`,
    );
  }
}

function changed(room: RoomMessage | null, delta: RoomDelta): RoomMessage {
  if (room === null) throw new ProtocolError('The server sent changes of a room before the room itself.');
  const { type: _type, base: _base, version: _version, hosts, members, unready = [], spectators, ...fields } = delta;
  return {
    ...room,
    ...fields,
    hosts: hosts === undefined ? room.hosts : listOf(room.hosts, hosts),
    members: withoutDevice(members === undefined ? room.members : listOf(room.members, members), unready),
    spectators: spectators === undefined ? room.spectators : listOf(room.spectators, spectators),
  };
}

function prepared(room: RoomMessage | null, { base: _base, ...delta }: PrepareDelta): PrepareMessage {
  const { job = room?.job } = delta;
  if (job === undefined) throw new ProtocolError('The server prepared a generation without a job.');
  const members = listOf(room?.members ?? [], delta.members);
  const { issues } = v.safeParse(ringSchema, members);
  if (issues !== undefined) throw new ProtocolError(`The members of a generation are invalid: ${issues[0].message}.`);
  return { ...delta, members, job };
}

/** @throws ProtocolError if a run of elements goes beyond the end of `base`. */
function listOf<Item extends object | string>(base: readonly Item[], layout: RoomDeltaListLayout<Item>): Item[] {
  return layout.flatMap((part) => (isRun(part) ? elements(base, part) : [part]));
}

function isRun(part: ListRun | object | string): part is ListRun {
  return Array.isArray(part);
}

function elements<Item>(list: readonly Item[], [from, length]: ListRun): Item[] {
  if (from + length <= list.length) return list.slice(from, from + length);
  throw new ProtocolError(`The server referred to element ${from + length} of a list of ${list.length} elements.`);
}

/** @throws ProtocolError if a run of elements goes beyond the end of `members`. */
function withoutDevice(members: RosterEntry[], runs: readonly ListRun[]): RosterEntry[] {
  if (runs.length === 0) return members;
  const which = new Set(runs.flatMap((run) => elements(members, run)));
  return members.map((one) => (which.has(one) ? { ...one, device: null } : one));
}
