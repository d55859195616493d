/**
 * A room and its members, with everything between them that can go wrong, as a machine that takes
 * one small action at a time. The room's and the members' functions are the real ones; the hub, the
 * connections, the links and the training are modelled. What must never happen is checked on the
 * way and thrown as {@link Violation}.
 */
import {
  createRoom,
  MAX_RETRIES,
  restore,
  step as stepRoom,
  type RoomEffect,
  type RoomEvent,
  type RoomState,
} from '../../signaling/room/index.ts';
import { neighbours } from '../../signaling/room/edges.ts';
import {
  advance as advanceMember,
  OUTSIDE,
  reconnectStateOf,
  type MembershipEffect,
  type MembershipEvent,
  type MembershipState,
} from '../../src/engine/membership/membership.ts';
import type { ClientMessage, ServerMessage } from '../../src/protocol/control.ts';
import type { Device, Nodes, RosterEntry } from '../../src/protocol/room.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { ReplicatedDataAssigner } from '../../src/engine/training/data/replicatedDataAssigner.ts';
import type { SampleAssigner, StepAssignment } from '../../src/engine/training/data/sampleAssigner.ts';
import { currentGradients, type RetainedGradient } from '../../src/parallel/recovery/sampleReassignment.ts';
import { electState, type ElectedState } from '../../src/parallel/recovery/stateElection.ts';
import { PASS, Replica, takeOver } from './replica.ts';
import { Violation } from './violation.ts';

const DEVICE: Device = { backend: 'cpu', adapter: 'model' };

/** What the check runs; a test may put in a wrong one. */
export interface Parts {
  stepRoom: typeof stepRoom;
  advanceMember: typeof advanceMember;
  electState: typeof electState;
  takeOver: typeof takeOver;
  holdingsThatCount: typeof currentGradients;
  /** Changes what deals out samples to a rank. */
  assigner: (assigner: SampleAssigner) => SampleAssigner;
  /** Whether a step needs the contributions of all. */
  needsAll: boolean;
}
export const REAL_PARTS: Parts = {
  stepRoom,
  advanceMember,
  electState,
  takeOver,
  holdingsThatCount: currentGradients,
  assigner: (assigner) => assigner,
  needsAll: true,
};

export interface WorldOptions {
  /** Clients there may be at once. */
  slots: number;
  /** `null`: a fixed world. */
  nodes: Nodes | null;
  startAt: number | null;
  hasRelay: boolean;
}

type Sent = Extract<ClientMessage, { type: 'join' | 'reconnect' }>;
type ToServer =
  | Exclude<ClientMessage, { type: 'create' | 'join' | 'reconnect' | 'heartbeat' }>
  | Pick<Sent & { type: 'join' }, 'type'>
  | Pick<Sent & { type: 'reconnect' }, 'type' | 'reconnectState'>;
type ToClient = ServerMessage | { type: 'admitted'; member: string };

/** A WebSocket: in order, and without loss for as long as it lives. */
interface Connection {
  readonly member: string;
  toServer: ToServer[];
  toClient: ToClient[];
  /** Whether the server's end is open. */
  isOpen: boolean;
}

interface Client {
  readonly slot: number;
  /** `null`: nobody is there. */
  member: string | null;
  incarnations: number;
  state: MembershipState;
  /** The last `room` it heard. */
  room: Extract<ServerMessage, { type: 'room' }> | null;
  connection: Connection | null;
  isFrozen: boolean;
  /** It has to say `ready`. */
  isDue: boolean;
  /** The generation whose links it makes; whether they are up. */
  linking: number;
  isLinked: boolean;
  /** The generation whose group it has. */
  active: number;
  /** Progress of entering: 0 has sent its status, 1 has sent what others need, 2 has its state. */
  stage: number;
  isTraining: boolean;
  replica: Replica;
  assigner: SampleAssigner | null;
  /** Its part of the next step. */
  turn: StepAssignment | null;
  /**
   * A run goes on without it, from a generation on that it is no member of: its last steps may be
   * undone.
   */
  isBehind: boolean;
}

/** What happens among a generation's members. */
interface Generation {
  readonly run: number;
  readonly ring: readonly string[];
  readonly relayed: readonly (readonly [string, string])[];
  /** By rank. */
  readonly statuses: (Status | null)[];
  /** Result of all statuses, once all have arrived. */
  comparison: ElectedState | null;
  readonly hasSent: boolean[];
  /** State with which each has entered. */
  readonly entered: (string | null)[];
  /** Contributions of ranks to the step after `steps`. */
  readonly contributions: Map<number, ({ samples: number; base: number } | null)[]>;
}

/** How a rank comes into a generation. */
interface Status {
  replica: Replica;
  note: { retained: RetainedGradient | null };
}

interface Timer {
  at: number;
  event: RoomEvent;
}

export class World {
  readonly #parts: Parts;
  readonly #options: WorldOptions;
  readonly clients: Client[] = [];
  /** `null`: the server has restarted, and nobody has returned. */
  room: RoomState | null;
  readonly #timers = new Map<string, Timer>();
  readonly #peers = new Map<string, Connection>();
  /** Connections that their clients have given up, and the server not yet. */
  readonly #dying: Connection[] = [];
  readonly #generations = new Map<number, Generation>();
  /** Steps by run, generation and number: everybody who makes one must come to the same. */
  readonly #steps = new Map<string, number>();
  /** Bit mask of pairs of slots that cannot reach each other. */
  #cut = 0;
  #now = 0;
  #restarts = 0;
  #hasFinished = false;
  #hasPaused = false;
  #hasResumed = false;
  #hasSeparated = false;
  #hasSuspended = false;
  /** The members that reported each member, by the reported one. */
  readonly #accusers = new Map<string, Set<string>>();
  /** Whether something happened that only a connection's end would mend. */
  isLossy = false;

  constructor(options: WorldOptions, parts: Parts) {
    this.#options = options;
    this.#parts = parts;
    const { slots, ...room } = options;
    this.room = createRoom({ ...room, job: DEFAULT_JOB, capacity: slots + 1 });
    for (let slot = 0; slot < slots; slot++) {
      this.clients.push({
        slot,
        member: null,
        incarnations: 0,
        state: OUTSIDE,
        room: null,
        connection: null,
        isFrozen: false,
        isDue: false,
        linking: 0,
        isLinked: false,
        active: 0,
        stage: 0,
        isTraining: false,
        replica: new Replica(),
        assigner: null,
        turn: null,
        isBehind: false,
      });
    }
  }

  // ---- The server ----

  #dispatch(event: RoomEvent): void {
    const before = this.room;
    if (before === null) return;
    const accuse = (by: string, about: string): void => {
      this.#accusers.set(about, (this.#accusers.get(about) ?? new Set()).add(by));
    };
    if (event.type === 'broken' || event.type === 'late') for (const peer of event.peers) accuse(event.member, peer);
    if (event.type === 'deadline' && before.phase === 'LINKING') {
      // Two neighbours that are not linked say so by their silence.
      for (const [a, b] of neighbours(before.ring)) {
        if (before.reports.has(a.member) || before.reports.has(b.member)) continue;
        accuse(a.member, b.member);
        accuse(b.member, a.member);
      }
    }
    const { state, effects } = this.#parts.stepRoom(before, event);
    this.room = state;
    this.#checkRoom(before, state, effects);
    this.#checkPutOut(before, event, effects);
    for (const effect of effects) this.#carryOut(effect);
    for (const client of this.clients) {
      // Out of the ring, for it has gone, failed or missed a deadline: what it applied alone may be
      // undone.
      const { member } = client;
      if (member !== null && isCounted(before, member) && !isCounted(state, member)) client.isBehind = true;
    }
    for (const member of this.#peers.keys()) if (!state.hidden.has(member)) this.#peers.delete(member);
    this.#hasPaused ||= state.phase === 'PAUSED';
    this.#hasFinished ||= state.ended?.outcome === 'finished';
    this.#hasResumed ||= before.isPausedByHost && !state.isPausedByHost && state.phase === 'LINKING';
    if (state.phase === 'RUNNING' && before.phase === 'SYNCING') this.#checkBegun(state);
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
          if (!isHarmless) this.#hangUp(peer);
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
        this.#hangUp(peer);
        return;
      }
      case 'empty':
        return;
      default:
        effect satisfies never;
    }
  }

  #hangUp(connection: Connection): void {
    connection.isOpen = false;
    connection.toServer = [];
  }

  #receive(connection: Connection, message: ToServer): void {
    if (!connection.isOpen) return;
    const { member } = connection;
    if (message.type === 'join' || message.type === 'reconnect') return this.#admit(connection, message);
    if (this.#peers.get(member) !== connection) return;
    if (message.type === 'leave') {
      this.#hangUp(connection);
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
        return this.#hangUp(connection);
      }
      const { hasRelay, slots } = this.#options;
      this.room = restore(message.reconnectState.settings, { hasRelay, capacity: slots + 1 }, 1000 * this.#restarts);
    }
    const before = this.#peers.get(member);
    this.#peers.set(member, connection);
    this.#dispatch({ ...newcomer, ...message, worldSize: undefined, member });
    if (!this.room.hidden.has(member)) this.#peers.delete(member);
    if (before !== undefined && before !== connection) this.#hangUp(before);
  }

  /** The server sees a connection's end. */
  #lose(connection: Connection): void {
    const { member } = connection;
    this.#hangUp(connection);
    if (this.#peers.get(member) === connection) this.#dispatch({ type: 'away', member });
  }

  // ---- The laws ----

  #checkRoom(before: RoomState, after: RoomState, effects: readonly RoomEffect[]): void {
    if (after.isPausedByHost && !after.isRestoring && after.phase !== 'PAUSED') {
      throw new Violation('I9', `the host holds the run, and the room is ${after.phase}`);
    }
    for (const [i, effect] of effects.entries()) {
      if (effect.type !== 'send') continue;
      const { to, message } = effect;
      if (message.type === 'refused') continue;
      for (const member of to) {
        // A client that is removed in the same step may receive a message before.
        const isOnItsWay = effects.slice(i + 1).some((next) => next.type === 'expel' && next.member === member);
        if (!after.hidden.has(member) && !isOnItsWay) {
          throw new Violation('I6', `a ${message.type} went to ${member}, who is no member`);
        }
      }
      if (message.type === 'prepare') this.#checkPrepare(message, after);
    }
    if (after.nodes === null && before.ring.length > 0 && after.run === before.run && after.phase === before.phase) {
      for (const { member } of after.ring) {
        const hasFinished = before.phase === 'RUNNING' && before.reports.has(member);
        if (!after.hidden.has(member) && !hasFinished && before.hidden.has(member)) {
          throw new Violation('I8', `run ${after.run} of a fixed world goes on without ${member}`);
        }
      }
    }
  }

  /** Nobody has to go at the word of one other member. */
  #checkPutOut(before: RoomState, event: RoomEvent, effects: readonly RoomEffect[]): void {
    // Time that has run out shows it without a word, and newcomers whose generations have all
    // failed wait for others.
    const isObserved = event.type === 'deadline' || event.type === 'entering' || before.retries >= MAX_RETRIES;
    for (const effect of effects) {
      if (effect.type !== 'send' || effect.message.type !== 'suspended') continue;
      // A member that comes while another tab of its browser is suspended is told so.
      for (const member of effect.to.filter((one) => isCounted(before, one))) {
        this.#hasSuspended = true;
        const accusers = this.#accusers.get(member)?.size ?? 0;
        const says = [...this.#accusers.values()].some((said) => said.has(member));
        if (accusers < 2 && !says && !isObserved) {
          throw new Violation('I11', `${member} had to go at the word of ${accusers}`);
        }
      }
    }
  }

  #checkPrepare(prepare: Extract<ServerMessage, { type: 'prepare' }>, after: RoomState): void {
    const { generation, run, members, relayed, separated } = prepare;
    const ring = members.map((m) => m.member);
    for (const pair of separated) {
      this.#hasSeparated = true;
      if (neighbours(ring).some((two) => two.every((member) => pair.includes(member)))) {
        throw new Violation('I10', `generation ${generation} says that ${pair.join()} are no neighbours, and they are`);
      }
    }
    const kept = after.separated.flat();
    if (new Set(kept).size < kept.length) throw new Violation('I10', `a member of ${kept.join()} was separated twice`);
    const known = this.#generations.get(generation);
    if (known === undefined) {
      const { length } = ring;
      const none = <T>(value: T): T[] => Array.from({ length }, () => value);
      this.#generations.set(generation, {
        run,
        ring,
        relayed,
        statuses: none(null),
        hasSent: none(false),
        entered: none(null),
        contributions: new Map(),
        comparison: null,
      });
      // A client that has not reported readiness by now is too late for what it applied alone.
      for (const client of this.clients) {
        const { member, replica } = client;
        if (member !== null && replica.run === run && !isCounted(after, member)) client.isBehind = true;
      }
      if (after.nodes === null) {
        for (const [other, one] of this.#generations) {
          if (one.run === run && other !== generation) {
            throw new Violation('I8', `run ${run} of a fixed world has generations ${other} and ${generation}`);
          }
        }
      }
    } else if (known.ring.join() !== ring.join() || known.run !== run) {
      throw new Violation('I1', `generation ${generation} is ${known.ring.join()} and ${ring.join()}`);
    }
  }

  /** A generation trains: whose state counts that is not in it? */
  #checkBegun({ ring, members, hidden, run, generation, nodes }: RoomState): void {
    if (nodes !== null && (ring.length < nodes.min || ring.length > nodes.max)) {
      throw new Violation('I5', `generation ${generation} trains with ${ring.length} ranks`);
    }
    for (const client of this.clients) {
      const { member, replica } = client;
      if (member === null || replica.run !== run || ring.some((m) => m.member === member)) continue;
      const entry = members.find((m) => m.member === member);
      const known = hidden.get(member);
      const isThere = entry?.device && known && !known.isAway && !client.isFrozen;
      const newest = this.#generations.get(generation)?.entered.find((said) => said !== null);
      if (isThere && !client.isBehind && newest && Number(newest.split(' ')[0]) < replica.steps) {
        throw new Violation(
          'I4',
          `generation ${generation} begins at step ${newest}, and ${member} at ${replica.steps} waits`,
        );
      }
      client.isBehind = true;
    }
  }

  #checkTrain({ member, state, replica }: Client, generation: number): void {
    const { ring, entered } = this.#generations.get(generation)!;
    const { nodes } = this.#options;
    if (state.active?.members.map((m) => m.member).join() !== ring.join()) {
      throw new Violation('I1', `${member} trains in another generation ${generation} than ${ring.join()}`);
    }
    if (nodes !== null && (ring.length < nodes.min || ring.length > nodes.max)) {
      throw new Violation('I5', `${member} trains in a world of ${ring.length}`);
    }
    const own = `${replica.steps} ${replica.hash}`;
    if (entered.some((said) => said !== own)) {
      throw new Violation(
        'I2',
        `${member} trains in generation ${generation} with ${own}, its members entered with ${entered.join()}`,
      );
    }
  }

  #checkApplied(client: Client, generation: number): void {
    const { replica, member } = client;
    const steps = replica.steps;
    const key = `${replica.run} ${generation} ${steps}`;
    const hash = this.#steps.get(key);
    if (hash === undefined) this.#steps.set(key, replica.hash);
    else if (hash !== replica.hash)
      throw new Violation('I3', `step ${steps} of generation ${generation} differs at ${member}`);
    for (const other of this.clients) {
      if (other.member === null || other === client || other.isBehind || client.isBehind) continue;
      if (other.replica.run !== replica.run) continue;
      const both = Math.min(steps, other.replica.steps);
      // A rank that has not yet come to the generation that undoes nothing of it may lag, and may
      // not differ.
      if (other.active === generation && other.isTraining && Math.abs(steps - other.replica.steps) > 1) {
        throw new Violation(
          'I4',
          `${member} and ${other.member} are more than a step apart in generation ${generation}`,
        );
      }
      if (other.replica.hashes[both] !== replica.hashes[both]) {
        throw new Violation('I3', `step ${both} differs at ${member} and ${other.member}`);
      }
    }
  }

  // ---- A client ----

  #tell(client: Client, event: MembershipEvent): void {
    const before = client.state;
    const { state, effects } = this.#parts.advanceMember(before, event);
    client.state = state;
    if (state.generation < before.generation && state.member === before.member) {
      throw new Violation(
        'I1',
        `${client.member} went from generation ${before.generation} back to ${state.generation}`,
      );
    }
    for (const effect of effects) this.#act(client, effect);
  }

  #act(client: Client, effect: MembershipEffect): void {
    switch (effect.type) {
      case 'send':
        client.connection?.toServer.push(effect.message);
        return;
      case 'link':
        client.linking = effect.prepare.generation;
        client.isLinked = false;
        return;
      case 'drop':
        if (client.linking === effect.generation) client.linking = 0;
        if (client.active === effect.generation) {
          client.active = 0;
          client.isTraining = false;
        }
        return;
      case 'enter': {
        client.linking = 0;
        client.active = effect.generation;
        client.isTraining = false;
        client.stage = 0;
        const generation = this.#generations.get(effect.generation)!;
        if (client.replica.run !== generation.run) forget(client);
        this.#bring(client, generation);
        return;
      }
      case 'train':
        this.#checkTrain(client, effect.generation);
        client.isTraining = true;
        // Not where it hears of a generation that is over by now.
        if (this.room?.generation === effect.generation && this.room.phase === 'RUNNING') client.isBehind = false;
        return;
      case 'end':
        forget(client);
        client.isBehind = false;
        return;
      default:
        effect satisfies never;
    }
  }

  #hear(client: Client, message: ToClient): void {
    switch (message.type) {
      case 'admitted':
        client.isDue = true;
        return this.#tell(client, { type: 'admitted', member: message.member });
      case 'room': {
        const mine = (room: Client['room']): RosterEntry | undefined =>
          room?.members.find((m) => m.member === client.member);
        if (mine(client.room)?.device && mine(message)?.device === null) client.isDue = true;
        client.room = message;
        return;
      }
      case 'prepare':
      case 'sync':
      case 'go':
      case 'pause':
      case 'suspended':
      case 'ended':
        return this.#tell(client, message);
      case 'refused':
        if (message.code !== 'silent' && message.code !== 'not-host' && message.code !== 'not-now')
          this.#vanish(client);
        return;
      case 'credentials':
      case 'ice':
      case 'signal':
      case 'heartbeat':
      case 'spectator-update':
        return;
      default:
        message satisfies never;
    }
  }

  #rankOf({ member, active }: Client): number {
    return this.#generations.get(active)!.ring.indexOf(member!);
  }

  /** A tab is closed, or crashed: nothing is left of it. */
  #vanish(client: Client): void {
    const { connection } = client;
    if (connection !== null) {
      connection.toClient = [];
      this.#dying.push(connection);
    }
    Object.assign(client, {
      member: null,
      state: OUTSIDE,
      room: null,
      connection: null,
      isFrozen: false,
      isDue: false,
      linking: 0,
      active: 0,
      isTraining: false,
      isBehind: false,
    });
    forget(client);
  }

  #clientOf(member: string): Client | undefined {
    return this.clients.find((client) => client.member === member);
  }

  #isCut(a: Client, b: Client, { ring, relayed }: Generation): boolean {
    if ((this.#cut & (1 << (a.slot + b.slot))) === 0) return false;
    if (!neighbours(ring).some((pair) => pair.includes(a.member!) && pair.includes(b.member!))) return false;
    return !relayed.some((pair) => pair.includes(a.member!) && pair.includes(b.member!));
  }

  /** The first of a generation's members that `client` cannot work with, for now or for good. */
  #missing(client: Client, number: number): string | undefined {
    const generation = this.#generations.get(number)!;
    return generation.ring.find((member) => {
      if (member === client.member) return false;
      const other = this.#clientOf(member);
      if (other === undefined || other.isFrozen || this.#isCut(client, other, generation)) return true;
      const isIn = other.active === number && other.state.active?.phase !== 'STALLED';
      return !isIn && other.linking !== number;
    });
  }

  // ---- What can happen. Each returns whether it could. ----

  join(slot: number): boolean {
    const client = this.clients[slot]!;
    if (client.member !== null || this.room === null) return false;
    client.incarnations++;
    client.member = `${'ABC'[slot]}${client.incarnations}`;
    this.#connect(client, { type: 'join' });
    return true;
  }

  return(slot: number): boolean {
    const client = this.clients[slot]!;
    const { member, connection, room, state, isFrozen } = client;
    if (member === null || connection !== null || isFrozen) return false;
    if (room === null) this.#vanish(client);
    else this.#connect(client, { type: 'reconnect', reconnectState: reconnectStateOf(state, room) });
    return true;
  }

  #connect(client: Client, hello: ToServer): void {
    client.connection = { member: client.member!, toServer: [hello], toClient: [], isOpen: true };
  }

  /** The server hears a client's next message. */
  up(slot: number): boolean {
    const { connection } = this.clients[slot]!;
    const message = connection?.toServer.shift();
    if (!connection || message === undefined) return false;
    this.#receive(connection, message);
    return true;
  }

  /** A client hears the server's next message, and those before it that only show the room. */
  down(slot: number): boolean {
    const client = this.clients[slot]!;
    const { connection, isFrozen } = client;
    if (connection === null || isFrozen) return false;
    if (connection.toClient.length === 0) {
      if (connection.isOpen) return false;
      client.connection = null;
      this.#tell(client, { type: 'lost' });
      return true;
    }
    for (;;) {
      const message = connection.toClient.shift();
      if (message === undefined) return true;
      this.#hear(client, message);
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

  hold(slot: number): boolean {
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
    this.#vanish(client);
    return true;
  }

  link(slot: number): boolean {
    const client = this.clients[slot]!;
    const { linking, isLinked, isFrozen } = client;
    if (linking === 0 || isLinked || isFrozen || this.#missing(client, linking) !== undefined) return false;
    client.isLinked = true;
    this.#tell(client, { type: 'linked', generation: linking });
    return true;
  }

  /** One step of making its state the others'. */
  enter(slot: number): boolean {
    const client = this.clients[slot]!;
    const { active, stage, isFrozen, state } = client;
    if (active === 0 || stage === 2 || isFrozen || state.active?.phase !== 'SYNCING') return false;
    const generation = this.#generations.get(active)!;
    const { statuses, hasSent, run } = generation;
    const rank = this.#rankOf(client);
    if (!state.active.hasBegun) {
      this.#tell(client, { type: 'entering', generation: active });
      return true;
    }
    if (stage === 0) {
      if (statuses.includes(null) || this.#missing(client, active) !== undefined) return false;
      client.stage = 1;
      hasSent[rank] = true;
      return true;
    }
    const { replica } = client;
    const all = (statuses as Status[]).map((status) => status.replica);
    generation.comparison ??= this.#parts.electState(all.map((one) => one.reconnectState(run)));
    const { sources } = generation.comparison;
    // What it lacks comes from all that have it.
    if (!sources.includes(rank) && hasSent.includes(false)) return false;
    const before = replica.copy();
    this.#parts.takeOver(replica, rank, all, generation.comparison, run);
    if (before.run === run && !client.isBehind) this.#checkKept(client, before);
    const arrivals = (statuses as Status[]).map(({ note }, one) => ({ note, isCurrent: sources.includes(one) }));
    const retainedGradients = this.#parts.holdingsThatCount(arrivals);
    const { position } = replica.progress;
    client.turn = replica.isThrough ? null : client.assigner!.reassign(position, replica, retainedGradients);
    client.stage = 2;
    generation.entered[rank] = `${replica.steps} ${replica.hash}`;
    this.#tell(client, { type: 'entered', generation: active, step: replica.steps, stateHash: String(replica.hash) });
    return true;
  }

  /** Shows a generation's ranks what a client has. */
  #bring(client: Client, generation: Generation): void {
    const { replica, active } = client;
    const rank = this.#rankOf(client);
    const group = { generation: active, rank, worldSize: generation.ring.length } as ProcessGroup;
    const samples = generation.ring.map(() => PASS);
    if (client.assigner) client.assigner.enter(group, samples);
    else client.assigner = this.#parts.assigner(new ReplicatedDataAssigner({ group, samples, seed: 1, batchSize: 1 }));
    generation.statuses[rank] = {
      replica: replica.copy(),
      note: { retained: client.assigner.retainedGradient(replica) },
    };
  }

  /**
   * A client that was there all the time still has all its steps, but for a last one that was taken
   * again in a later generation.
   */
  #checkKept({ member, active, replica }: Client, before: Replica): void {
    const last = before.steps;
    if (replica.hashes[last] === before.hash) return;
    const isTakenAgain =
      replica.hashes[last - 1] === before.hashes[last - 1] && replica.generations[last]! > before.generations[last]!;
    if (last === 0 || !isTakenAgain) throw new Violation('I4', `generation ${active} undoes steps of ${member}`);
  }

  /** Computes one more sample of its part, or hands in what it has. */
  compute(slot: number): boolean {
    const client = this.clients[slot]!;
    const { replica, isTraining, isFrozen, active, assigner } = client;
    if (!isTraining || isFrozen || replica.isThrough) return false;
    const { indices } = (client.turn ??= assigner!.assign(replica.progress.position));
    if (replica.heldSamples < indices.length) {
      if (replica.heldSamples > 0 && replica.base !== replica.hash) {
        throw new Violation('I3', `${client.member} adds to a gradient of another state`);
      }
      replica.heldSamples++;
      replica.base = replica.hash;
      return true;
    }
    const { contributions, ring } = this.#generations.get(active)!;
    const rank = this.#rankOf(client);
    let given = contributions.get(replica.steps);
    if (given === undefined) contributions.set(replica.steps, (given = ring.map(() => null)));
    if (given[rank]) return false;
    const samples = indices.reduce((bits, index) => bits | (1 << index), 0);
    given[rank] = { samples, base: indices.length === 0 ? replica.hash : replica.base };
    return true;
  }

  /** Applies the step to which all have contributed. */
  apply(slot: number): boolean {
    const client = this.clients[slot]!;
    const { replica, isTraining, isFrozen, active, turn } = client;
    if (!isTraining || isFrozen || turn === null) return false;
    const { contributions, ring } = this.#generations.get(active)!;
    const given = contributions.get(replica.steps);
    if (!given?.[this.#rankOf(client)]) return false;
    let samples = 0;
    let overlap = replica.learned;
    for (let rank = 0; rank < ring.length; rank++) {
      const one = given[rank];
      if (!one) {
        if (this.#parts.needsAll) return false;
        continue;
      }
      if (one.base !== replica.hash) throw new Violation('I3', `${client.member} applies a gradient of another state`);
      overlap |= samples & one.samples;
      samples |= one.samples;
    }
    const { offset, size, next } = turn.window;
    const isWhole = bitsOf(samples) === size && (overlap & samples) === 0;
    if (!isWhole || offset !== replica.progress.position.offset || size === 0) {
      throw new Violation('I4', `step ${replica.steps + 1} of ${client.member} is not the next window, once`);
    }
    replica.apply({ generation: active, samples, next });
    client.turn = null;
    this.#checkApplied(client, active);
    return true;
  }

  finish(slot: number): boolean {
    const client = this.clients[slot]!;
    const { replica, isTraining, isFrozen, active } = client;
    if (!isTraining || isFrozen || !replica.isThrough) return false;
    client.isTraining = false;
    const [step, stateHash] = [replica.steps, String(replica.hash)];
    this.#tell(client, { type: 'trained', generation: active, step, stateHash });
    return true;
  }

  /** A client notices that it cannot go on without somebody. */
  stall(slot: number, x: number): boolean {
    const client = this.clients[slot]!;
    const { linking, active, isFrozen, state } = client;
    if (isFrozen) return false;
    const isOn = active > 0 && (state.active?.phase === 'SYNCING' || state.active?.phase === 'RUNNING');
    const isOut = linking > 0 && (state.linking?.report ?? { type: 'linked' }).type === 'linked';
    const generation = isOut && (x % 2 === 0 || !isOn) ? linking : isOn ? active : 0;
    if (generation === 0) return false;
    const peer = this.#missing(client, generation);
    if (peer === undefined) return false;
    client.isTraining &&= generation !== active;
    if (x % 3 === 0) this.#tell(client, { type: 'failed', generation, message: 'Timed out.', scope: 'generation' });
    else this.#tell(client, { type: x % 3 === 1 ? 'broken' : 'late', generation, peers: [peer] });
    return true;
  }

  /** A client's link to the next rank holds up the ring. */
  slow(slot: number): boolean {
    const client = this.clients[slot]!;
    const { connection, isTraining, isFrozen, active } = client;
    if (!connection || !isTraining || isFrozen) return false;
    const { ring } = this.#generations.get(active)!;
    const peer = ring[(this.#rankOf(client) + 1) % ring.length]!;
    if (peer === client.member) return false;
    connection.toServer.push({ type: 'slow', generation: active, peer });
    return true;
  }

  // ---- Faults ----

  /** A client's own failure: of its GPU, or of the job. */
  fail(slot: number, x: number): boolean {
    const client = this.clients[slot]!;
    const { active, isFrozen } = client;
    if (active === 0 || isFrozen) return false;
    const scope = x % 8 === 0 ? 'run' : x % 3 === 0 ? 'generation' : 'rank';
    if (scope === 'rank') client.isDue = true;
    client.isTraining = false;
    this.#tell(client, { type: 'failed', generation: active, message: 'The GPU was lost.', scope });
    return true;
  }

  /** The client sees its connection's end first; some of what it has said still arrives. */
  drop(slot: number, x: number): boolean {
    const client = this.clients[slot]!;
    const { connection } = client;
    if (connection === null) return false;
    connection.toServer.length = x % (connection.toServer.length + 1);
    this.#dying.push(connection);
    client.connection = null;
    this.#tell(client, { type: 'lost' });
    return true;
  }

  /** The server sees it first; some of what it has said still arrives. */
  cutOff(slot: number, x: number): boolean {
    const { connection } = this.clients[slot]!;
    if (!connection?.isOpen) return false;
    connection.toClient.length = x % (connection.toClient.length + 1);
    this.#lose(connection);
    return true;
  }

  /**
   * The server hears what is left of a connection that its client has given up, and at last its
   * end.
   */
  bury(x: number): boolean {
    if (this.#dying.length === 0) return false;
    const index = x % this.#dying.length;
    const connection = this.#dying[index]!;
    const message = connection.toServer.shift();
    if (message !== undefined) this.#receive(connection, message);
    else {
      this.#dying.splice(index, 1);
      this.#lose(connection);
    }
    return true;
  }

  crash(slot: number): boolean {
    const client = this.clients[slot]!;
    if (client.member === null) return false;
    this.#vanish(client);
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

  /** The server has heard nothing from a frozen client for too long. */
  silence(slot: number): boolean {
    const { connection, isFrozen, member } = this.clients[slot]!;
    if (!isFrozen || !connection?.isOpen || this.#peers.get(member!) !== connection) return false;
    connection.toClient.push({ type: 'refused', code: 'silent', message: 'Nothing was heard.' });
    this.#hangUp(connection);
    this.#dispatch({ type: 'left', member: member!, reason: 'silent' });
    return true;
  }

  /** No link between two, or one again. */
  cut(x: number): boolean {
    const most = 2 * this.clients.length - 3;
    this.#cut ^= 1 << (1 + (x % most));
    return true;
  }

  restart(): boolean {
    if (this.room === null) return false;
    this.room = null;
    this.#restarts++;
    this.#timers.clear();
    this.#peers.clear();
    this.#dying.length = 0;
    for (const { connection } of this.clients) {
      if (connection === null) continue;
      connection.toClient = [];
      this.#hangUp(connection);
    }
    return true;
  }

  /** Any timer may be late or early. */
  fire(x: number): boolean {
    if (this.#timers.size === 0) return false;
    const key = [...this.#timers.keys()][x % this.#timers.size]!;
    const { event } = this.#timers.get(key)!;
    this.#timers.delete(key);
    this.#dispatch(event);
    return true;
  }

  grow(): void {
    const timer = this.#timers.get('grow');
    if (timer === undefined) return;
    this.#timers.delete('grow');
    this.#dispatch(timer.event);
  }

  /** The timer that is due next. */
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

  /**
   * The same message twice, with others between. A `room` is all there is to know, so an older one
   * never comes after a newer.
   */
  repeat(slot: number, x: number): boolean {
    const { connection } = this.clients[slot]!;
    const queue: (ToServer | ToClient)[] | undefined = x % 2 === 0 ? connection?.toServer : connection?.toClient;
    const at = queue && queue.length > 0 ? x % queue.length : 0;
    const message = queue?.[at];
    // A second hello ends a connection.
    if (!queue || message === undefined || message.type === 'join' || message.type === 'reconnect') return false;
    const newer = message.type === 'room' ? queue.findIndex((next, i) => i > at && next.type === 'room') : -1;
    const end = newer < 0 ? queue.length : newer;
    queue.splice(at + 1 + (x % (end - at)), 0, message);
    return true;
  }

  /**
   * One message less, or before another. A WebSocket does neither: this shows only that nothing
   * wrong comes of it.
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

  // ---- Afterwards ----

  /** How far the dice got. */
  get seen() {
    const trained = [...this.#generations.values()].filter(({ contributions }) => contributions.size > 0);
    return {
      generations: trained.length,
      restarts: this.#restarts,
      hasFinished: this.#hasFinished,
      hasPaused: this.#hasPaused,
      hasResumed: this.#hasResumed,
      hasSeparated: this.#hasSeparated,
      hasSuspended: this.#hasSuspended,
    };
  }

  /** No more faults from here on. */
  heal(): void {
    this.#cut = 0;
    for (const client of this.clients) client.isFrozen = false;
    // If nobody remembers the room, it is no more.
    if (this.room === null && this.clients.every(({ member, room }) => member === null || room === null)) {
      for (const client of this.clients) this.#vanish(client);
    }
  }

  /** What still waits although nothing more will happen, in words; `null`: nothing. */
  unfinished(): string | null {
    const { room } = this;
    if (room === null) return this.clients.some(({ member }) => member !== null) ? 'nobody has returned' : null;
    const waiting = this.clients.filter(({ linking, active }) => linking > 0 || active > 0);
    if (waiting.length > 0) {
      const who = waiting.map(({ member, state }) => `${member} (${state.active?.phase ?? 'LINKING'})`).join(', ');
      return `the room is ${room.phase}, and waiting are ${who}`;
    }
    if (room.phase === 'FORMING') {
      const paused = this.clients.find(({ member, state }) => member !== null && state.pausedFor !== null);
      return paused === undefined ? null : `${paused.member} waits for a run that is over`;
    }
    if (room.phase !== 'PAUSED') return `the room is ${room.phase}, and nobody is in its generation`;
    const present = this.clients.filter(({ member }) => member !== null).length;
    return present < (room.nodes?.min ?? 0) || present === 0 ? null : `the room is PAUSED with ${present} members`;
  }
}

/** Whether the room has a member, and takes it for able to train. */
function isCounted({ members }: RoomState, member: string): boolean {
  return members.some((m) => m.member === member && m.device !== null);
}

/** Leaves a client nothing of a run. */
function forget(client: Client): void {
  Object.assign(client, { replica: new Replica(), assigner: null, turn: null });
}

function bitsOf(bits: number): number {
  let count = 0;
  for (let left = bits; left !== 0; left &= left - 1) count++;
  return count;
}
