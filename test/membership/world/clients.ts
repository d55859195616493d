/**
 * The clients of the modelled world. They use the real membership function and the real recovery
 * code, but their links and their training are modelled. Every method returns whether its action
 * was possible.
 */
import { neighbours } from '../../../signaling/room/edges.ts';
import type { MembershipEffect, MembershipEvent } from '../../../src/engine/membership/membership.ts';
import type { RosterEntry } from '../../../src/protocol/room.ts';
import type { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { ReplicatedDataAssigner } from '../../../src/engine/training/data/replicatedDataAssigner.ts';
import { bitsOf } from '../bits.ts';
import { EPOCH_SAMPLES } from '../replica.ts';
import { Violation } from '../violation.ts';
import { Invariants } from './invariants.ts';
import {
  emptySlot,
  forget,
  type Client,
  type Generation,
  type Parts,
  type Status,
  type ToClient,
  type WorldOptions,
} from './model.ts';
import { Server } from './server.ts';

export class Clients {
  readonly #parts: Parts;
  readonly #invariants: Invariants;
  readonly clients: readonly Client[];
  readonly generations = new Map<number, Generation>();
  readonly server: Server;
  /** Bit mask of pairs of slots that cannot reach each other. */
  protected cutPairs = 0;

  constructor(options: WorldOptions, parts: Parts) {
    this.#parts = parts;
    this.clients = Array.from({ length: options.slots }, (_, slot) => emptySlot(slot));
    this.#invariants = new Invariants(options, this);
    this.server = new Server(options, parts.stepRoom, this.#invariants);
  }

  /** Returns the situations that occurred. */
  get situations(): Invariants['seen'] {
    return this.#invariants.seen;
  }

  /** Passes an event to a client's membership function and carries out the effects. */
  protected advance(client: Client, event: MembershipEvent): void {
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
        const generation = this.generations.get(effect.generation)!;
        if (client.replica.run !== generation.run) forget(client);
        this.#publish(client, generation);
        return;
      }
      case 'train':
        this.#invariants.checkTrain(client, effect.generation);
        client.isTraining = true;
        // The client is still behind if the generation has ended before this message arrived.
        if (this.server.room?.generation === effect.generation && this.server.room.phase === 'RUNNING')
          client.isBehind = false;
        return;
      case 'end':
        forget(client);
        client.isBehind = false;
        return;
      default:
        effect satisfies never;
    }
  }

  protected receive(client: Client, message: ToClient): void {
    switch (message.type) {
      case 'admitted':
        client.isDue = true;
        return this.advance(client, { type: 'admitted', member: message.member });
      case 'room': {
        const mine = (room: Client['room']): RosterEntry | undefined =>
          room?.members.find((m) => m.member === client.member);
        if (mine(client.room)?.device && mine(message)?.device === null) client.isDue = true;
        client.room = message;
        return this.advance(client, message);
      }
      case 'prepare':
      case 'sync':
      case 'go':
      case 'pause':
      case 'suspended':
      case 'ended':
        return this.advance(client, message);
      case 'refused':
        if (message.code !== 'silent' && message.code !== 'not-host' && message.code !== 'not-now') this.vanish(client);
        return;
      case 'credentials':
      case 'ice':
      case 'signal':
      case 'feed':
      case 'heartbeat':
      case 'spectator-update':
      case 'pulses':
      case 'note':
        return;
      default:
        message satisfies never;
    }
  }

  protected rankOf({ member, active }: Client): number {
    return this.generations.get(active)!.ring.indexOf(member!);
  }

  /** Closes or crashes a tab, which loses everything. */
  protected vanish(client: Client): void {
    const { connection } = client;
    if (connection !== null) {
      connection.toClient = [];
      this.server.abandon(connection);
    }
    Object.assign(client, emptySlot(client.slot), { incarnations: client.incarnations });
  }

  #clientOf(member: string): Client | undefined {
    return this.clients.find((client) => client.member === member);
  }

  #isCut(a: Client, b: Client, { ring, relayed }: Generation): boolean {
    if ((this.cutPairs & (1 << (a.slot + b.slot))) === 0) return false;
    if (!neighbours(ring).some((pair) => pair.includes(a.member!) && pair.includes(b.member!))) return false;
    return !relayed.some((pair) => pair.includes(a.member!) && pair.includes(b.member!));
  }

  /** Returns the first of a generation's members with which `client` cannot work now. */
  protected missing(client: Client, number: number): string | undefined {
    const generation = this.generations.get(number)!;
    return generation.ring.find((member) => {
      if (member === client.member) return false;
      const other = this.#clientOf(member);
      if (other === undefined || other.isFrozen || this.#isCut(client, other, generation)) return true;
      const isIn = other.active === number && other.state.active?.phase !== 'STALLED';
      return !isIn && other.linking !== number;
    });
  }

  link(slot: number): boolean {
    const client = this.clients[slot]!;
    const { linking, isLinked, isFrozen } = client;
    if (linking === 0 || isLinked || isFrozen || this.missing(client, linking) !== undefined) return false;
    client.isLinked = true;
    this.advance(client, { type: 'linked', generation: linking });
    return true;
  }

  /** Takes one step towards the elected state. */
  enter(slot: number): boolean {
    const client = this.clients[slot]!;
    const { active, stage, isFrozen, state } = client;
    if (active === 0 || stage === 2 || isFrozen || state.active?.phase !== 'SYNCING') return false;
    const generation = this.generations.get(active)!;
    const { statuses, hasSent, run } = generation;
    const rank = this.rankOf(client);
    if (!state.active.hasBegun) {
      this.advance(client, { type: 'entering', generation: active });
      return true;
    }
    if (stage === 0) {
      if (statuses.includes(null) || this.missing(client, active) !== undefined) return false;
      client.stage = 1;
      hasSent[rank] = true;
      return true;
    }
    const { replica } = client;
    const all = (statuses as Status[]).map((status) => status.replica);
    generation.comparison ??= this.#parts.electState(all.map((one) => one.reconnectState(run)));
    const { sources } = generation.comparison;
    // The missing state is sent by all ranks that have it.
    if (!sources.includes(rank) && hasSent.includes(false)) return false;
    const before = replica.copy();
    this.#parts.takeOver(replica, rank, all, generation.comparison, run);
    if (before.run === run && !client.isBehind) this.#invariants.checkKept(client, before);
    const arrivals = (statuses as Status[]).map(({ note }, one) => ({ note, isCurrent: sources.includes(one) }));
    const retainedGradients = this.#parts.currentGradients(arrivals);
    const { position } = replica.progress;
    client.assignment = replica.isThrough ? null : client.assigner!.reassign(position, replica, retainedGradients);
    client.stage = 2;
    generation.entered[rank] = `${replica.steps} ${replica.hash}`;
    this.advance(client, { type: 'entered', generation: active, step: replica.steps, stateHash: String(replica.hash) });
    return true;
  }

  /** Publishes a client's status to the ranks of a generation. */
  #publish(client: Client, generation: Generation): void {
    const { replica, active } = client;
    const rank = this.rankOf(client);
    const group = { generation: active, rank, worldSize: generation.ring.length } as ProcessGroup;
    const samples = generation.ring.map(() => EPOCH_SAMPLES);
    if (client.assigner) client.assigner.enter(group, samples);
    else client.assigner = this.#parts.assigner(new ReplicatedDataAssigner({ group, samples, seed: 1, batchSize: 1 }));
    generation.statuses[rank] = {
      replica: replica.copy(),
      note: { retained: client.assigner.retainedGradient(replica) },
    };
  }

  /**
   * Computes the gradient of one more sample. If all are computed, contributes them to the step.
   */
  compute(slot: number): boolean {
    const client = this.clients[slot]!;
    const { replica, isTraining, isFrozen, active, assigner } = client;
    if (!isTraining || isFrozen || replica.isThrough) return false;
    const { indices } = (client.assignment ??= assigner!.assign(replica.progress.position, null));
    if (replica.heldSamples < indices.length) {
      if (replica.heldSamples > 0 && replica.base !== replica.hash) {
        throw new Violation('I3', `${client.member} adds to a gradient that was computed in another state`);
      }
      replica.heldSamples++;
      replica.base = replica.hash;
      return true;
    }
    const { contributions, ring } = this.generations.get(active)!;
    const rank = this.rankOf(client);
    let parts = contributions.get(replica.steps);
    if (parts === undefined) contributions.set(replica.steps, (parts = ring.map(() => null)));
    if (parts[rank]) return false;
    const samples = indices.reduce((bits, index) => bits | (1 << index), 0);
    parts[rank] = { samples, base: indices.length === 0 ? replica.hash : replica.base };
    return true;
  }

  /** Applies a step to which all ranks have contributed. */
  apply(slot: number): boolean {
    const client = this.clients[slot]!;
    const { replica, isTraining, isFrozen, active, assignment } = client;
    if (!isTraining || isFrozen || assignment === null) return false;
    const { contributions, ring } = this.generations.get(active)!;
    const parts = contributions.get(replica.steps);
    if (!parts?.[this.rankOf(client)]) return false;
    let samples = 0;
    let overlap = replica.learned;
    for (let rank = 0; rank < ring.length; rank++) {
      const one = parts[rank];
      if (!one) {
        if (this.#parts.needsAll) return false;
        continue;
      }
      if (one.base !== replica.hash)
        throw new Violation('I3', `${client.member} applies a gradient that was computed in another state`);
      overlap |= samples & one.samples;
      samples |= one.samples;
    }
    const { offset, size, next } = assignment.window;
    const isWhole = bitsOf(samples) === size && (overlap & samples) === 0;
    if (!isWhole || offset !== replica.progress.position.offset || size === 0) {
      throw new Violation(
        'I4',
        `step ${replica.steps + 1} of ${client.member} does not contain the next window exactly once`,
      );
    }
    replica.apply({ generation: active, samples, next });
    client.assignment = null;
    this.#invariants.checkApplied(client, active);
    return true;
  }

  finish(slot: number): boolean {
    const client = this.clients[slot]!;
    const { replica, isTraining, isFrozen, active } = client;
    if (!isTraining || isFrozen || !replica.isThrough) return false;
    client.isTraining = false;
    const [step, stateHash] = [replica.steps, String(replica.hash)];
    this.advance(client, { type: 'trained', generation: active, step, stateHash });
    return true;
  }

  /** Makes a client notice that it cannot continue because it does not reach a peer. */
  stall(slot: number, x: number): boolean {
    const client = this.clients[slot]!;
    const { linking, active, isFrozen, state } = client;
    if (isFrozen) return false;
    const isOn = active > 0 && (state.active?.phase === 'SYNCING' || state.active?.phase === 'RUNNING');
    const isOut = linking > 0 && (state.linking?.report ?? { type: 'linked' }).type === 'linked';
    const generation = isOut && (x % 2 === 0 || !isOn) ? linking : isOn ? active : 0;
    if (generation === 0) return false;
    const peer = this.missing(client, generation);
    if (peer === undefined) return false;
    client.isTraining &&= generation !== active;
    if (x % 3 === 0) this.advance(client, { type: 'failed', generation, message: 'Timed out.', scope: 'generation' });
    else this.advance(client, { type: x % 3 === 1 ? 'broken' : 'late', generation, peers: [peer] });
    return true;
  }

  /** Makes a client report that its link to the next rank slows down the ring. */
  slow(slot: number): boolean {
    const client = this.clients[slot]!;
    const { connection, isTraining, isFrozen, active } = client;
    if (!connection || !isTraining || isFrozen) return false;
    const { ring } = this.generations.get(active)!;
    const peer = ring[(this.rankOf(client) + 1) % ring.length]!;
    if (peer === client.member) return false;
    connection.toServer.push({ type: 'slow', generation: active, peer });
    return true;
  }
}
