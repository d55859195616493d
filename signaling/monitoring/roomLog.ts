/**
 * Logs and counts events of rooms. Whoever knows a room's code can join, so logs contain a name
 * that is a keyed hash of the code. A plain hash would not hide the codes, because all possible
 * codes can be tried.
 */
import { createHmac, randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import type { Metrics } from './metrics.ts';

/** Bytes of the key, which only this process knows. */
const KEY_BYTES = 32;
/**
 * Number of hexadecimal digits of a room's name. The names of 1000 rooms then do not collide.
 */
const NAME_DIGITS = 12;

export class RoomLog {
  readonly #key = randomBytes(KEY_BYTES);
  readonly #log: Logger;
  readonly #metrics: Metrics;

  constructor(log: Logger, metrics: Metrics) {
    this.#log = log;
    this.#metrics = metrics;
  }

  /** Returns the room's name in logs, which is constant while this process lives. */
  nameOf(code: string): string {
    return createHmac('sha256', this.#key).update(code).digest('hex').slice(0, NAME_DIGITS);
  }

  opened(code: string): void {
    this.#log.info({ room: this.nameOf(code) }, 'room opened');
  }

  forgotten(code: string): void {
    this.#log.info({ room: this.nameOf(code) }, 'room forgotten');
  }

  /** @param cause why the generation's members changed; there are only a few different causes. */
  generationBegun(code: string, generation: number, worldSize: number, cause: string): void {
    this.#metrics.generationBegun(cause);
    this.#log.info({ room: this.nameOf(code), generation, worldSize, cause }, 'generation begun');
  }
}
