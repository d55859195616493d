/** The collectives of one generation in the recovery schedules. The last one of them breaks. */
import { PeerGoneError } from '../../../src/util/errors.ts';
import type { Rng } from '../../../src/util/rng.ts';
import { Violation } from '../violation.ts';
import type { Tab } from './tab.ts';

/** Maximum number of tabs in a schedule. */
export const MOST_TABS = 4;
const RANKS = Array.from({ length: MOST_TABS }, (_, rank) => rank);

/** The error of every broken collective. It is one object, because creating an error takes long. */
export const gone = new PeerGoneError('A link broke.');

export type Trace = (line: string) => void;

interface Call {
  rank: number;
  value: unknown;
  resolve: (values: never[]) => void;
  reject: (error: Error) => void;
}

/**
 * The collectives of a generation. The first `left` collectives succeed, and the next one breaks:
 * some ranks complete it, the others do not. All later ones fail.
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
  /** Whether any rank has completed the collective that broke. */
  wasCompleted = false;

  constructor(generation: number, tabs: readonly Tab[], left: number, rng: Rng, trace: Trace | null) {
    this.generation = generation;
    this.tabs = tabs;
    this.#left = left;
    this.#rng = rng;
    this.#trace = trace;
  }

  /**
   * Calls a collective. When every rank has called it, it resolves with the values of all ranks, by
   * rank. `complete` is called before that.
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

/** The methods of a process group that the real recovery code uses. */
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
