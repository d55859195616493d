/**
 * The end of a link through the server whose WebSocket is in another process. A link uses it like a
 * WebSocket. What it sends may wait in {@link Mail}, and what arrives is passed on at once. A
 * message counts as taken when the WebSocket of the other process has taken it. If too many bytes
 * are not taken, the link stops reading from its source. This bounds the bytes on their way in both
 * processes and in Redis.
 */
import { EventEmitter } from 'node:events';
import type { RemoteSocket } from '../links/serverLinks.ts';
import type { Letter } from './envelope.ts';

/** Sends letters to the other process. */
export interface Mail {
  post(letter: Letter): void;
  /**
   * Sends a letter of a link after all earlier ones, when the other process has received enough of
   * them. `onsent` is called when it is sent.
   */
  forward(letter: Letter, frame: Buffer | null, onsent: () => void): void;
  /** Drops the unsent messages to an end, and calls their `onsent`. */
  drop(connection: number): void;
  /** Forgets the end of a link that is over. */
  forget(end: RemoteEnd): void;
}

export class RemoteEnd extends EventEmitter implements RemoteSocket {
  isPaused = false;
  onend: RemoteSocket['onend'] = () => {};
  /** The number of the local end. */
  readonly own: number;
  /** The number of the end in the other process. */
  readonly other: number;
  readonly #mail: Mail;
  /** Callbacks of messages that the other end has not taken, the earliest first. */
  readonly #untaken: (() => void)[] = [];
  /** Number of these messages that are not sent, which are the latest ones. */
  #unsent = 0;
  /** Number of messages that the local end took while this end was paused. */
  #held = 0;
  #isOver = false;

  constructor(own: number, other: number, mail: Mail) {
    super();
    this.own = own;
    this.other = other;
    this.#mail = mail;
  }

  send(data: Buffer, ontaken: () => void): void {
    this.#untaken.push(ontaken);
    this.#unsent++;
    this.#mail.forward({ type: 'frame', connection: this.other }, data, () => {
      this.#unsent--;
      // After its end, a link takes nothing, so the message counts as taken.
      if (this.#isOver) this.taken(1);
    });
  }

  /** The other end has taken messages of the local one. */
  taken(messages: number): void {
    for (const ontaken of this.#untaken.splice(0, messages)) ontaken();
  }

  /** The local end has taken a message of the other one, whose process may then send more. */
  onTaken(): void {
    if (this.isPaused) this.#held++;
    else this.#mail.post({ type: 'taken', connection: this.other, messages: 1 });
  }

  /** Withholds acknowledgements, so the other process stops when the link has 1 MiB on its way. */
  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
    if (this.#held > 0 && !this.#isOver) {
      this.#mail.post({ type: 'taken', connection: this.other, messages: this.#held });
    }
    this.#held = 0;
  }

  /** The other process checks its end. If that process is gone, the link ends. */
  ping(): void {
    this.emit('pong');
  }

  close(code: number, why: string): void {
    if (this.#isOver) return;
    this.#forget();
    this.#mail.forward({ type: 'unlink', connection: this.other, code, why }, null, () => {});
  }

  terminate(): void {
    this.#mail.drop(this.other);
  }

  /** The other process has ended the link, or cannot be reached. */
  end(code: number, why: string): void {
    if (this.#isOver) return;
    this.#forget();
    this.onend(code, why);
  }

  #forget(): void {
    this.#isOver = true;
    this.#mail.forget(this);
    this.taken(this.#untaken.length - this.#unsent);
  }
}
