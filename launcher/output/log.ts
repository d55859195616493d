/** Logs events of tabs: progress for people, or one JSON line per event for programs. */
import type { EngineEvent, EventOf } from '../../src/protocol/events.ts';
import type { Clock } from '../../src/util/clock.ts';
import type { Io, LogEvent } from '../io.ts';
import { describeData, describeLoading, describeWeights } from './data.ts';
import { Progress } from './progress.ts';
import { describeCodec, describeShares, gistOfShares, isDecided } from './report.ts';

export interface Log {
  on: (tab: string, event: EngineEvent) => void;
  /** Logs an event of a tab. */
  event: LogEvent;
  note: (line: string) => void;
  /** Stops the progress bar, because a run or all tabs have ended. */
  stop: () => void;
}

/** Milliseconds between two logged steps of a tab. */
const STEP_EVERY_MS = 5_000;
/** The largest number of distinct page errors that are logged. A broken page logs many. */
const MAX_ERRORS = 20;
/** The largest number of notes that people see. A folder may have many damaged pictures. */
const MAX_NOTES = 20;

/**
 * Creates a log.
 *
 * @param lead the tab whose progress people see. One tab is enough, because all ranks are at the
 *   same step.
 */
export function createLog(io: Io, lead: string, clock: Clock): Log {
  return io.logEvent === undefined ? new ProgressLog(io, lead, clock) : new EventLog(io.logEvent, clock);
}

/** Returns a handler that logs each distinct page error once, up to {@link MAX_ERRORS} of them. */
export function errorsOf(log: Log): (tab: string, message: string) => void {
  const seen = new Set<string>();
  return (tab, message) => {
    if (seen.has(message) || seen.size >= MAX_ERRORS) return;
    seen.add(message);
    log.event('page-error', { tab }, `${tab}: ${message}`);
  };
}

class ProgressLog implements Log {
  readonly #progress: Progress;
  readonly #lead: string;
  readonly #notes = new Set<string>();

  constructor(io: Io, lead: string, clock: Clock) {
    this.#progress = new Progress(io, clock);
    this.#lead = lead;
  }

  on(tab: string, event: EngineEvent): void {
    if (event.type === 'note') this.#noteOnce(event.message);
    else if (tab === this.#lead) this.#progress.on(event);
  }

  /** Shows notes of all tabs, because each tab reads samples of its own. */
  #noteOnce(message: string): void {
    if (this.#notes.has(message) || this.#notes.size > MAX_NOTES) return;
    this.#notes.add(message);
    const isShown = this.#notes.size <= MAX_NOTES;
    this.note(isShown ? message : 'Further notes are not shown. To see all, pass --json-lines.');
  }

  event(_event: string, _fields: object, line: string): void {
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
  readonly event: LogEvent;
  readonly #clock: Clock;
  /** For each tab and each kind of event, the time at which such an event was last logged. */
  readonly #loggedAt = new Map<string, number>();
  /** For each tab, the description of its latest shares, as {@link gistOfShares} returns them. */
  readonly #shares = new Map<string, string>();
  /** For each tab, the description of its latest data. */
  readonly #data = new Map<string, string>();

  constructor(logEvent: LogEvent, clock: Clock) {
    this.event = logEvent;
    this.#clock = clock;
  }

  on(tab: string, event: EngineEvent): void {
    if (event.type === 'device') {
      this.event('device', { tab, ...event.device }, `${tab} computes with ${event.device.backend}.`);
    } else if (event.type === 'generation') {
      const { run, generation, rank, worldSize } = event;
      this.event('generation', { tab, run, generation, rank, worldSize }, `${tab} is rank ${rank} of ${worldSize}.`);
    } else if (event.type === 'step') {
      this.#step(tab, event);
    } else if (event.type === 'warmup' && event.received !== undefined) {
      if (this.#isDue(`receiving ${tab}`))
        this.event('receiving', { tab, ...event.received }, `${tab}: ${event.message}`);
    } else if ((event.type === 'warmup' || event.type === 'opening') && event.loading !== undefined) {
      if (this.#isDue(`loading ${tab}`))
        this.event('loading', { tab, ...event.loading }, `${tab}: ${describeLoading(event.loading)}`);
    } else if (event.type === 'evaluation') {
      const { step, loss, accuracy, metrics } = event;
      this.event(
        'evaluation',
        { tab, step, loss, accuracy, ...(metrics && { metrics }) },
        `${tab} has evaluated the model.`,
      );
    } else if (event.type === 'algorithm') {
      const { step, algorithm } = event;
      this.event('algorithm', { tab, step, algorithm }, `${tab} sends gradients by ${algorithm}.`);
    } else if (event.type === 'shares' && isDecided(event)) {
      const { type: _, ...decision } = event;
      const gist = gistOfShares(decision);
      const isNew = gist !== this.#shares.get(tab);
      this.#shares.set(tab, gist);
      if (isNew) this.event('shares', { tab, ...decision }, describeShares(decision));
    } else if (event.type === 'codec') {
      const { step, choice } = event;
      this.event('codec', { tab, step, choice }, describeCodec(choice));
    } else if (event.type === 'preview' && event.preview !== null) {
      const { notes } = event.preview;
      const described = describeData(event.preview);
      const isNew = described !== this.#data.get(tab);
      this.#data.set(tab, described);
      if (isNew) this.event('data', { tab, notes }, described);
    } else if (event.type === 'weights' && event.notes.length > 0) {
      this.event('data', { tab, notes: event.notes }, describeWeights(event));
    } else if (event.type === 'finished') {
      // The list of all steps' losses is too long for a log.
      const { losses: _, ...result } = event.result;
      this.event('finished', { tab, result }, `${tab} has finished after ${result.steps} steps.`);
    } else if (event.type === 'note') {
      this.event('note', { tab }, `${tab}: ${event.message}`);
    } else if (event.type === 'suspended') {
      this.event('suspended', { tab }, `${tab}: ${event.message}`);
    } else if (event.type === 'failed') {
      this.event('failed', { tab, name: event.name, fatal: event.fatal }, `${tab}: ${event.message}`);
    }
  }

  #step(tab: string, { step, epoch, loss, samples }: EventOf<'step'>): void {
    if (!this.#isDue(`step ${tab}`)) return;
    // Steps are numbered from 0.
    this.event('step', { tab, step, epoch, loss, samples }, `${tab} has taken ${step + 1} steps.`);
  }

  #isDue(what: string): boolean {
    const now = this.#clock.now();
    const isDue = now - (this.#loggedAt.get(what) ?? Number.NEGATIVE_INFINITY) >= STEP_EVERY_MS;
    if (isDue) this.#loggedAt.set(what, now);
    return isDue;
  }

  note(line: string): void {
    this.event('note', {}, line);
  }

  stop(): void {}
}
