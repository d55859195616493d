/**
 * One direction of a line: packets leave one after the other at a limited rate, some are lost, and
 * the others arrive later. Their order does not change.
 */
import type { Clock } from '../../src/util/clock.ts';
import type { Rng } from '../../src/util/rng.ts';

export interface OneWayOptions {
  /** Bits per millisecond, which is the same as kbit/s. */
  kbitPerSecond: number;
  delayMs: number;
  /** Largest additional delay; each packet is delayed by a random part of it. */
  jitterMs: number;
  /** Probability that a packet is lost. */
  loss: number;
}

/**
 * Longest queue of the line, given as the milliseconds that sending it takes. A packet that finds a
 * longer queue is lost. Routers at home have queues of about this length.
 */
const QUEUE_MS = 100;
const BITS = 8;
/**
 * A timer delivers at most this number of packets together, or more over a fast line
 * ({@link BURST_MS}). The sockets of coturn and Chromium buffer only some fifty packets, and the
 * kernel drops the rest.
 */
const BURST = 16;
/**
 * Timers are at least a millisecond apart. A timer of a fast line delivers up to as many packets as
 * the line carries in this number of milliseconds, so that the line catches up after a late timer.
 */
const BURST_MS = 2;
/** Size of the packets of a transfer. */
const PACKET_BYTES = 1250;

export class OneWay {
  readonly #options: OneWayOptions;
  readonly #clock: Clock;
  readonly #rng: Rng;
  /** Largest number of packets that a timer delivers together. */
  readonly #burst: number;
  readonly #packets: { at: number; deliver: () => void }[] = [];
  /** When the line has sent all packets of its queue. */
  #freeAt = 0;
  #arrivesAt = 0;
  #cancel: (() => void) | null = null;
  /** Numbers of delivered packets, of lost packets, and of packets that found a full queue. */
  readonly counts = { packets: 0, lost: 0, dropped: 0 };

  constructor(options: OneWayOptions, clock: Clock, rng: Rng) {
    this.#options = options;
    this.#burst = Math.max(BURST, Math.ceil((BURST_MS * options.kbitPerSecond) / (PACKET_BYTES * BITS)));
    this.#clock = clock;
    this.#rng = rng;
  }

  /** Sends a packet of `bytes` bytes. Calls `deliver` when it arrives, or never. */
  send(bytes: number, deliver: () => void): void {
    const { kbitPerSecond, delayMs, jitterMs, loss } = this.#options;
    const now = this.#clock.now();
    const startsAt = Math.max(now, this.#freeAt);
    // On a busy machine, timers may be too late for the line's rate.
    const overdueMs = now - (this.#packets[0]?.at ?? now);
    if (Math.max(startsAt - now, overdueMs) > QUEUE_MS) {
      this.counts.dropped += 1;
      return;
    }
    this.#freeAt = startsAt + (bytes * BITS) / kbitPerSecond;
    if (this.#rng.next() < loss) {
      this.counts.lost += 1;
      return;
    }
    this.counts.packets += 1;
    const arrivesAt = this.#freeAt + delayMs + jitterMs * this.#rng.next();
    this.#arrivesAt = Math.max(this.#arrivesAt, arrivesAt);
    this.#packets.push({ at: this.#arrivesAt, deliver });
    if (this.#cancel === null) this.#wait();
  }

  close(): void {
    this.#cancel?.();
    this.#packets.length = 0;
  }

  #wait(): void {
    const first = this.#packets[0];
    this.#cancel = first ? this.#clock.after(Math.max(0, first.at - this.#clock.now()), () => this.#deliver()) : null;
  }

  #deliver(): void {
    const now = this.#clock.now();
    for (let i = 0; i < this.#burst && this.#packets.length > 0 && this.#packets[0]!.at <= now; i++) {
      this.#packets.shift()!.deliver();
    }
    this.#wait();
  }
}
