/**
 * Probes after the last message of a transfer. SCTP repeats a lost packet immediately if three
 * later packets arrive (https://www.rfc-editor.org/rfc/rfc9260#section-7.2.4). No packets follow
 * the last packet, so SCTP would notice the loss of that packet only after a timeout, 400 ms or
 * more in Chromium. Three empty messages serve as later packets.
 */
import type { Clock } from '../util/clock.ts';
import type { FrameChannel } from './frameChannel.ts';

const PROBES = 3;
/**
 * Milliseconds between two probes, and the maximum time from the last message to the first probe.
 * Messages that are sent at the same time would share a packet.
 */
const PROBE_MS = 10;

export class TailLossProbes {
  readonly #channel: Pick<FrameChannel, 'send' | 'bufferedAmount' | 'readyState'>;
  readonly #clock: Clock;
  #left = 0;
  #cancel: (() => void) | null = null;

  constructor(channel: Pick<FrameChannel, 'send' | 'bufferedAmount' | 'readyState'>, clock: Clock) {
    this.#channel = channel;
    this.#clock = clock;
  }

  /** Call this after each message. */
  sent(): void {
    this.#left = PROBES;
    this.#cancel ??= this.#clock.after(PROBE_MS, this.#probe);
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = null;
  }

  readonly #probe = (): void => {
    this.#cancel = null;
    if (this.#channel.readyState !== 'open') return;
    // While messages wait in the channel, later packets will follow.
    if (this.#channel.bufferedAmount === 0) {
      this.#channel.send(new ArrayBuffer(0));
      this.#left -= 1;
    }
    if (this.#left > 0) this.#cancel = this.#clock.after(PROBE_MS, this.#probe);
  };
}
