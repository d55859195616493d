/**
 * Sends the events of an engine to its page in batches. A message between threads, and from the
 * page to a launcher, costs more than the events in it.
 */
import { ANIMATION_EVENT_TYPES, type EngineEvent, type EventOf } from '../protocol/events.ts';
import type { Clock } from '../util/clock.ts';

/** Milliseconds for which an event of {@link FREQUENT} may wait. The page draws no faster. */
export const EVENT_BATCH_MS = 200;

/** Types of events that come with every step or exchange, and that nobody waits for. */
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

/** Types of events that a page needs only while somebody sees it. */
const DROPPED: ReadonlySet<EngineEvent['type']> = new Set(ANIMATION_EVENT_TYPES);

/**
 * Events keep their order. An event that is not {@link FREQUENT}, such as the end of a run or a
 * failure, is sent at once together with all waiting events. So is the first step of a generation.
 * A tab that dies has sent everything but the frequent events of its last {@link EVENT_BATCH_MS}
 * milliseconds.
 */
export class EventBatches {
  readonly #clock: Clock;
  readonly #send: (events: readonly EngineEvent[]) => void;
  #isWatched = true;
  /** The traces of the latest step, if nobody has seen them. */
  #unseen: EventOf<'trace'>[] = [];
  #waiting: EngineEvent[] = [];
  #sentAt = Number.NEGATIVE_INFINITY;
  #cancelTimer: (() => void) | null = null;
  /** Whether this generation has taken a step. */
  #hasStepped = false;

  constructor(clock: Clock, send: (events: readonly EngineEvent[]) => void) {
    this.#clock = clock;
    this.#send = send;
  }

  /**
   * Whether somebody may see the page. If not, events for its animation are dropped. When the page
   * is seen again, it receives the traces of the latest step, because the run may be over.
   */
  get isWatched(): boolean {
    return this.#isWatched;
  }

  set isWatched(isWatched: boolean) {
    this.#isWatched = isWatched;
    if (isWatched) for (const trace of this.#unseen.splice(0)) this.add(trace);
  }

  add(event: EngineEvent): void {
    if (event.type === 'generation') this.#unseen = [];
    if (!this.#isWatched && DROPPED.has(event.type)) {
      if (event.type === 'trace') this.#unseen = [...this.#unseen.filter(({ step }) => step === event.step), event];
      return;
    }
    this.#waiting.push(event);
    const isFirstStep = event.type === 'step' && !this.#hasStepped;
    if (event.type === 'generation' || event.type === 'step') this.#hasStepped = event.type === 'step';
    const left = this.#sentAt + EVENT_BATCH_MS - this.#clock.now();
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
