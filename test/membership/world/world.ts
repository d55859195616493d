/**
 * A room and its members, with every possible fault between them, as a machine that takes one small
 * action at a time. The functions of the room and of the members are the real ones. The hub, the
 * connections, the links and the training are modelled. The {@link Invariants} are checked after
 * every step. Every action returns whether it was possible.
 */
import { reconnectStateOf } from '../../../src/engine/membership/membership.ts';
import type { ReportedDevice } from '../../../src/protocol/room.ts';
import { Clients } from './clients.ts';
import { hangUp, type Client, type ToClient, type ToServer } from './model.ts';

const DEVICE: ReportedDevice = { backend: 'cpu', adapter: 'model' };

export class World extends Clients {
  /** Whether a fault occurred that would be repaired only when the connection ends. */
  isLossy = false;

  // ---- Messages and requests ----

  join(slot: number): boolean {
    const client = this.clients[slot]!;
    if (client.member !== null || this.server.room === null) return false;
    client.incarnations++;
    client.member = `${'ABC'[slot]}${client.incarnations}`;
    this.#connect(client, { type: 'join' });
    return true;
  }

  return(slot: number): boolean {
    const client = this.clients[slot]!;
    const { member, connection, room, state, isFrozen } = client;
    if (member === null || connection !== null || isFrozen) return false;
    if (room === null) this.vanish(client);
    else this.#connect(client, { type: 'reconnect', reconnectState: reconnectStateOf(state, room) });
    return true;
  }

  #connect(client: Client, first: ToServer): void {
    client.connection = { member: client.member!, toServer: [first], toClient: [], isOpen: true };
  }

  /** Makes the server receive a client's next message. */
  up(slot: number): boolean {
    const { connection } = this.clients[slot]!;
    const message = connection?.toServer.shift();
    if (!connection || message === undefined) return false;
    this.server.receive(connection, message);
    return true;
  }

  /** Makes a client receive the server's next message, and the `room` messages before it. */
  down(slot: number): boolean {
    const client = this.clients[slot]!;
    const { connection, isFrozen } = client;
    if (connection === null || isFrozen) return false;
    if (connection.toClient.length === 0) {
      if (connection.isOpen) return false;
      client.connection = null;
      this.advance(client, { type: 'lost' });
      return true;
    }
    for (;;) {
      const message = connection.toClient.shift();
      if (message === undefined) return true;
      this.receive(client, message);
      if (message.type !== 'room') return true;
    }
  }

  ready(slot: number): boolean {
    const client = this.clients[slot]!;
    const { connection, isDue, isFrozen, replica, state } = client;
    if (!connection || !isDue || isFrozen || !state.isConnected) return false;
    client.isDue = false;
    connection.toServer.push({ type: 'ready', device: DEVICE, stateOfRun: replica.run === 0 ? null : replica.run });
    return true;
  }

  start(slot: number): boolean {
    const { connection, room, member, isFrozen } = this.clients[slot]!;
    if (!connection || isFrozen || room?.phase !== 'FORMING' || !room.hosts.includes(member!)) return false;
    connection.toServer.push({ type: 'start' });
    return true;
  }

  stop(slot: number): boolean {
    const { connection, room, member, isFrozen } = this.clients[slot]!;
    if (!connection || isFrozen || !room || room.phase === 'FORMING' || !room.hosts.includes(member!)) return false;
    connection.toServer.push({ type: 'stop' });
    return true;
  }

  pause(slot: number): boolean {
    const { connection, room, member, isFrozen } = this.clients[slot]!;
    if (!connection || isFrozen || !room || room.phase === 'FORMING' || !room.hosts.includes(member!)) return false;
    connection.toServer.push({ type: 'pause' });
    return true;
  }

  resume(slot: number): boolean {
    const { connection, room, member, isFrozen } = this.clients[slot]!;
    if (!connection || isFrozen || !room?.isPausedByHost || !room.hosts.includes(member!)) return false;
    connection.toServer.push({ type: 'resume' });
    return true;
  }

  remove(slot: number, x: number): boolean {
    const { connection, room, member, isFrozen } = this.clients[slot]!;
    if (!connection || isFrozen || !room?.hosts.includes(member!)) return false;
    connection.toServer.push({ type: 'remove', member: room.members[x % room.members.length]!.member });
    return true;
  }

  leave(slot: number): boolean {
    const client = this.clients[slot]!;
    if (!client.connection || client.isFrozen) return false;
    client.connection.toServer.push({ type: 'leave' });
    this.vanish(client);
    return true;
  }

  // ---- Faults ----

  /** Makes a client fail, for example because of its GPU or the job. */
  fail(slot: number, x: number): boolean {
    const client = this.clients[slot]!;
    const { active, isFrozen } = client;
    if (active === 0 || isFrozen) return false;
    const scope = x % 8 === 0 ? 'run' : x % 3 === 0 ? 'generation' : 'rank';
    if (scope === 'rank') client.isDue = true;
    client.isTraining = false;
    this.advance(client, { type: 'failed', generation: active, message: 'The GPU was lost.', scope });
    return true;
  }

  /** Ends a connection whose client notices this first. Some of its messages may still arrive. */
  drop(slot: number, x: number): boolean {
    const client = this.clients[slot]!;
    const { connection } = client;
    if (connection === null) return false;
    connection.toServer.length = x % (connection.toServer.length + 1);
    this.server.abandon(connection);
    client.connection = null;
    this.advance(client, { type: 'lost' });
    return true;
  }

  /**
   * Ends a connection whose end the server notices first. Some of its messages may still arrive.
   */
  cutOff(slot: number, x: number): boolean {
    const { connection } = this.clients[slot]!;
    if (!connection?.isOpen) return false;
    connection.toClient.length = x % (connection.toClient.length + 1);
    this.server.lose(connection);
    return true;
  }

  /**
   * Takes the next message of a connection that its client has closed. Without a message, the
   * server notices the end of the connection.
   */
  bury(x: number): boolean {
    return this.server.bury(x);
  }

  crash(slot: number): boolean {
    const client = this.clients[slot]!;
    if (client.member === null) return false;
    this.vanish(client);
    return true;
  }

  freeze(slot: number): boolean {
    const client = this.clients[slot]!;
    if (client.member === null || client.isFrozen) return false;
    client.isFrozen = true;
    return true;
  }

  thaw(slot: number): boolean {
    const client = this.clients[slot]!;
    if (!client.isFrozen) return false;
    client.isFrozen = false;
    return true;
  }

  /**
   * Closes a connection because no message of its frozen client has reached the server for too
   * long.
   */
  silence(slot: number): boolean {
    const { connection, isFrozen } = this.clients[slot]!;
    return isFrozen && connection !== null && this.server.silence(connection);
  }

  /** Cuts the link between two slots. If it is cut already, repairs it. */
  cut(x: number): boolean {
    const most = 2 * this.clients.length - 3;
    this.cutPairs ^= 1 << (1 + (x % most));
    return true;
  }

  restart(): boolean {
    if (!this.server.restart()) return false;
    for (const { connection } of this.clients) {
      if (connection === null) continue;
      connection.toClient = [];
      hangUp(connection);
    }
    return true;
  }

  /**
   * Delivers a message twice, with other messages in between. An old `room` message never follows a
   * newer one.
   */
  repeat(slot: number, x: number): boolean {
    const { connection } = this.clients[slot]!;
    const queue: (ToServer | ToClient)[] | undefined = x % 2 === 0 ? connection?.toServer : connection?.toClient;
    const at = queue && queue.length > 0 ? x % queue.length : 0;
    const message = queue?.[at];
    // A second first message would end the connection.
    if (!queue || message === undefined || message.type === 'join' || message.type === 'reconnect') return false;
    const newer = message.type === 'room' ? queue.findIndex((next, i) => i > at && next.type === 'room') : -1;
    const end = newer < 0 ? queue.length : newer;
    queue.splice(at + 1 + (x % (end - at)), 0, message);
    return true;
  }

  /**
   * Drops a message, or moves it before another one. A WebSocket does neither. This only shows that
   * no invariant depends on it.
   */
  disturb(slot: number, x: number): boolean {
    const { connection } = this.clients[slot]!;
    const queue: (ToServer | ToClient)[] | undefined = x % 2 === 0 ? connection?.toServer : connection?.toClient;
    if (!queue || queue.length < 2) return false;
    const at = 1 + (x % (queue.length - 1));
    const [message] = queue.splice(at, 1);
    if (message!.type === 'admitted') queue.splice(at, 0, message!);
    else if (x % 4 < 2 && queue[at - 1]!.type !== 'join' && queue[at - 1]!.type !== 'reconnect')
      queue.splice(at - 1, 0, message!);
    this.isLossy = true;
    return true;
  }

  // ---- After the faults ----

  /** Returns the number of generations that trained, and the situations that occurred. */
  get seen() {
    const trained = [...this.generations.values()].filter(({ contributions }) => contributions.size > 0);
    return { generations: trained.length, restarts: this.server.restarts, ...this.situations };
  }

  /** Repairs all faults. */
  heal(): void {
    this.cutPairs = 0;
    for (const client of this.clients) client.isFrozen = false;
    // If no client knows the room any more, it no longer exists.
    if (this.server.room === null && this.clients.every(({ member, room }) => member === null || room === null)) {
      for (const client of this.clients) this.vanish(client);
    }
  }

  /** Describes what still waits although no further action is possible; `null` if nothing waits. */
  unfinished(): string | null {
    const { room } = this.server;
    if (room === null) return this.clients.some(({ member }) => member !== null) ? 'no client has returned' : null;
    const waiting = this.clients.filter(({ linking, active }) => linking > 0 || active > 0);
    if (waiting.length > 0) {
      const who = waiting.map(({ member, state }) => `${member} (${state.active?.phase ?? 'LINKING'})`).join(', ');
      return `the room is ${room.phase}, and these clients wait: ${who}`;
    }
    if (room.phase === 'FORMING') {
      const paused = this.clients.find(({ member, state }) => member !== null && state.pausedFor !== null);
      return paused === undefined ? null : `${paused.member} waits for a run that has ended`;
    }
    if (room.phase !== 'PAUSED') return `the room is ${room.phase}, but no client is in its generation`;
    const present = this.clients.filter(({ member }) => member !== null).length;
    return present < (room.nodes?.min ?? 0) || present === 0
      ? null
      : `the room is PAUSED although it has ${present} members`;
  }
}
