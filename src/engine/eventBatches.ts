/**
 * Sends the events of an engine to its page in batches. A message between threads, and from the
 * page to a launcher, costs more than the events in it.
 */
import type { EngineEvent } from '../protocol/events.ts';
import type { Clock } from '../util/clock.ts';

/** Milliseconds for which an event of {@link FREQUENT} may wait. The page draws no faster. */
export const BATCH_MS = 200;

/** Types of events that come with every step or exchange, and for which nothing waits. */
const FREQUENT: ReadonlySet<EngineEvent['type']> = new Set([
  'begin',
  'pass',
  'step',
  'trace',
  'segments',
  'ranks',
  'telemetry',
  'testing',
  'shares',
]);

/** Types of events that only a page that somebody sees needs. */
const OF_ANIMATION: ReadonlySet<EngineEvent['type']> = new Set(['begin', 'trace']);

/**
 * Events keep their order. An event of another type, such as the end of a run or a failure, is sent
 * at once together with all that wait, and so is the first step of a generation. A tab that dies
 * has sent everything but the frequent events of its last {@link BATCH_MS} milliseconds.
 */
export class EventBatches {
  /** Whether somebody may see the page. If not, events for its animation are dropped. */
  isWatched = true;
  readonly #clock: Clock;
  readonly #send: (events: readonly EngineEvent[]) => void;
  #waiting: EngineEvent[] = [];
  #sentAt = Number.NEGATIVE_INFINITY;
  #cancelTimer: (() => void) | null = null;
  /** Whether this generation has taken a step. */
  #hasStepped = false;

  constructor(clock: Clock, send: (events: readonly EngineEvent[]) => void) {
    this.#clock = clock;
    this.#send = send;
  }

  add(event: EngineEvent): void {
    if (!this.isWatched && OF_ANIMATION.has(event.type)) return;
    this.#waiting.push(event);
    const isFirstStep = event.type === 'step' && !this.#hasStepped;
    if (event.type === 'generation' || event.type === 'step') this.#hasStepped = event.type === 'step';
    const left = this.#sentAt + BATCH_MS - this.#clock.now();
    // The time is also compared here, because timers are late in a thread that computes.
    if (left <= 0 || isFirstStep || !FREQUENT.has(event.type)) this.#flush();
    else this.#cancelTimer ??= this.#clock.after(left, () => this.#flush());
  }

  #flush(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    this.#sentAt = this.#clock.now();
    this.#send(this.#waiting);
    this.#waiting = [];
  }
}
