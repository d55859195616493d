/**
 * Tells those who only watch what this rank sees of its run, while it is rank 0: at most once a
 * second, and no more than a digest holds. What is left out of one is made up for by a later one:
 * newcomers, a new generation, and every {@link WHOLE_MS} get all that is kept, the others what is
 * new.
 */
import { MAX_UPDATE_LENGTH } from '../../protocol/control.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import { spectatorEventOf, type SpectatorEvent } from '../../protocol/spectatorUpdate.ts';
import type { Clock } from '../../util/clock.ts';

/**
 * Milliseconds between two digests: people cannot follow more, and the server hands on every one to
 * all who watch.
 */
const UPDATE_MS = 1_000;
/** Milliseconds after which everything is sent again, as spectators may have missed a part. */
const WHOLE_MS = 15_000;
/** Kept of the whole run: a point for every few pixels of a small chart. */
const MAX_STEPS = 128;
const MAX_EVALUATIONS = 48;
/** Steps a digest tells of those since the one before. */
const STEPS_AT_ONCE = 16;
/** Characters of an update for the curve: the ranks of a large world may fill the rest. */
const CURVE_LENGTH = MAX_UPDATE_LENGTH / 2;

type Of<Type extends EngineEvent['type']> = Extract<EngineEvent, { type: Type }>;
/** Events of which only the newest counts. */
type Newest = Of<'finished' | 'lesson' | 'codec' | 'hashes' | 'ranks' | 'confusion' | 'sample' | 'trace'>;
/** Their types; an update contains the first ones that fit. */
const NEWEST = [
  'finished',
  'lesson',
  'codec',
  'hashes',
  'ranks',
  'confusion',
  'sample',
  'trace',
] as const satisfies Newest['type'][];

interface Curve {
  steps: readonly Of<'step'>[];
  evaluations: readonly Of<'evaluation'>[];
}

interface SpectatorFeedOptions {
  clock: Clock;
  send: (update: string) => void;
}

export class SpectatorFeed {
  readonly #options: SpectatorFeedOptions;
  #spectators: ReadonlySet<string> = new Set();
  #generation: Of<'generation'> | null = null;
  #model: Of<'model'> | null = null;
  readonly #links = new Map<number, Of<'link'>>();
  #steps = new Thinned<Of<'step'>>(MAX_STEPS);
  #evaluations = new Thinned<Of<'evaluation'>>(MAX_EVALUATIONS);
  readonly #newest = new Map<Newest['type'], Newest>();
  /** What is new on the curve since the last digest, and of the newest what no digest has told. */
  readonly #fresh = { steps: [] as Of<'step'>[], evaluations: [] as Of<'evaluation'>[] };
  readonly #untold = new Set<Newest['type']>();
  /** When all was last told; `null`: it is due. */
  #wholeAt: number | null = null;
  #toldAt = -Infinity;
  #cancel: (() => void) | null = null;

  constructor(options: SpectatorFeedOptions) {
    this.#options = options;
  }

  /** Ids of the members that watch. */
  set audience(members: readonly string[]) {
    if (members.some((member) => !this.#spectators.has(member))) this.#wholeAt = null;
    this.#spectators = new Set(members);
    if (this.#wholeAt === null) this.#tellSoon();
  }

  /** What this rank's engine tells its page. */
  observe(event: EngineEvent): void {
    if (event.type === 'generation') this.#begin(event);
    else if (event.type === 'model') this.#model = event;
    else if (event.type === 'link') this.#links.set(event.peerRank, event);
    else if (event.type === 'step') {
      this.#steps.add(event);
      this.#fresh.steps.push(event);
    } else if (event.type === 'evaluation') {
      this.#evaluations.add(event);
      this.#fresh.evaluations.push(event);
    } else if (isNewest(event)) {
      this.#newest.set(event.type, event);
      this.#untold.add(event.type);
    } else return;
    if (event.type === 'finished') this.#tell();
    else this.#tellSoon();
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = null;
  }

  #begin(generation: Of<'generation'>): void {
    if (generation.run !== this.#generation?.run) {
      this.#steps = new Thinned(MAX_STEPS);
      this.#evaluations = new Thinned(MAX_EVALUATIONS);
    }
    this.#generation = generation;
    this.#model = null;
    this.#links.clear();
    this.#newest.clear();
    this.#untold.clear();
    this.#wholeAt = null;
  }

  get #isHeard(): boolean {
    return this.#spectators.size > 0 && this.#generation?.rank === 0;
  }

  #tellSoon(): void {
    if (!this.#isHeard) this.#forget();
    if (!this.#isHeard || this.#cancel !== null) return;
    const { clock } = this.#options;
    this.#cancel = clock.after(Math.max(0, this.#toldAt + UPDATE_MS - clock.now()), () => this.#tell());
  }

  #tell(): void {
    this.stop();
    if (!this.#isHeard) return;
    const { clock, send } = this.#options;
    this.#toldAt = clock.now();
    const isWhole = this.#wholeAt === null || this.#toldAt - this.#wholeAt >= WHOLE_MS;
    if (isWhole) {
      this.#wholeAt = this.#toldAt;
      for (const type of this.#newest.keys()) this.#untold.add(type);
    }
    const head = isWhole ? [this.#generation!, ...(this.#model ? [this.#model] : []), ...this.#links.values()] : [];
    const curve: Curve = isWhole
      ? { steps: this.#steps.kept, evaluations: this.#evaluations.kept }
      : { ...this.#fresh, steps: spread(this.#fresh.steps, STEPS_AT_ONCE) };
    send(this.#update(head.map(textOf), curve));
    this.#forget();
  }

  #forget(): void {
    this.#fresh.steps = [];
    this.#fresh.evaluations = [];
  }

  /** As much as fits: the rest of the newest is for the next. */
  #update(head: readonly string[], { steps, evaluations }: Curve): string {
    const place = Math.min(CURVE_LENGTH, MAX_UPDATE_LENGTH - lengthOf(head));
    let curve: string[];
    let most = steps.length;
    do {
      // A test comes after its step.
      const points = [...spread(steps, most), ...evaluations].sort((a, b) => a.step - b.step);
      curve = points.map(textOf);
      most >>= 1;
    } while (lengthOf(curve) > place && most > 0);
    const texts = [...head, ...curve];
    for (const type of NEWEST.filter((one) => this.#untold.has(one))) {
      const text = textOf(this.#newest.get(type)!);
      if (lengthOf([...texts, text]) > MAX_UPDATE_LENGTH) continue;
      this.#untold.delete(type);
      texts.push(text);
    }
    return `[${texts.filter((text) => text !== '').join(',')}]`;
  }
}

function isNewest(event: EngineEvent): event is Newest {
  return NEWEST.some((type) => type === event.type);
}

/** At most so many evenly spaced items of a growing list, and the last. */
class Thinned<T> {
  readonly #most: number;
  #every = 1;
  #count = 0;
  #regular: T[] = [];
  #last: T | null = null;

  constructor(most: number) {
    this.#most = most;
  }

  add(one: T): void {
    this.#last = one;
    if (this.#count++ % this.#every !== 0) return;
    this.#regular.push(one);
    if (this.#regular.length < this.#most) return;
    this.#regular = this.#regular.filter((_, i) => i % 2 === 0);
    this.#every *= 2;
  }

  get kept(): T[] {
    return this.#last === null || this.#regular.at(-1) === this.#last ? this.#regular : [...this.#regular, this.#last];
  }
}

/** At most `most` of a list, evenly spread, the last among them. */
function spread<T>(list: readonly T[], most: number): T[] {
  if (list.length <= most) return [...list];
  return Array.from({ length: most }, (_, i) => list[Math.ceil(((i + 1) * list.length) / most) - 1]!);
}

/** Empty for values that cannot be sent, such as a loss that is NaN. */
function textOf(event: EngineEvent): string {
  const news: SpectatorEvent | null = spectatorEventOf(event);
  if (news === null) return '';
  return JSON.stringify(news, (_, value: unknown) => (typeof value === 'number' ? rounded(value) : value));
}

/**
 * A hundredth of a microsecond, or of a thousandth of a loss, is nothing that anybody sees; a
 * learning rate is all the smaller.
 */
function rounded(value: number): number {
  return Math.abs(value) < 1 ? Number(value.toPrecision(5)) : Math.round(value * 1e5) / 1e5;
}

function lengthOf(texts: readonly string[]): number {
  // With their commas and brackets.
  return texts.reduce((sum, text) => sum + text.length + 1, 1);
}
