/**
 * What tabs live through, told as they go on: to people as progress, to programs an event a line.
 */
import type { EngineEvent } from '../../src/protocol/events.ts';
import type { Clock } from '../../src/util/clock.ts';
import type { Io, Tell } from '../io.ts';
import { Progress } from './progress.ts';
import { describeCodec } from './report.ts';

export interface Log {
  on: (tab: string, event: EngineEvent) => void;
  /** Something that befell a tab. */
  tell: Tell;
  note: (line: string) => void;
  /** A run is over, or the tabs are. */
  stop: () => void;
}

/** Milliseconds between two steps that are told of one tab. */
const STEP_EVERY_MS = 5_000;
/** Distinct page errors told; a broken page repeats itself. */
const MAX_ERRORS = 20;

/** @param lead the tab whose progress people see: all ranks are in the same step. */
export function createLog(io: Io, lead: string, clock: Clock): Log {
  return io.tell === undefined ? new ProgressLog(io, lead, clock) : new EventLog(io.tell, clock);
}

/** Told of each page's errors; says each once. */
export function errorsOf(log: Log): (tab: string, message: string) => void {
  const told = new Set<string>();
  return (tab, message) => {
    if (told.has(message) || told.size >= MAX_ERRORS) return;
    told.add(message);
    log.tell('page-error', { tab }, `${tab}: ${message}`);
  };
}

class ProgressLog implements Log {
  readonly #progress: Progress;
  readonly #lead: string;

  constructor(io: Io, lead: string, clock: Clock) {
    this.#progress = new Progress(io, clock);
    this.#lead = lead;
  }

  on(tab: string, event: EngineEvent): void {
    if (tab === this.#lead) this.#progress.on(event);
  }

  tell(_event: string, _fields: object, line: string): void {
    this.#progress.note(line);
  }

  note(line: string): void {
    this.#progress.note(line);
  }

  stop(): void {
    this.#progress.stop();
  }
}

class EventLog implements Log {
  readonly tell: Tell;
  readonly #clock: Clock;
  /** When a step was told last, by tab. */
  readonly #steppedAt = new Map<string, number>();

  constructor(tell: Tell, clock: Clock) {
    this.tell = tell;
    this.#clock = clock;
  }

  on(tab: string, event: EngineEvent): void {
    if (event.type === 'device') {
      this.tell('device', { tab, ...event.device }, `${tab} computes with ${event.device.backend}.`);
    } else if (event.type === 'generation') {
      const { run, generation, rank, worldSize } = event;
      this.tell('generation', { tab, run, generation, rank, worldSize }, `${tab} is rank ${rank} of ${worldSize}.`);
    } else if (event.type === 'step') {
      this.#step(tab, event);
    } else if (event.type === 'evaluation') {
      const { step, loss, accuracy, metrics } = event;
      this.tell(
        'evaluation',
        { tab, step, loss, accuracy, ...(metrics && { metrics }) },
        `${tab} has tested what it learned.`,
      );
    } else if (event.type === 'codec') {
      const { step, choice } = event;
      this.tell('codec', { tab, step, choice }, describeCodec(choice));
    } else if (event.type === 'finished') {
      // Of every step: that is no log's.
      const { losses: _, ...result } = event.result;
      this.tell('finished', { tab, result }, `${tab} has finished after ${result.steps} steps.`);
    } else if (event.type === 'failed') {
      this.tell('failed', { tab, name: event.name, fatal: event.fatal }, `${tab}: ${event.message}`);
    }
  }

  #step(tab: string, { step, epoch, loss, samples }: Extract<EngineEvent, { type: 'step' }>): void {
    const now = this.#clock.now();
    if (now - (this.#steppedAt.get(tab) ?? Number.NEGATIVE_INFINITY) < STEP_EVERY_MS) return;
    this.#steppedAt.set(tab, now);
    // Steps count from 0.
    this.tell('step', { tab, step, epoch, loss, samples }, `${tab} has taken ${step + 1} steps.`);
  }

  note(line: string): void {
    this.tell('note', {}, line);
  }

  stop(): void {}
}
