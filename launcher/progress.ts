/** How far the run is, on stderr: a bar where a person looks on, else a line now and then. */
import { SingleBar } from 'cli-progress';
import type { EngineEvent } from '../src/protocol/events.ts';
import type { Clock } from '../src/util/clock.ts';
import type { Io } from './io.ts';

/** Milliseconds between lines in a log. */
const LINE_EVERY_MS = 5_000;

export class Progress {
  readonly #io: Io;
  readonly #clock: Clock;
  #bar: SingleBar | null = null;
  #totalSteps = 0;
  #saidAt = Number.NEGATIVE_INFINITY;
  #accuracy = '';

  constructor(io: Io, clock: Clock) {
    this.#io = io;
    this.#clock = clock;
  }

  /** One tab's events: all ranks are in the same step. */
  on(event: EngineEvent): void {
    if (event.type === 'device') {
      const { backend, adapter } = event.device;
      this.note(event.note === null ? `${backend} on ${adapter}` : `${backend} on ${adapter}: ${event.note}`);
    } else if (event.type === 'warmup') {
      this.note(event.message);
    } else if (event.type === 'model') {
      this.#totalSteps = event.totalSteps;
    } else if (event.type === 'evaluation' && event.accuracy !== null) {
      this.#accuracy = ` | accuracy ${(event.accuracy * 100).toFixed(1)} %`;
    } else if (event.type === 'step') {
      // Steps count from 0.
      this.#step(event.step + 1, `loss ${event.loss.toFixed(4)}${this.#accuracy}`);
    }
  }

  /** A line of its own, above the bar. */
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

  #step(done: number, values: string): void {
    if (this.#io.terminal !== null) {
      this.#bar ??= this.#startBar(this.#io.terminal);
      this.#bar.update(done, { values });
      return;
    }
    const now = this.#clock.now();
    if (now - this.#saidAt < LINE_EVERY_MS && done !== this.#totalSteps) return;
    this.#saidAt = now;
    this.#io.err(`step ${done}/${this.#totalSteps} | ${values}`);
  }

  #startBar(stream: NodeJS.WriteStream): SingleBar {
    const format = '{bar} step {value}/{total} | {values} | {eta_formatted} left';
    const bar = new SingleBar({ stream, format, hideCursor: true, barsize: 24 });
    bar.start(this.#totalSteps, 0, { values: '' });
    return bar;
  }
}
