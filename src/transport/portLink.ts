/**
 * A link over a MessagePort: between threads of a page, or two tabs of one browser. Frames are
 * transferred, not copied. Ports have neither backpressure nor a reliable close event, so
 * additional messages provide both.
 */
import * as v from 'valibot';
import { LINK_ROUTES } from '../protocol/runEvents.ts';
import { PeerGoneError, ProtocolError } from '../util/errors.ts';
import { createDeferred, type Deferred } from '../util/deferred.ts';
import { BaseLink } from './linkEnd.ts';
import { UNKNOWN_LINK_DESCRIPTION, type Link, type LinkDescription } from './link.ts';

/** Messages that are not frames. Frames are sent as plain ArrayBuffers. */
const PortMessage = v.variant('type', [
  /** The other side has processed this many bytes of frames. */
  v.strictObject({ type: v.literal('taken'), bytes: v.number() }),
  v.strictObject({ type: v.literal('closed'), message: v.nullable(v.string()) }),
  /** See {@link Link.onstall}. */
  v.strictObject({ type: v.literal('stall'), isStalled: v.boolean() }),
  /** See {@link Link.discard}. */
  v.strictObject({ type: v.literal('discard'), generation: v.number() }),
  v.strictObject({ type: v.literal('describe') }),
  v.strictObject({
    type: v.literal('description'),
    description: v.strictObject({
      route: v.picklist(LINK_ROUTES),
      roundTripMs: v.nullable(v.number()),
      connections: v.number(),
    }),
  }),
]);
type PortMessage = v.InferOutput<typeof PortMessage>;

/**
 * Number of bytes between two `taken` messages. With one `taken` message per frame, the port would
 * carry twice as many messages.
 */
const TAKEN_STEP_BYTES = 256 * 1024;

export class PortLink extends BaseLink {
  readonly #port: MessagePort;
  readonly #describing: Deferred<LinkDescription>[] = [];
  #takenBytes = 0;

  constructor(port: MessagePort) {
    super();
    this.#port = port;
    port.onmessage = ({ data }: MessageEvent<unknown>) => this.#receive(data);
  }

  protected transmit(frame: ArrayBuffer): void {
    this.#port.postMessage(frame, [frame]);
  }

  protected release(): void {
    this.#post({ type: 'closed', message: null });
    this.#port.close();
    for (const waiter of this.#describing.splice(0)) waiter.resolve(UNKNOWN_LINK_DESCRIPTION);
  }

  discard(generation: number): void {
    this.#post({ type: 'discard', generation });
  }

  describe(): Promise<LinkDescription> {
    if (this.state === 'closed') return Promise.resolve(UNKNOWN_LINK_DESCRIPTION);
    const waiter = createDeferred<LinkDescription>();
    this.#describing.push(waiter);
    this.#post({ type: 'describe' });
    return waiter.promise;
  }

  #post(message: PortMessage): void {
    this.#port.postMessage(message, []);
  }

  #receive(data: unknown): void {
    if (data instanceof ArrayBuffer) {
      this.#takenBytes += data.byteLength;
      this.arrived(data);
      if (this.#takenBytes >= TAKEN_STEP_BYTES && this.state === 'open') {
        this.#post({ type: 'taken', bytes: this.#takenBytes });
        this.#takenBytes = 0;
      }
      return;
    }
    const parsed = v.safeParse(PortMessage, data);
    if (!parsed.success) return this.closed(new ProtocolError('The other end of a port sent an unknown message.'));
    const message = parsed.output;
    switch (message.type) {
      case 'taken':
        return this.left(message.bytes);
      case 'closed':
        return this.closed(message.message === null ? null : new PeerGoneError(message.message));
      case 'stall':
        return this.onstall?.(message.isStalled);
      case 'discard':
        // All frames of the other end have arrived before this message.
        return;
      case 'describe':
        return this.#post({ type: 'description', description: { route: 'memory', roundTripMs: null, connections: 0 } });
      case 'description':
        return this.#describing.shift()?.resolve(message.description);
      default:
        message satisfies never;
    }
  }
}

/**
 * Creates a link over one end of a MessageChannel. The other end must also be a link, or a {@link
 * bridgeLink}.
 */
export function createPortLink(port: MessagePort): Link {
  return new PortLink(port);
}

/**
 * Connects `link` to `port`, so that the thread with the port's other end can use the link. If one
 * of the two closes, the other one is closed, too, and `onclose` is called.
 */
export function bridgeLink(link: Link, port: MessagePort, onclose = (): void => {}): void {
  const post = (message: PortMessage) => port.postMessage(message, []);
  let takenBytes = 0;
  const forward = async (frame: ArrayBuffer): Promise<void> => {
    const bytes = frame.byteLength;
    await link.send(frame);
    takenBytes += bytes;
    if (takenBytes < TAKEN_STEP_BYTES) return;
    post({ type: 'taken', bytes: takenBytes });
    takenBytes = 0;
  };
  port.onmessage = ({ data }: MessageEvent<unknown>) => {
    if (data instanceof ArrayBuffer) {
      // A frame can be lost only if the link closes; `onclose` below reports this.
      forward(data).catch(() => {});
      return;
    }
    const message = v.parse(PortMessage, data);
    if (message.type === 'closed') link.close();
    else if (message.type === 'discard') link.discard?.(message.generation);
    else if (message.type === 'describe') {
      void link.describe().then((description) => post({ type: 'description', description }));
    }
  };
  link.onframe = (frame) => port.postMessage(frame, [frame]);
  link.onstall = (isStalled) => post({ type: 'stall', isStalled });
  link.onclose = (error) => {
    post({ type: 'closed', message: error?.message ?? null });
    port.close();
    onclose();
  };
}
