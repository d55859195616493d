/**
 * What the log and the metrics say of rooms. A room's code is what lets people in, so logs have a
 * name in its place that nobody can turn back: codes are few enough to try them all, so a hash
 * alone would not do.
 */
import { createHmac, randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import type { Metrics } from './metrics.ts';

/**
 * Bytes of the key that only this process knows, and hexadecimal digits of a room's name: of 1000
 * rooms none collide.
 */
const KEY_BYTES = 32;
const NAME_DIGITS = 12;

export class RoomLog {
  readonly #key = randomBytes(KEY_BYTES);
  readonly #log: Logger;
  readonly #metrics: Metrics;

  constructor(log: Logger, metrics: Metrics) {
    this.#log = log;
    this.#metrics = metrics;
  }

  /** The room's name in logs: the same as long as this process lives. */
  nameOf(code: string): string {
    return createHmac('sha256', this.#key).update(code).digest('hex').slice(0, NAME_DIGITS);
  }

  opened(code: string): void {
    this.#log.info({ room: this.nameOf(code) }, 'room opened');
  }

  forgotten(code: string): void {
    this.#log.info({ room: this.nameOf(code) }, 'room forgotten');
  }

  /** @param cause what made the members of the generation others than before; one of few. */
  generationBegun(code: string, generation: number, worldSize: number, cause: string): void {
    this.#metrics.generationBegun(cause);
    this.#log.info({ room: this.nameOf(code), generation, worldSize, cause }, 'generation begun');
  }
}
