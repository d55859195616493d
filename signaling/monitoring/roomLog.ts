/**
 * Logs and counts events of rooms. A room's code admits people, so logs contain a keyed name
 * instead: there are few enough codes to try them all, so a plain hash would not hide them.
 */
import { createHmac, randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import type { Metrics } from './metrics.ts';

/**
 * Bytes of the key, which only this process knows, and hexadecimal digits of a room's name: 1000
 * rooms do not collide.
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

  /** The room's name in logs: constant while this process lives. */
  nameOf(code: string): string {
    return createHmac('sha256', this.#key).update(code).digest('hex').slice(0, NAME_DIGITS);
  }

  opened(code: string): void {
    this.#log.info({ room: this.nameOf(code) }, 'room opened');
  }

  forgotten(code: string): void {
    this.#log.info({ room: this.nameOf(code) }, 'room forgotten');
  }

  /** @param cause why the generation's members changed; one of few. */
  generationBegun(code: string, generation: number, worldSize: number, cause: string): void {
    this.#metrics.generationBegun(cause);
    this.#log.info({ room: this.nameOf(code), generation, worldSize, cause }, 'generation begun');
  }
}
