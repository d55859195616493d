/** The server of the modelled world: one room, with the real state machine and a modelled hub. */
import { createRoom, restore, type RoomEffect, type RoomEvent, type RoomState } from '../../../signaling/room/index.ts';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';
import { hangUp, type Connection, type Parts, type ToServer, type WorldOptions } from './model.ts';

interface Timer {
  at: number;
  event: RoomEvent;
}

/** Called before and after the effects of a step of the room are carried out. */
interface ServerObserver {
  onStep: (before: RoomState, event: RoomEvent, after: RoomState, effects: readonly RoomEffect[]) => void;
  onDone: (before: RoomState, after: RoomState) => void;
}

export class Server {
  readonly #stepRoom: Parts['stepRoom'];
  readonly #options: WorldOptions;
  readonly #observer: ServerObserver;
  /** `null` means that the server has restarted and no member has returned. */
  room: RoomState | null;
  restarts = 0;
  readonly #timers = new Map<string, Timer>();
  readonly #peers = new Map<string, Connection>();
  /** Connections that their clients have closed, but the server has not closed yet. */
  readonly #dying: Connection[] = [];
  #now = 0;

  constructor(options: WorldOptions, stepRoom: Parts['stepRoom'], observer: ServerObserver) {
    this.#options = options;
    this.#stepRoom = stepRoom;
    this.#observer = observer;
    const { slots, ...room } = options;
    this.room = createRoom({ ...room, job: DEFAULT_JOB, capacity: slots + 1 });
  }

  #dispatch(event: RoomEvent): void {
    const before = this.room;
    if (before === null) return;
    const { state, effects } = this.#stepRoom(before, event);
    this.room = state;
    this.#observer.onStep(before, event, state, effects);
    for (const effect of effects) this.#carryOut(effect);
    for (const member of this.#peers.keys()) if (!state.hidden.has(member)) this.#peers.delete(member);
    this.#observer.onDone(before, state);
  }

  #carryOut(effect: RoomEffect): void {
    switch (effect.type) {
      case 'admit':
        this.#peers.get(effect.member)?.toClient.push({ type: 'admitted', member: effect.member });
        return;
      case 'send':
        for (const member of effect.to) {
          const peer = this.#peers.get(member);
          if (peer === undefined || !peer.isOpen) continue;
          const { message } = effect;
          peer.toClient.push(message);
          const isHarmless = message.type !== 'refused' || message.code === 'not-host' || message.code === 'not-now';
          if (!isHarmless) hangUp(peer);
        }
        return;
      case 'setTimer':
        this.#timers.set(effect.key, { at: this.#now + effect.ms, event: effect.event });
        return;
      case 'clearTimer':
        this.#timers.delete(effect.key);
        return;
      case 'expel': {
        const peer = this.#peers.get(effect.member);
        this.#peers.delete(effect.member);
        if (peer === undefined) return;
        peer.toClient.push({ type: 'refused', code: effect.code, message: effect.message });
        hangUp(peer);
        return;
      }
      case 'empty':
        return;
      default:
        effect satisfies never;
    }
  }

  receive(connection: Connection, message: ToServer): void {
    if (!connection.isOpen) return;
    const { member } = connection;
    if (message.type === 'join' || message.type === 'reconnect') return this.#admit(connection, message);
    if (this.#peers.get(member) !== connection) return;
    if (message.type === 'leave') {
      hangUp(connection);
      this.#dispatch({ type: 'left', member, reason: 'left' });
    } else if (message.type === 'remove') {
      this.#dispatch({ type: 'remove', member, whom: message.member });
    } else {
      this.#dispatch({ ...message, member });
    }
  }

  #admit(connection: Connection, message: Extract<ToServer, { type: 'join' | 'reconnect' }>): void {
    const { member } = connection;
    const newcomer = { name: member, browser: undefined, rank: undefined, holdsKey: false };
    if (this.room === null) {
      if (message.type === 'join') {
        connection.toClient.push({ type: 'refused', code: 'no-room', message: 'There is no such room.' });
        return hangUp(connection);
      }
      const { hasRelay, slots } = this.#options;
      this.room = restore(message.reconnectState.settings, { hasRelay, capacity: slots + 1 }, 1000 * this.restarts);
    }
    const before = this.#peers.get(member);
    this.#peers.set(member, connection);
    this.#dispatch({ ...newcomer, ...message, worldSize: undefined, member });
    if (!this.room.hidden.has(member)) this.#peers.delete(member);
    if (before !== undefined && before !== connection) hangUp(before);
  }

  /** Makes the server notice the end of a connection. */
  lose(connection: Connection): void {
    const { member } = connection;
    hangUp(connection);
    if (this.#peers.get(member) === connection) this.#dispatch({ type: 'away', member });
  }

  /**
   * Handles a connection that its client has closed. What the client sent before may still arrive.
   */
  abandon(connection: Connection): void {
    this.#dying.push(connection);
  }

  /**
   * Takes the next message of a connection that its client has closed. Without a message, the
   * server notices the end of the connection.
   */
  bury(x: number): boolean {
    if (this.#dying.length === 0) return false;
    const index = x % this.#dying.length;
    const connection = this.#dying[index]!;
    const message = connection.toServer.shift();
    if (message !== undefined) this.receive(connection, message);
    else {
      this.#dying.splice(index, 1);
      this.lose(connection);
    }
    return true;
  }

  /** Closes a connection because no message of its frozen client has arrived for too long. */
  silence(connection: Connection): boolean {
    const { member } = connection;
    if (!connection.isOpen || this.#peers.get(member) !== connection) return false;
    connection.toClient.push({ type: 'refused', code: 'silent', message: 'The server received nothing.' });
    hangUp(connection);
    this.#dispatch({ type: 'left', member, reason: 'silent' });
    return true;
  }

  /** Restarts the server, which forgets everything. */
  restart(): boolean {
    if (this.room === null) return false;
    this.room = null;
    this.restarts++;
    this.#timers.clear();
    this.#peers.clear();
    this.#dying.length = 0;
    return true;
  }

  /** Fires any timer. It may fire early or late. */
  fire(x: number): boolean {
    if (this.#timers.size === 0) return false;
    const key = [...this.#timers.keys()][x % this.#timers.size]!;
    const { event } = this.#timers.get(key)!;
    this.#timers.delete(key);
    this.#dispatch(event);
    return true;
  }

  /** Fires the timer that adds newcomers, if it is set. */
  grow(): void {
    const timer = this.#timers.get('grow');
    if (timer === undefined) return;
    this.#timers.delete('grow');
    this.#dispatch(timer.event);
  }

  /** Fires the timer that is due first. */
  fireNext(): boolean {
    let due: string | null = null;
    for (const [key, { at }] of this.#timers) if (due === null || at < this.#timers.get(due)!.at) due = key;
    if (due === null) return false;
    const { at, event } = this.#timers.get(due)!;
    this.#timers.delete(due);
    this.#now = Math.max(this.#now, at);
    this.#dispatch(event);
    return true;
  }
}
