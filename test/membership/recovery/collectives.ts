/** Collectives of one generation in the recovery schedules; the last one breaks. */
import { PeerGoneError } from '../../../src/util/errors.ts';
import type { Rng } from '../../../src/util/rng.ts';
import { Violation } from '../violation.ts';
import type { Tab } from './tab.ts';

/** Most tabs of a schedule. */
export const MOST_TABS = 4;
const RANKS = Array.from({ length: MOST_TABS }, (_, rank) => rank);

/** The failure of every broken collective. One object, because an error takes long to create. */
export const gone = new PeerGoneError('A link broke.');

export type Trace = (line: string) => void;

interface Call {
  rank: number;
  value: unknown;
  resolve: (values: never[]) => void;
  reject: (error: Error) => void;
}

/**
 * The collectives of a generation. After `left` of them one breaks: some ranks complete it, the
 * others do not, and all later ones fail.
 */
export class Collectives {
  readonly generation: number;
  readonly tabs: readonly Tab[];
  readonly #rng: Rng;
  readonly #trace: Trace | null;
  #left: number;
  #calls: Call[] = [];
  #what = '';
  #isBroken = false;
  /** Whether the collective that broke was completed by any rank. */
  wasCompleted = false;

  constructor(generation: number, tabs: readonly Tab[], left: number, rng: Rng, trace: Trace | null) {
    this.generation = generation;
    this.tabs = tabs;
    this.#left = left;
    this.#rng = rng;
    this.#trace = trace;
  }

  /**
   * Calls a collective: resolves with all ranks' values, by rank, when every rank has called it.
   * `complete` is called before.
   */
  exchange<T>(what: string, tab: Tab, value: T, complete?: (values: T[]) => void): Promise<T[]> {
    const rank = this.tabs.indexOf(tab);
    return new Promise<T[]>((resolve, reject) => {
      if (this.#isBroken) return reject(gone);
      if (this.#calls.length > 0 && what !== this.#what) {
        throw new Violation('R2', `${tab.name} calls ${what}, and others call ${this.#what}`);
      }
      this.#what = what;
      this.#calls.push({ rank, value, resolve, reject });
      if (this.#calls.length < this.tabs.length) return;
      const calls = this.#calls.sort((a, b) => a.rank - b.rank);
      const values = calls.map((call) => call.value as never);
      complete?.(values);
      this.#calls = [];
      if (this.#left-- > 0) {
        for (const call of calls) call.resolve(values);
        return;
      }
      this.#isBroken = true;
      const isDone = calls.map(() => this.#rng.below(2) === 0);
      this.wasCompleted = isDone.includes(true);
      this.#trace?.(
        `breaks at ${what}, completed by [${this.tabs
          .filter((_, i) => isDone[i])
          .map(({ name }) => name)
          .join('')}]`,
      );
      for (const [i, call] of calls.entries()) {
        if (isDone[i]) call.resolve(values);
        else call.reject(gone);
      }
    });
  }

  /** Rejects all pending calls because a rank failed. */
  abort(): void {
    this.#isBroken = true;
    for (const { reject } of this.#calls.splice(0)) reject(gone);
  }
}

/** The part of a process group that production's recovery uses. */
export class Group {
  readonly generation: number;
  readonly rank: number;
  readonly worldSize: number;
  readonly ranks: readonly number[];
  readonly #collectives: Collectives;
  readonly #tab: Tab;

  constructor(collectives: Collectives, tab: Tab) {
    this.#collectives = collectives;
    this.#tab = tab;
    this.generation = collectives.generation;
    this.rank = collectives.tabs.indexOf(tab);
    this.worldSize = collectives.tabs.length;
    this.ranks = RANKS;
  }

  allGatherObject<T>(value: T): Promise<T[]> {
    return this.#collectives.exchange('objects', this.#tab, value);
  }

  allGather(value: Uint8Array): Promise<Uint8Array[]> {
    return this.#collectives.exchange('digests', this.#tab, value);
  }

  async broadcastObject<T>(value: T, source: number): Promise<T> {
    return (await this.#collectives.exchange('object', this.#tab, value))[source]!;
  }
}
