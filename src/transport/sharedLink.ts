/**
 * A link that outlasts a membership epoch: one link to a member, and a view of it for each epoch that uses it. The next epoch
 * greets over its view while the last one still finishes over its own.
 */
import { epochOf } from '../protocol/frame.ts';
import { asError, ProtocolError, UsageError } from '../util/errors.ts';
import type { Link, LinkDescription, LinkState } from './link.ts';
import { LinkEnd } from './linkEnd.ts';

/**
 * Most bytes kept of epochs that this rank has not come to. Before it has heard this rank's greeting a member sends nothing but
 * its own, of some hundred bytes: this is enough for hundreds of epochs that come and go meanwhile.
 */
export const MAX_EARLY_BYTES = 64 * 1024;

export class SharedLink {
  readonly #link: Link;
  /** Open ones, by epoch. */
  readonly #views = new Map<number, EpochView>();
  /** Frames of epochs later than any view's. */
  #early: { epoch: number; frame: ArrayBuffer }[] = [];
  /** Of all views there have been. */
  #latestEpoch = -1;
  #onclose: ((error: Error | null) => void) | null = null;
  #closed: { error: Error | null } | null = null;

  /** @param link an open link to one member, taken over. */
  constructor(link: Link) {
    this.#link = link;
    link.onframe = (frame) => this.#receive(frame);
    link.onclose = (error) => this.#end(error);
  }

  get state(): LinkState {
    return this.#closed ? 'closed' : 'open';
  }

  get onclose(): ((error: Error | null) => void) | null {
    return this.#onclose;
  }

  /** For the owner: called once when the link closes, before the views hear of it; at once if set late. */
  set onclose(handler: ((error: Error | null) => void) | null) {
    this.#onclose = handler;
    if (handler && this.#closed) handler(this.#closed.error);
  }

  /**
   * The link as an epoch has it: sends frames as they are, and gets those of its epoch only, also those that came before the view
   * was made. Closing it closes nothing else, and the other end does not hear of it; frames of its epoch are dropped from then on.
   *
   * @param epoch later than that of all views before.
   * @throws UsageError where it is not: what an epoch missed has been dropped.
   */
  view(epoch: number): Link {
    if (epoch <= this.#latestEpoch) {
      throw new UsageError(`Views are made in the order of epochs: epoch ${epoch} cannot follow ${this.#latestEpoch}.`);
    }
    this.#latestEpoch = epoch;
    const view = new EpochView(this.#link, () => this.#views.delete(epoch));
    this.#views.set(epoch, view);
    const early = this.#early;
    this.#early = early.filter((kept) => kept.epoch > epoch);
    for (const kept of early) if (kept.epoch === epoch) view.deliver(kept.frame);
    if (this.#closed) view.end(this.#closed.error);
    return view;
  }

  /** Closes the link, on both sides, and with it all views. */
  close(): void {
    this.#end(null);
  }

  #receive(frame: ArrayBuffer): void {
    let epoch: number;
    try {
      epoch = epochOf(frame);
    } catch (error) {
      return this.#end(asError(error));
    }
    const view = this.#views.get(epoch);
    if (view) view.deliver(frame);
    else if (epoch > this.#latestEpoch) this.#keep(epoch, frame);
  }

  #keep(epoch: number, frame: ArrayBuffer): void {
    this.#early.push({ epoch, frame });
    const bytes = this.#early.reduce((sum, kept) => sum + kept.frame.byteLength, 0);
    if (bytes <= MAX_EARLY_BYTES) return;
    this.#end(
      new ProtocolError(
        `A member sent more than ${MAX_EARLY_BYTES / 1024} KiB of epoch ${epoch} and others that this rank has not come to.`,
        { epoch },
      ),
    );
  }

  #end(error: Error | null): void {
    if (this.#closed) return;
    this.#closed = { error };
    this.#link.close();
    this.#onclose?.(error);
    for (const view of [...this.#views.values()]) view.end(error);
  }
}

class EpochView extends LinkEnd {
  readonly #link: Link;
  readonly #detach: () => void;

  constructor(link: Link, detach: () => void) {
    super();
    this.#link = link;
    this.#detach = detach;
  }

  /** A frame of the epoch has come. */
  deliver(frame: ArrayBuffer): void {
    this.arrived(frame);
  }

  /** The shared link is gone. */
  end(error: Error | null): void {
    this.closed(error);
  }

  describe(): Promise<LinkDescription> {
    return this.#link.describe();
  }

  protected dispatch(frame: ArrayBuffer): Promise<void> {
    return this.#link.send(frame);
  }

  protected release(): void {
    this.#detach();
  }
}
