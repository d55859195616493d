/**
 * Sends to spectators what rank 0 knows about its run. It sends at most one update per second, and
 * the length of an update is limited. If an update has no room for all steps, some steps are left
 * out. Other events that do not fit are sent in a later update. Most updates contain only what is
 * new. After spectators join, after a new generation begins, and every {@link WHOLE_MS}, an update
 * also repeats what was sent before.
 */
import { MAX_SPECTATOR_UPDATE_LENGTH } from '../../protocol/control.ts';
import type { EngineEvent, EventOf } from '../../protocol/events.ts';
import { spectatorEventOf, type SpectatorEvent } from '../../protocol/spectatorUpdate.ts';
import type { Clock } from '../../util/clock.ts';

/**
 * Milliseconds between two updates. People cannot follow faster updates, and the server forwards
 * each update to all spectators.
 */
const UPDATE_MS = 1_000;
/** Milliseconds after which everything is sent again, because spectators may have missed a part. */
const WHOLE_MS = 15_000;
/**
 * The largest number of steps that are kept of the whole run. A small chart then has a point every
 * few pixels.
 */
const MAX_STEPS = 128;
const MAX_EVALUATIONS = 48;
/** The largest number of steps in an update that contains only what is new. */
const STEPS_AT_ONCE = 16;
/**
 * The largest number of characters for the curve in one update. Most updates that repeat everything
 * are only a little longer than this. In a large world, the event `ranks` fills the rest of {@link
 * MAX_SPECTATOR_UPDATE_LENGTH}.
 */
const CURVE_LENGTH = 12 * 1024;

/**
 * The types of events of which only the latest matters, with the most important type first. An
 * update contains as many of these events as fit.
 */
const NEWEST = [
  'finished',
  'lesson',
  'pipeline',
  'algorithm',
  'shares',
  'codec',
  'hashes',
  'ranks',
  'confusion',
  'sample',
  'trace',
] as const satisfies EngineEvent['type'][];
type Newest = EventOf<(typeof NEWEST)[number]>;

interface Curve {
  steps: readonly EventOf<'step'>[];
  evaluations: readonly EventOf<'evaluation'>[];
}

interface SpectatorFeedOptions {
  clock: Clock;
  send: (update: string) => void;
}

export class SpectatorFeed {
  readonly #options: SpectatorFeedOptions;
  #spectators: ReadonlySet<string> = new Set();
  #generation: EventOf<'generation'> | null = null;
  #model: EventOf<'model'> | null = null;
  readonly #links = new Map<number, EventOf<'link'>>();
  #steps = new Thinned<EventOf<'step'>>(MAX_STEPS);
  #evaluations = new Thinned<EventOf<'evaluation'>>(MAX_EVALUATIONS);
  readonly #newest = new Map<Newest['type'], Newest>();
  /** Changes of the model, the links and the curve that were not sent yet. */
  readonly #fresh = {
    model: null as EventOf<'model'> | null,
    links: new Map<number, EventOf<'link'>>(),
    steps: [] as EventOf<'step'>[],
    evaluations: [] as EventOf<'evaluation'>[],
  };
  readonly #unsent = new Set<Newest['type']>();
  /** The time when everything was last sent; `null` if everything must be sent now. */
  #wholeAt: number | null = null;
  #sentAt = -Infinity;
  #cancel: (() => void) | null = null;

  constructor(options: SpectatorFeedOptions) {
    this.#options = options;
  }

  set audience(members: readonly string[]) {
    if (members.some((member) => !this.#spectators.has(member))) this.#wholeAt = null;
    this.#spectators = new Set(members);
    if (this.#wholeAt === null) this.#sendSoon();
  }

  /** Receives the events that this rank emits to its page. */
  observe(event: EngineEvent): void {
    if (event.type === 'generation') this.#begin(event);
    else if (event.type === 'model') this.#model = this.#fresh.model = event;
    else if (event.type === 'link') {
      this.#links.set(event.peerRank, event);
      this.#fresh.links.set(event.peerRank, event);
    } else if (event.type === 'step') {
      this.#steps.add(event);
      this.#fresh.steps.push(event);
    } else if (event.type === 'evaluation') {
      this.#evaluations.add(event);
      this.#fresh.evaluations.push(event);
    } else if (event.type === 'trace' && this.#isMinor(event)) {
      return;
    } else if (isNewest(event)) {
      this.#newest.set(event.type, event);
      this.#unsent.add(event.type);
    } else return;
    if (event.type === 'finished') this.#send();
    else this.#sendSoon();
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = null;
  }

  #begin(generation: EventOf<'generation'>): void {
    if (generation.run !== this.#generation?.run) {
      this.#steps = new Thinned(MAX_STEPS);
      this.#evaluations = new Thinned(MAX_EVALUATIONS);
    }
    this.#generation = generation;
    this.#model = null;
    this.#links.clear();
    this.#newest.clear();
    this.#unsent.clear();
    this.#wholeAt = null;
  }

  /**
   * Returns whether a trace shows a different algorithm than the one that sends the most bytes. It
   * is the trace of a small bucket, which pages do not show. Each step could end with such a trace.
   * If it were kept as the newest trace, it would replace the trace that pages show.
   */
  #isMinor({ algorithm }: EventOf<'trace'>): boolean {
    const main = this.#newest.get('algorithm');
    return main?.type === 'algorithm' && main.algorithm !== algorithm;
  }

  get #hasAudience(): boolean {
    return this.#spectators.size > 0 && this.#generation?.rank === 0;
  }

  #sendSoon(): void {
    if (!this.#hasAudience) this.#forget();
    if (!this.#hasAudience || this.#cancel !== null) return;
    const { clock } = this.#options;
    this.#cancel = clock.after(Math.max(0, this.#sentAt + UPDATE_MS - clock.now()), () => this.#send());
  }

  #send(): void {
    this.stop();
    if (!this.#hasAudience) return;
    const { clock, send } = this.#options;
    this.#sentAt = clock.now();
    const isWhole = this.#wholeAt === null || this.#sentAt - this.#wholeAt >= WHOLE_MS;
    if (isWhole) {
      this.#wholeAt = this.#sentAt;
      for (const type of this.#newest.keys()) this.#unsent.add(type);
    }
    const { model, links } = isWhole ? { model: this.#model, links: this.#links } : this.#fresh;
    const head = [...(isWhole ? [this.#generation!] : []), ...(model ? [model] : []), ...links.values()];
    const curve: Curve = isWhole
      ? { steps: this.#steps.kept, evaluations: this.#evaluations.kept }
      : { ...this.#fresh, steps: spaced(this.#fresh.steps, STEPS_AT_ONCE) };
    send(this.#update(head.map(textOf), curve));
    this.#forget();
  }

  #forget(): void {
    this.#fresh.model = null;
    this.#fresh.links.clear();
    this.#fresh.steps = [];
    this.#fresh.evaluations = [];
  }

  /**
   * Returns an update with as much as fits. If the curve is too long, it gets fewer steps. An event
   * of {@link NEWEST} that does not fit is sent in a later update.
   */
  #update(head: readonly string[], { steps, evaluations }: Curve): string {
    const place = Math.min(CURVE_LENGTH, MAX_SPECTATOR_UPDATE_LENGTH - lengthOf(head));
    let curve: string[];
    let most = steps.length;
    do {
      // An evaluation has the number of the step that it follows, so the step comes first.
      const points = [...spaced(steps, most), ...evaluations].sort((a, b) => a.step - b.step);
      curve = points.map(textOf);
      most >>= 1;
    } while (lengthOf(curve) > place && most > 0);
    const texts = [...head, ...curve];
    for (const type of NEWEST.filter((newest) => this.#unsent.has(newest))) {
      const text = textOf(this.#newest.get(type)!);
      if (lengthOf([...texts, text]) > MAX_SPECTATOR_UPDATE_LENGTH) continue;
      this.#unsent.delete(type);
      texts.push(text);
    }
    return `[${texts.filter((text) => text !== '').join(',')}]`;
  }
}

function isNewest(event: EngineEvent): event is Newest {
  return NEWEST.some((type) => type === event.type);
}

/**
 * Keeps evenly spaced items of a growing list and its last item. In all, it keeps at most `most`
 * items.
 */
class Thinned<T> {
  readonly #most: number;
  #every = 1;
  #count = 0;
  #regular: T[] = [];
  #last: T | null = null;

  constructor(most: number) {
    this.#most = most;
  }

  add(item: T): void {
    this.#last = item;
    if (this.#count++ % this.#every !== 0) return;
    this.#regular.push(item);
    if (this.#regular.length < this.#most) return;
    this.#regular = this.#regular.filter((_, i) => i % 2 === 0);
    this.#every *= 2;
  }

  get kept(): T[] {
    return this.#last === null || this.#regular.at(-1) === this.#last ? this.#regular : [...this.#regular, this.#last];
  }
}

/**
 * Returns `most` evenly spaced items of a list, or all items if there are fewer. The first and the
 * last item of the list are always included. If `most` is 1, only the last item is returned.
 */
function spaced<T>(list: readonly T[], most: number): T[] {
  if (list.length <= most) return [...list];
  if (most === 1) return list.slice(-1);
  return Array.from({ length: most }, (_, i) => list[Math.round((i * (list.length - 1)) / (most - 1))]!);
}

/**
 * Returns the event as JSON. The text is empty if the event contains values that cannot be sent,
 * such as a loss that is NaN.
 */
function textOf(event: EngineEvent): string {
  const sent: SpectatorEvent | null = spectatorEventOf(event);
  if (sent === null) return '';
  return JSON.stringify(sent, (_, value: unknown) => (typeof value === 'number' ? rounded(value) : value));
}

/**
 * Rounds to five decimals, which is more than a chart can show. Numbers below 1, such as learning
 * rates, keep five significant digits.
 */
function rounded(value: number): number {
  return Math.abs(value) < 1 ? Number(value.toPrecision(5)) : Math.round(value * 1e5) / 1e5;
}

function lengthOf(texts: readonly string[]): number {
  // The length of the JSON array includes the commas between the texts and the two brackets.
  return texts.reduce((sum, text) => sum + text.length + 1, 1);
}
