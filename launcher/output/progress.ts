/**
 * Shows the progress of the run on stderr: a bar on a terminal, otherwise a line every few seconds.
 */
import { SingleBar } from 'cli-progress';
import type { EngineEvent, LoadProgress, StateReceiveProgress } from '../../src/protocol/events.ts';
import type { Clock } from '../../src/util/clock.ts';
import type { Io } from '../io.ts';
import { describeData, describeLoading, describeWeights } from './data.ts';
import { describeCodec, describeShares, formatMetrics, gistOfShares, isDecided } from './report.ts';

const MINUTE_MS = 60_000;
/** Milliseconds between two lines of progress if the output is not a terminal. */
const LINE_EVERY_MS = 5_000;

/** The unit that a bar counts. */
type Counted = LoadProgress['unit'] | 'state' | 'steps';

export class Progress {
  readonly #io: Io;
  readonly #clock: Clock;
  #bar: SingleBar | null = null;
  /** The unit that the bar counts. */
  #barOf: Counted = 'steps';
  #totalSteps = 0;
  /** Length of the run if it is limited by time, otherwise `null`. */
  #totalMs: number | null = null;
  #loggedAt = Number.NEGATIVE_INFINITY;
  #measured = '';
  #shares = '';
  #data = '';

  constructor(io: Io, clock: Clock) {
    this.#io = io;
    this.#clock = clock;
  }

  /** Handles the events of one tab. One tab is enough, because all ranks are at the same step. */
  on(event: EngineEvent): void {
    if (event.type === 'device') {
      const { backend, adapter } = event.device;
      this.note(event.note === null ? `${backend} on ${adapter}` : `${backend} on ${adapter}: ${event.note}`);
    } else if (event.type === 'warmup') {
      if (event.received !== undefined) this.#receive(event.message, event.received);
      else if (event.loading !== undefined) this.#load(event.loading);
      else if (event.shaders === undefined) this.note(event.message);
    } else if (event.type === 'opening') {
      this.#load(event.loading);
    } else if (event.type === 'generation') {
      const { maxMinutes } = event.job;
      this.#totalMs = maxMinutes === null ? null : maxMinutes * MINUTE_MS;
    } else if (event.type === 'sample') {
      this.note(`Generated text after ${event.steps} steps:\n${indented(event.prompt + event.text)}`);
    } else if (event.type === 'model') {
      this.#totalSteps = event.totalSteps;
    } else if (event.type === 'shares' && isDecided(event)) {
      const gist = gistOfShares(event);
      if (gist !== this.#shares) this.note(describeShares(event));
      this.#shares = gist;
    } else if (event.type === 'preview') {
      if (this.#barOf !== 'steps') this.stop();
      if (event.preview === null) return;
      // After a restart, the data are usually the same, and are not described again.
      const described = describeData(event.preview);
      if (described !== this.#data) this.note(described);
      this.#data = described;
    } else if (event.type === 'weights' && event.notes.length > 0) {
      this.note(describeWeights(event));
    } else if (event.type === 'suspended') {
      this.note(event.message);
    } else if (event.type === 'codec') {
      this.note(describeCodec(event.choice));
    } else if (event.type === 'evaluation') {
      this.#measured = formatMetrics(event)
        .map((one) => ` | ${one}`)
        .join('');
    } else if (event.type === 'step') {
      // Steps are numbered from 0.
      this.#step(event.step + 1, event.at, `loss ${event.loss.toFixed(4)}${this.#measured}`);
    }
  }

  #load(loading: LoadProgress): void {
    const { unit, total, done } = loading;
    this.#report(unit, { total, done, line: describeLoading(loading) });
  }

  #receive(line: string, { bytes, total, waitsMs }: StateReceiveProgress): void {
    this.#report('state', { total, done: waitsMs === null ? bytes : total, line });
  }

  /** Shows a bar on a terminal; otherwise logs the line every few seconds. */
  #report(of: Counted, { total, done, line }: { total: number; done: number; line: string }): void {
    if (this.#io.terminal !== null) {
      this.#show(this.#io.terminal, of, { format: '{bar} {line}', total, done, line });
      if (done === total && of !== 'state') this.stop();
      return;
    }
    const now = this.#clock.now();
    const isEnd = of !== 'state' && (done === total || done === 0);
    if (now - this.#loggedAt < LINE_EVERY_MS && !isEnd) return;
    this.#loggedAt = now;
    this.note(line);
  }

  /** Logs a line above the bar. */
  note(line: string): void {
    if (this.#bar !== null) {
      this.#io.terminal?.clearLine(0);
      this.#io.terminal?.cursorTo(0);
    }
    this.#io.err(line);
  }

  stop(): void {
    this.#bar?.stop();
    this.#bar = null;
  }

  /** @param at milliseconds since the run began. */
  #step(done: number, at: number, values: string): void {
    const timed = this.#totalMs;
    const place = timed === null ? `${done}/${this.#totalSteps}` : `${done}, ${clockTime(at)} of ${clockTime(timed)}`;
    if (this.#io.terminal !== null) {
      const format = '{bar} step {place} | {values} | {eta_formatted} left';
      const reached = timed === null ? done : Math.min(at, timed);
      const total = timed ?? this.#totalSteps;
      this.#show(this.#io.terminal, 'steps', { format, total, done: reached, place, values });
      return;
    }
    const now = this.#clock.now();
    if (now - this.#loggedAt < LINE_EVERY_MS && done !== this.#totalSteps) return;
    this.#loggedAt = now;
    this.#io.err(`step ${place} | ${values}`);
  }

  /**
   * Shows or updates the bar that counts `of`. If the present bar counts something else, it is
   * ended first.
   */
  #show(stream: NodeJS.WriteStream, of: Counted, { format, total, done, ...words }: Bar): void {
    if (of !== this.#barOf) this.stop();
    if (this.#bar !== null) return this.#bar.update(done, words);
    this.#barOf = of;
    this.#bar = new SingleBar({ stream, format, hideCursor: true, barsize: 24 });
    this.#bar.start(total, done, words);
  }
}

/** The state of a bar. Further fields are the words that its format contains. */
interface Bar extends Record<string, string | number> {
  format: string;
  total: number;
  done: number;
}

/** Returns a time as minutes and seconds. */
function clockTime(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}

function indented(text: string): string {
  return text.trim().replace(/^/gm, '    ');
}
