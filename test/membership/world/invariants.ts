/**
 * The invariants I1 to I11 of membership. If a step of the world breaks one of them, a {@link
 * Violation} is thrown.
 */
import { MAX_RETRIES, type RoomEffect, type RoomEvent, type RoomState } from '../../../signaling/room/index.ts';
import { neighbours } from '../../../signaling/room/edges.ts';
import type { ServerMessage } from '../../../src/protocol/control.ts';
import type { Replica } from '../replica.ts';
import { Violation } from '../violation.ts';
import type { Client, Generation, WorldOptions } from './model.ts';

interface Observed {
  readonly clients: readonly Client[];
  /** All generations that were prepared. {@link Invariants.onStep} adds them. */
  readonly generations: Map<number, Generation>;
  readonly server: { readonly restarts: number };
}

export class Invariants {
  readonly #options: WorldOptions;
  readonly #world: Observed;
  /**
   * State hashes by run, generation and step. All ranks that take a step must have the same hash
   * after it.
   */
  readonly #steps = new Map<string, number>();
  /** For each reported member, the members that reported it. */
  readonly #accusers = new Map<string, Set<string>>();
  /** The situations that occurred. */
  readonly seen = {
    hasFinished: false,
    hasPaused: false,
    hasResumed: false,
    hasSeparated: false,
    hasSuspended: false,
  };

  constructor(options: WorldOptions, world: Observed) {
    this.#options = options;
    this.#world = world;
  }

  /** Checks a step of the room before its effects are carried out. */
  onStep(before: RoomState, event: RoomEvent, after: RoomState, effects: readonly RoomEffect[]): void {
    this.#recordAccusations(before, event);
    this.#checkRoom(before, after, effects);
    this.#checkSuspended(before, event, effects);
  }

  /** Checks a room after the effects of a step have been carried out. */
  onDone(before: RoomState, after: RoomState): void {
    for (const client of this.#world.clients) {
      // The client is out of the ring, because it left, failed or missed a deadline. Steps that it
      // applied alone may be undone.
      const { member } = client;
      if (member !== null && isCounted(before, member) && !isCounted(after, member)) client.isBehind = true;
    }
    const { seen } = this;
    seen.hasPaused ||= after.phase === 'PAUSED';
    seen.hasFinished ||= after.ended?.outcome === 'finished';
    seen.hasResumed ||= before.isPausedByHost && !after.isPausedByHost && after.phase === 'LINKING';
    if (after.phase === 'RUNNING' && before.phase === 'SYNCING') this.#checkBegun(after);
  }

  #recordAccusations(before: RoomState, event: RoomEvent): void {
    const accuse = (by: string, about: string): void => {
      this.#accusers.set(about, (this.#accusers.get(about) ?? new Set()).add(by));
    };
    if (event.type === 'broken' || event.type === 'late') for (const peer of event.peers) accuse(event.member, peer);
    if (event.type !== 'deadline' || before.phase !== 'LINKING') return;
    // If two neighbours are not linked and send no report, this is treated as a report of each
    // about the other.
    for (const [a, b] of neighbours(before.ring)) {
      if (before.reports.has(a.member) || before.reports.has(b.member)) continue;
      accuse(a.member, b.member);
      accuse(b.member, a.member);
    }
  }

  #checkRoom(before: RoomState, after: RoomState, effects: readonly RoomEffect[]): void {
    if (after.isPausedByHost && !after.isRestoring && after.phase !== 'PAUSED') {
      throw new Violation('I9', `the host has paused the run, but the room is ${after.phase}`);
    }
    for (const [i, effect] of effects.entries()) {
      if (effect.type !== 'send') continue;
      const { to, message } = effect;
      if (message.type === 'refused') continue;
      for (const member of to) {
        // A client that is removed in the same step may receive a message before its removal.
        const isExpelledNext = effects.slice(i + 1).some((next) => next.type === 'expel' && next.member === member);
        if (!after.hidden.has(member) && !isExpelledNext) {
          throw new Violation('I6', `a ${message.type} was sent to ${member}, which is not a member`);
        }
      }
      if (message.type === 'prepare') this.#checkPrepare(message, after);
    }
    if (after.nodes === null && before.ring.length > 0 && after.run === before.run && after.phase === before.phase) {
      for (const { member } of after.ring) {
        const hasFinished = before.phase === 'RUNNING' && before.reports.has(member);
        if (!after.hidden.has(member) && !hasFinished && before.hidden.has(member)) {
          throw new Violation('I8', `run ${after.run} of a fixed world continues without ${member}`);
        }
      }
    }
  }

  /** I11: no member is suspended because of reports of only one other member. */
  #checkSuspended(before: RoomState, event: RoomEvent, effects: readonly RoomEffect[]): void {
    // If a member missed a deadline, no report is needed. Newcomers whose generations all failed
    // are also suspended without a report.
    const isObserved = event.type === 'deadline' || event.type === 'entering' || before.retries >= MAX_RETRIES;
    for (const effect of effects) {
      if (effect.type !== 'send' || effect.message.type !== 'suspended') continue;
      // The message is also sent to a newcomer if another tab of its browser is suspended.
      for (const member of effect.to.filter((one) => isCounted(before, one))) {
        this.seen.hasSuspended = true;
        const accusers = this.#accusers.get(member)?.size ?? 0;
        const hasReported = [...this.#accusers.values()].some((by) => by.has(member));
        if (accusers < 2 && !hasReported && !isObserved) {
          throw new Violation('I11', `${member} was suspended after reports of ${accusers} members`);
        }
      }
    }
  }

  #checkPrepare(prepare: Extract<ServerMessage, { type: 'prepare' }>, after: RoomState): void {
    const { generation, run, members, relayed, separated } = prepare;
    const ring = members.map((m) => m.member);
    for (const pair of separated) {
      this.seen.hasSeparated = true;
      if (neighbours(ring).some((two) => two.every((member) => pair.includes(member)))) {
        throw new Violation(
          'I10',
          `generation ${generation} names ${pair.join()} as separated, but they are neighbours`,
        );
      }
    }
    const kept = after.separated.flat();
    if (new Set(kept).size < kept.length) throw new Violation('I10', `a member of ${kept.join()} was separated twice`);
    const known = this.#world.generations.get(generation);
    if (known === undefined) {
      const { length } = ring;
      const each = <T>(value: T): T[] => Array.from({ length }, () => value);
      this.#world.generations.set(generation, {
        run,
        ring,
        relayed,
        statuses: each(null),
        hasSent: each(false),
        entered: each(null),
        contributions: new Map(),
        comparison: null,
      });
      // If a client has not reported `ready` by now, the steps that it applied alone may be undone.
      for (const client of this.#world.clients) {
        const { member, replica } = client;
        if (member !== null && replica.run === run && !isCounted(after, member)) client.isBehind = true;
      }
      if (after.nodes === null) {
        for (const [other, one] of this.#world.generations) {
          if (one.run === run && other !== generation) {
            throw new Violation('I8', `run ${run} of a fixed world has generations ${other} and ${generation}`);
          }
        }
      }
    } else if (known.ring.join() !== ring.join() || known.run !== run) {
      throw new Violation('I1', `generation ${generation} has the ring ${known.ring.join()} and also ${ring.join()}`);
    }
  }

  /**
   * Checks a generation that has begun to train: no client outside of it may have a newer state.
   */
  #checkBegun({ ring, members, hidden, run, generation, nodes }: RoomState): void {
    if (nodes !== null && (ring.length < nodes.min || ring.length > nodes.max)) {
      throw new Violation('I5', `generation ${generation} trains with ${ring.length} ranks`);
    }
    for (const client of this.#world.clients) {
      const { member, replica } = client;
      if (member === null || replica.run !== run || ring.some((m) => m.member === member)) continue;
      const entry = members.find((m) => m.member === member);
      const known = hidden.get(member);
      const isThere = entry?.device && known && !known.isAway && !client.isFrozen;
      const newest = this.#world.generations.get(generation)?.entered.find((own) => own !== null);
      if (isThere && !client.isBehind && newest && Number(newest.split(' ')[0]) < replica.steps) {
        throw new Violation(
          'I4',
          `generation ${generation} begins at step ${newest}, although ${member} waits with step ${replica.steps}`,
        );
      }
      client.isBehind = true;
    }
  }

  checkTrain({ member, state, replica }: Client, generation: number): void {
    const { ring, entered } = this.#world.generations.get(generation)!;
    const { nodes } = this.#options;
    if (state.active?.members.map((m) => m.member).join() !== ring.join()) {
      throw new Violation('I1', `${member} trains in a generation ${generation} whose ring is not ${ring.join()}`);
    }
    if (nodes !== null && (ring.length < nodes.min || ring.length > nodes.max)) {
      throw new Violation('I5', `${member} trains in a world of ${ring.length}`);
    }
    const own = `${replica.steps} ${replica.hash}`;
    if (entered.some((other) => other !== own)) {
      throw new Violation(
        'I2',
        `${member} trains in generation ${generation} with ${own}, but its members entered with ${entered.join()}`,
      );
    }
  }

  checkApplied(client: Client, generation: number): void {
    const { replica, member } = client;
    const steps = replica.steps;
    const key = `${replica.run} ${generation} ${steps}`;
    const hash = this.#steps.get(key);
    if (hash === undefined) this.#steps.set(key, replica.hash);
    else if (hash !== replica.hash)
      throw new Violation('I3', `step ${steps} of generation ${generation} differs at ${member}`);
    for (const other of this.#world.clients) {
      if (other.member === null || other === client || other.isBehind || client.isBehind) continue;
      if (other.replica.run !== replica.run) continue;
      const both = Math.min(steps, other.replica.steps);
      // A rank that has not entered this generation yet may be several steps behind, but its steps
      // must be the same.
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

  /**
   * I4: a client that was never out of the run keeps all its steps. Only its latest step may be
   * replaced, if it is repeated in a later generation. There is one exception. If a member returns
   * to a restarted server after the time for it, it and the others may both have trained. Nothing
   * can join these two lines of steps, so the longer one is kept.
   */
  checkKept({ member, active, replica }: Client, before: Replica): void {
    const last = before.steps;
    if (replica.hashes[last] === before.hash) return;
    const isRepeated =
      replica.hashes[last - 1] === before.hashes[last - 1] && replica.generations[last]! > before.generations[last]!;
    const isOnLongerLine =
      this.#world.server.restarts > 0 &&
      replica.steps > last &&
      this.#world.clients.some((other) => other.isBehind && other.replica.hash === replica.hash);
    if (isOnLongerLine) return;
    if (last === 0 || !isRepeated) throw new Violation('I4', `generation ${active} undoes steps of ${member}`);
  }
}

/** Whether a room has this member and treats it as ready. */
function isCounted({ members }: RoomState, member: string): boolean {
  return members.some((m) => m.member === member && m.device !== null);
}
