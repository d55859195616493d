/**
 * A link that outlasts a membership generation: one link to a member, and a view of it for each
 * generation that uses it. The next generation greets over its view while the last one still
 * finishes over its own.
 */
import { generationOf } from '../protocol/frame.ts';
import { asError, ProtocolError, UsageError } from '../util/errors.ts';
import type { Link, LinkDescription, LinkState } from './link.ts';
import { LinkEnd } from './linkEnd.ts';

/**
 * Most bytes kept of generations that this rank has not come to. Before it has heard this rank's
 * greeting a member sends nothing but its own, of some hundred bytes: this is enough for hundreds
 * of generations that come and go meanwhile.
 */
export const MAX_EARLY_BYTES = 64 * 1024;

export class SharedLink {
  readonly #link: Link;
  /** Open ones, by generation. */
  readonly #views = new Map<number, GenerationView>();
  /** Frames of generations later than any view's. */
  #early: { generation: number; frame: ArrayBuffer }[] = [];
  /** Of all views there have been. */
  #latestGeneration = -1;
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

  /**
   * For the owner: called once when the link closes, before the views hear of it; at once if set
   * late.
   */
  set onclose(handler: ((error: Error | null) => void) | null) {
    this.#onclose = handler;
    if (handler && this.#closed) handler(this.#closed.error);
  }

  /**
   * The link as a generation has it: sends frames as they are, and gets those of its generation
   * only, also those that came before the view was made. Closing it closes nothing else, and the
   * other end does not hear of it; frames of its generation are dropped from then on.
   *
   * @param generation later than that of all views before.
   * @throws UsageError where it is not: what a generation missed has been dropped.
   */
  view(generation: number): Link {
    if (generation <= this.#latestGeneration) {
      throw new UsageError(
        `Views are made in the order of generations: generation ${generation} cannot follow ${this.#latestGeneration}.`,
      );
    }
    this.#latestGeneration = generation;
    const view = new GenerationView(this.#link, () => this.#views.delete(generation));
    this.#views.set(generation, view);
    const early = this.#early;
    this.#early = early.filter((kept) => kept.generation > generation);
    for (const kept of early) if (kept.generation === generation) view.deliver(kept.frame);
    if (this.#closed) view.end(this.#closed.error);
    return view;
  }

  /** Closes the link, on both sides, and with it all views. */
  close(): void {
    this.#end(null);
  }

  #receive(frame: ArrayBuffer): void {
    let generation: number;
    try {
      generation = generationOf(frame);
    } catch (error) {
      return this.#end(asError(error));
    }
    const view = this.#views.get(generation);
    if (view) view.deliver(frame);
    else if (generation > this.#latestGeneration) this.#keep(generation, frame);
  }

  #keep(generation: number, frame: ArrayBuffer): void {
    this.#early.push({ generation, frame });
    const bytes = this.#early.reduce((sum, kept) => sum + kept.frame.byteLength, 0);
    if (bytes <= MAX_EARLY_BYTES) return;
    this.#end(
      new ProtocolError(
        `A member sent more than ${MAX_EARLY_BYTES / 1024} KiB of generation ${generation} and others that this rank has not come to.`,
        { generation },
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

class GenerationView extends LinkEnd {
  readonly #link: Link;
  readonly #detach: () => void;

  constructor(link: Link, detach: () => void) {
    super();
    this.#link = link;
    this.#detach = detach;
  }

  /** A frame of the generation has come. */
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
