/**
 * A link that outlives a membership generation. There is one link to a member, and each generation
 * that uses the link has a view of it. So the next generation can perform its handshake over its
 * own view while the previous generation is still finishing.
 */
import { generationOfFrame } from '../protocol/frame.ts';
import { asError, ProtocolError, UsageError } from '../util/errors.ts';
import type { Link, LinkDescription, LinkState } from './link.ts';
import { LinkEnd } from './linkEnd.ts';
import type { LinkTraffic } from '../util/activity.ts';

/**
 * Maximum number of stored bytes of generations that this rank has not reached. Until a member has
 * received this rank's HELLO, the member only sends its own HELLO, which is about a hundred bytes.
 * So this number is enough for hundreds of short-lived generations.
 */
export const MAX_EARLY_BYTES = 64 * 1024;

export class LinkAcrossGenerations {
  readonly #link: Link;
  readonly #views = new Map<number, GenerationView>();
  /** Frames of generations for which no view exists yet. */
  #early: { generation: number; frame: ArrayBuffer }[] = [];
  /** The latest generation of all views so far. */
  #latestGeneration = -1;
  #onclose: ((error: Error | null) => void) | null = null;
  #closed: { error: Error | null } | null = null;
  #isStalled = false;

  /** @param link an open link to one member; this object takes ownership. */
  constructor(link: Link) {
    this.#link = link;
    link.onframe = (frame) => this.#receive(frame);
    link.onclose = (error) => this.#end(error);
    link.onstall = (isStalled) => {
      this.#isStalled = isStalled;
      // One generation acts: the latest.
      const views = [...this.#views.values()];
      for (const view of isStalled ? views.slice(-1) : views) view.onstall?.(isStalled);
    };
  }

  get state(): LinkState {
    return this.#closed ? 'closed' : 'open';
  }

  /** Whether nothing arrives over the link; see {@link Link.onstall}. */
  get isStalled(): boolean {
    return this.#isStalled;
  }

  /** See {@link Link.answers}. */
  async answers(ms: number): Promise<boolean> {
    return (await this.#link.answers?.(ms)) ?? true;
  }

  /** Bytes of all generations. */
  get traffic(): LinkTraffic {
    const { unsentBytes: unsent = 0, counters } = this.#link;
    return { unsent, sent: counters.bytesSent - unsent, received: counters.bytesReceived };
  }

  get onclose(): ((error: Error | null) => void) | null {
    return this.#onclose;
  }

  /**
   * The handler of the link's owner. It is called once when the link closes, before the views'
   * handlers. A handler that is set afterwards is called immediately.
   */
  set onclose(handler: ((error: Error | null) => void) | null) {
    this.#onclose = handler;
    if (handler && this.#closed) handler(this.#closed.error);
  }

  /**
   * Creates a generation's view of the link. The view sends frames unchanged and receives only
   * frames of its generation, including frames that arrived before the view was created. Closing
   * the view does not close the link and does not notify the other end; frames of its generation
   * are then dropped, including frames that are still in the link's queue.
   *
   * @param generation must come after the generations of all previous views.
   * @throws UsageError if `generation` does not come after them, because frames of `generation` may
   * have been dropped.
   */
  view(generation: number): Link {
    if (generation <= this.#latestGeneration) {
      throw new UsageError(
        `Views must be created in the order of generations: generation ${generation} cannot follow ${this.#latestGeneration}.`,
      );
    }
    this.#latestGeneration = generation;
    const view = new GenerationView(this.#link, () => {
      this.#views.delete(generation);
      // The handshake of the next generation would wait behind these frames.
      this.#link.discard?.(generation);
    });
    this.#views.set(generation, view);
    const early = this.#early;
    this.#early = early.filter((kept) => kept.generation > generation);
    for (const kept of early) if (kept.generation === generation) view.deliver(kept.frame);
    if (this.#closed) view.end(this.#closed.error);
    return view;
  }

  /**
   * Closes the link on both sides, and all views.
   *
   * @param error why the link is of no use; `null` if it is no longer needed.
   */
  close(error: Error | null = null): void {
    this.#end(error);
  }

  #receive(frame: ArrayBuffer): void {
    let generation: number;
    try {
      generation = generationOfFrame(frame);
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
        `A member sent more than ${MAX_EARLY_BYTES / 1024} KiB of generation ${generation} and other generations that this rank has not reached.`,
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

  deliver(frame: ArrayBuffer): void {
    this.arrived(frame);
  }

  /** Reports that the shared link is closed. */
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
