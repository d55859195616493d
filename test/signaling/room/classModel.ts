/**
 * Models a class in a room, in simulated time. Members link, train and report as tabs do, on a
 * network in which some pairs may not reach each other. The state machine of the room is the real
 * one.
 */
import { createRoom, step, type RoomEvent, type RoomState } from '../../../signaling/room/index.ts';
import { DEFAULT_OP_TIMEOUT_MS } from '../../../src/collectives/processGroup.ts';
import { LINKING_TIMEOUT_MS, DIRECT_RETRY_DELAY_MS } from '../../../src/engine/membership/generationLink.ts';
import type { ServerMessage } from '../../../src/protocol/control.ts';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';
import { createRng, type Rng } from '../../../src/util/rng.ts';
import { edgeKey, neighbours } from '../../../signaling/room/edges.ts';
import { ManualClock } from '../../manualClock.ts';

export interface ClassOptions {
  seed: number;
  /** The least and the greatest number of ranks. */
  nodes?: { min: number; max: number };
  hasRelay?: boolean;
  /** Whether links over the relay fail. */
  isRelayDown?: boolean;
  hasServerLinks?: boolean;
  /** Whether all links go through the server. `canReach` then says which links the server opens. */
  servesAll?: boolean;
  /** Whether the server refuses to forward frames. */
  areServerLinksRefused?: boolean;
  /** Whether packets of two members reach each other at this time. */
  canReach?: (a: string, b: string, now: number) => boolean;
  /** Returns the milliseconds of a member's step. If infinite, the member hangs. */
  stepMs?: (member: string) => number;
  /**
   * Returns the rank to which a member falsely reports a broken link, or `null`. `ring` contains
   * the ranks of the generation.
   */
  liesAbout?: (member: string, ring: readonly string[]) => string | null;
  /** Whether false reports begin only after training has begun. */
  liesLate?: boolean;
  /** Whether the other ranks report after a false report that the generation failed. */
  othersReport?: boolean;
  /**
   * Whether only the first rank reports which ranks are late. The others only report that the
   * generation failed.
   */
  hasOneWitness?: boolean;
}

/** Milliseconds between two attempts to reach a neighbour. */
const ATTEMPT_MS = 1_000;
/** Milliseconds after which two members that do not reach each other link through the server. */
const SERVER_AFTER_MS = 3_000;
/** Milliseconds between the failure of a path and the end of the link that uses it. */
const NOTICE_MS = 5_000;

type Prepare = Extract<ServerMessage, { type: 'prepare' }>;

export class ClassModel {
  readonly clock = new ManualClock();
  readonly #options: ClassOptions;
  readonly #rng: Rng;
  #state: RoomState;
  readonly #timers = new Map<string, () => void>();
  /** Browsers by member. */
  readonly #browsers = new Map<string, string>();
  /** For each member, the time until which it is busy with a step of any generation. */
  readonly #busyUntil = new Map<string, number>();
  /** The generation that trains. It continues until all ranks of the next generation are linked. */
  #training: { generation: number; ring: readonly string[] } = { generation: 0, ring: [] };
  /** How pairs have linked, by generation and pair. */
  readonly #routes = new Map<string, 'direct' | 'server'>();
  /** Pairs whose direct connection has opened some time after their link through the server. */
  readonly #kept = new Set<string>();
  generations = 0;
  /** The times at which ranks began to train, and these ranks. */
  readonly begun: { at: number; ring: readonly string[] }[] = [];
  /** Times of completed steps. */
  readonly steps: number[] = [];
  readonly expelled: { at: number; member: string }[] = [];
  readonly suspended: { at: number; member: string; message: string }[] = [];
  ended: { at: number; message: string } | null = null;

  constructor(options: ClassOptions) {
    this.#options = options;
    this.#rng = createRng(options.seed);
    const { hasRelay = false, hasServerLinks = false, servesAll = false, nodes = { min: 1, max: 64 } } = options;
    this.#state = createRoom({ job: DEFAULT_JOB, startAt: null, nodes, hasRelay, hasServerLinks, servesAll });
  }

  get ring(): string[] {
    return this.#state.ring.map(({ member }) => member);
  }

  get relayed(): RoomState['relayed'] {
    return this.#state.relayed;
  }

  /** The neighbours in the latest ring that have linked through the server. */
  get throughServer(): [string, string][] {
    const { ring, generation } = this.#state;
    return neighbours(ring)
      .map(([a, b]): [string, string] => [a.member, b.member])
      .filter((pair) => this.#routes.get(routeKey(generation, ...pair)) === 'server');
  }

  get phase(): RoomState['phase'] {
    return this.#state.phase;
  }

  get members(): string[] {
    return this.#state.members.map(({ member }) => member);
  }

  enter(member: string, browser = `${member}-browser`): void {
    this.#browsers.set(member, browser);
    this.dispatch({ type: 'join', member, name: member, browser, holdsKey: false });
    this.dispatch({ type: 'ready', member, device: { backend: 'cpu', adapter: '' }, stateOfRun: null });
  }

  /** Lets `n` members (`m0`, `m1`, ...) join. The first of them starts the run. */
  start(n: number): this {
    for (let i = 0; i < n; i++) this.enter(`m${i}`);
    this.dispatch({ type: 'start', member: 'm0' });
    return this;
  }

  leave(member: string): void {
    this.dispatch({ type: 'left', member, reason: 'left' });
  }

  /**
   * Lets time pass until `isSo` returns true, but at most `ms`. Returns the last result of `isSo`.
   */
  runUntil(isSo: () => boolean, ms: number): boolean {
    const until = this.clock.now() + ms;
    while (!isSo() && this.clock.now() < until) this.clock.advance(100);
    return isSo();
  }

  /** Whether a generation that began after `at` trains. */
  trainsSince(at: number): boolean {
    return this.phase === 'RUNNING' && (this.begun.at(-1)?.at ?? -1) >= at;
  }

  dispatch(event: RoomEvent): void {
    const { state, effects } = step(this.#state, event);
    this.#state = state;
    for (const effect of effects) {
      if (effect.type === 'setTimer') this.#later(`room ${effect.key}`, effect.ms, () => this.dispatch(effect.event));
      if (effect.type === 'clearTimer') this.#cancel(`room ${effect.key}`);
      if (effect.type === 'expel') this.expelled.push({ at: this.clock.now(), member: effect.member });
      if (effect.type === 'send') this.#deliver(effect.to, effect.message);
    }
  }

  #deliver(to: readonly string[], message: ServerMessage): void {
    if (message.type === 'ended') this.ended ??= { at: this.clock.now(), message: message.message };
    if (message.type === 'suspended') for (const member of to) this.#onSuspended(member, message.message);
    if (message.type === 'prepare') {
      this.generations++;
      if (!this.#training.ring.every((one) => to.includes(one))) this.#training = { generation: 0, ring: [] };
      for (const member of to) this.#link(member, message);
    }
    if (message.type === 'sync') {
      this.#training = { generation: 0, ring: [] };
      for (const member of to) this.#sync(member, message.generation);
    }
    if (message.type === 'go') {
      this.begun.push({ at: this.clock.now(), ring: to });
      this.#train(message.generation);
    }
  }

  #onSuspended(member: string, message: string): void {
    this.suspended.push({ at: this.clock.now(), member, message });
    this.#cancel(member);
    // Like a tab, a member reports `ready` after it has ended its step.
    const free = Math.max(0, (this.#busyUntil.get(member) ?? 0) - this.clock.now());
    if (free === Number.POSITIVE_INFINITY) return;
    const stateOfRun = this.begun.some(({ ring }) => ring.includes(member)) ? this.#state.run : null;
    this.#later(`${member} ready`, free + 100, () =>
      this.dispatch({ type: 'ready', member, device: { backend: 'cpu', adapter: '' }, stateOfRun }),
    );
  }

  #links(a: string, b: string, relayed: RoomState['relayed']): boolean {
    const { isRelayDown = false, canReach } = this.#options;
    return isPairOf(relayed, a, b) ? !isRelayDown : (canReach?.(a, b, this.clock.now()) ?? true);
  }

  /** Returns how two members have linked in a generation that began `ms` ago, or `null`. */
  #route({ generation, relayed, served }: Prepare, a: string, b: string, ms: number): 'direct' | 'server' | null {
    const { hasServerLinks = false, areServerLinksRefused = false } = this.#options;
    const [key, pair] = [routeKey(generation, a, b), edgeKey(a, b)];
    const known = this.#routes.get(key);
    if (known !== undefined) return known;
    const [canReach, isServed] = [this.#links(a, b, relayed), isPairOf(served, a, b)];
    if (!canReach) this.#kept.delete(pair);
    // The link through the server opens before a direct one if both begin at the same time.
    const isDirect = canReach && (!isServed || areServerLinksRefused || this.#kept.has(pair));
    const isForwarded = hasServerLinks && !areServerLinksRefused && (isServed || ms >= SERVER_AFTER_MS);
    if (!isDirect && !isForwarded) return null;
    if (!isDirect) {
      this.#later(`direct ${pair}`, DIRECT_RETRY_DELAY_MS, () => {
        if (!this.#links(a, b, relayed)) return;
        this.#kept.add(pair);
        this.dispatch({ type: 'direct', member: a, peer: b, generation: this.#state.generation });
      });
    }
    const route = isDirect ? 'direct' : 'server';
    this.#routes.set(key, route);
    return route;
  }

  #link(member: string, prepare: Prepare): void {
    const { generation, members } = prepare;
    const ring = members.map((one) => one.member);
    const lie = this.#options.liesAbout?.(member, ring);
    if (lie && !this.#options.liesLate) {
      this.#later(member, 500, () => this.dispatch({ type: 'broken', member, generation, peers: [lie] }));
      return;
    }
    const from = this.clock.now();
    const until = from + LINKING_TIMEOUT_MS;
    const attempt = (): void => {
      const peers = neighboursOf(member, ring);
      const routes = peers.map((peer) => this.#route(prepare, member, peer, this.clock.now() - from));
      const lacking = peers.filter((_, i) => routes[i] === null);
      const served = peers.filter((_, i) => routes[i] === 'server');
      if (lacking.length === 0) {
        return this.dispatch({ type: 'linked', member, generation, ...(served.length > 0 && { served }) });
      }
      if (this.clock.now() >= until) return this.dispatch({ type: 'broken', member, generation, peers: lacking });
      this.#later(member, ATTEMPT_MS, attempt);
    };
    this.#later(member, 900 + this.#rng.below(300), attempt);
  }

  #sync(member: string, generation: number): void {
    const free = Math.max(0, (this.#busyUntil.get(member) ?? 0) - this.clock.now());
    if (free === Number.POSITIVE_INFINITY) return this.#cancel(member);
    this.#later(member, free + 50, () => {
      this.dispatch({ type: 'syncing', member, generation });
      this.#later(member, 500, () => this.dispatch({ type: 'synced', member, generation, step: 0, stateHash: 'x' }));
    });
  }

  /**
   * Trains a generation. A step takes as long as its slowest rank, up to the deadline of a
   * collective.
   */
  #train(generation: number): void {
    const { stepMs = () => 1_000, hasOneWitness = false } = this.#options;
    const [ring, { relayed }] = [this.ring, this.#state];
    this.#training = { generation, ring };
    const isOn = (): boolean => this.#training.generation === generation && this.phase !== 'FORMING';
    let failed = false;
    const takes = new Map(ring.map((member) => [member, stepMs(member)]));
    for (const [member, ms] of takes) if (ms > 2_000) this.#busyUntil.set(member, this.clock.now() + ms);
    const slow = ring.filter((member) => takes.get(member)! > DEFAULT_OP_TIMEOUT_MS);
    const next = (): void => {
      if (!isOn() || failed) return;
      if (slow.length === 0) {
        this.steps.push(this.clock.now());
        this.#later('step', Math.max(...takes.values()), next);
        return;
      }
      const waiting = ring.filter((member) => !slow.includes(member));
      for (const [i, member] of waiting.entries()) {
        this.#later(member, DEFAULT_OP_TIMEOUT_MS + 1_000 + this.#rng.below(200), () => {
          const isWitness = !hasOneWitness || i === 0;
          if (isWitness) this.dispatch({ type: 'late', member, generation, peers: slow });
          else this.dispatch({ type: 'failed', member, generation, message: 'Timed out.', scope: 'generation' });
        });
      }
    };
    next();
    const noticed = new Set<string>();
    const look = (): void => {
      if (!isOn()) return;
      for (const member of ring) {
        const lost = neighboursOf(member, ring).find(
          (peer) =>
            this.#routes.get(routeKey(generation, member, peer)) !== 'server' && !this.#links(member, peer, relayed),
        );
        if (lost === undefined || noticed.has(member)) continue;
        noticed.add(member);
        this.#later(member, NOTICE_MS + this.#rng.below(200), () => {
          if (!isOn()) return;
          failed = true;
          this.dispatch({ type: 'broken', member, generation, peers: [lost] });
        });
      }
      this.#later('look', ATTEMPT_MS, look);
    };
    look();
    for (const member of ring) {
      const lie = this.#options.liesAbout?.(member, ring);
      if (lie) this.#later(`${member} lies`, 2_000, () => this.#lie(member, generation, lie, ring));
    }
  }

  #lie(member: string, generation: number, lie: string, ring: readonly string[]): void {
    this.dispatch({ type: 'broken', member, generation, peers: [lie] });
    if (!this.#options.othersReport) return;
    for (const other of ring) {
      if (other !== member)
        this.dispatch({
          type: 'failed',
          member: other,
          generation,
          scope: 'generation',
          message: 'The generation failed.',
        });
    }
  }

  #later(key: string, ms: number, fn: () => void): void {
    this.#cancel(key);
    const run = (): void => {
      this.#timers.delete(key);
      fn();
    };
    this.#timers.set(key, this.clock.after(ms, run));
  }

  #cancel(key: string): void {
    this.#timers.get(key)?.();
    this.#timers.delete(key);
  }
}

function routeKey(generation: number, a: string, b: string): string {
  return `${generation} ${edgeKey(a, b)}`;
}

function isPairOf(pairs: readonly (readonly [string, string])[], a: string, b: string): boolean {
  return pairs.some((pair) => pair.includes(a) && pair.includes(b));
}

function neighboursOf(member: string, ring: readonly string[]): string[] {
  const [n, i] = [ring.length, ring.indexOf(member)];
  return [...new Set([ring[(i + 1) % n]!, ring[(i + n - 1) % n]!])].filter((peer) => peer !== member);
}
