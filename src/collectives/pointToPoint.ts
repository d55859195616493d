/**
 * Messages between two ranks of a group, like torch.distributed's send and recv. Messages have
 * tags, and a rank can receive from any rank.
 *
 * A send is synchronous, as in gloo and MPI_Ssend: it ends once the receiver has posted its receive
 * and all data is sent. So a send fails at its deadline if the receiver posts no receive. The first
 * EAGER_BYTES of a message are sent ahead, before the receive is posted; the rest waits for the
 * receiver's READY. While MAX_AHEAD messages to a rank are in flight, only the header of a further
 * message is sent ahead. The header is enough for the receiver to match the message with a receive.
 * So a receiver can receive any number of messages in any order. Messages of one sender and tag are
 * received in the order of the sends.
 */
import {
  AlgorithmCode,
  createFrame,
  emptyFrameHeader,
  FRAME_HEADER_BYTES,
  FrameKind,
  OpCode,
  type FrameHeader,
} from '../protocol/frame.ts';
import type { FlightRecord } from '../protocol/flightRecording.ts';
import type { FlightRecorder } from '../telemetry/flightRecorder.ts';
import type { Clock } from '../util/clock.ts';
import { createDeferred } from '../util/deferred.ts';
import { MismatchError, ProtocolError, type ErrorContext } from '../util/errors.ts';
import { algorithmName, shapeText } from './diagnostics/descriptor.ts';
import { messageTransferText, createMessageDeadline, type MessageTransfer } from './diagnostics/messageDeadline.ts';
import type { OpDeadline, LinkActivity } from './diagnostics/opDeadline.ts';
import { copyElements, dtypeName, maxSegmentElements, tensorView, type Dtype, type TypedArray } from './dtypes.ts';
import type { ProcessGroupOptions } from './options.ts';
import type { UnexpectedMessageLimit } from './unexpectedMessages.ts';
import { Work } from './work.ts';

/**
 * Maximum number of bytes of a message that are sent ahead. This number and MAX_AHEAD limit the
 * bytes of unexpected messages on a receiver (`unexpectedMessages.ts`).
 */
const EAGER_BYTES = 64 * 1024;
/**
 * Maximum number of messages to one rank that send data ahead. Of further messages, only the header
 * is sent ahead.
 */
const MAX_AHEAD = 64;

interface PointToPointEnvironment extends Pick<ProcessGroupOptions, 'activityOf'> {
  group: number;
  rank: number;
  ranks: readonly number[];
  generation: number;
  segmentElements: number;
  clock: Clock;
  recorder: FlightRecorder;
  progress: LinkActivity;
  /** Returns the time at which the latest frame of a rank (global) arrived in the group. */
  heardAt: (rank: number) => number;
  /** Limit of messages whose receive is not posted. */
  unexpectedLimit: UnexpectedMessageLimit;
  /** Rejects once the group has failed. */
  transmit: (to: number, frame: ArrayBuffer, count?: (bytes: number) => void) => Promise<void>;
  fail: (error: Error) => void;
  /** Called when this rank cannot complete the message of `call`. */
  crash: (call: string, error: unknown) => void;
  failure: () => Error | null;
  context: () => ErrorContext;
}

interface MessageOf {
  dtype: Dtype;
  tag: number;
  timeoutMs: number;
  /** The tensor's shape, for error messages. */
  shape: readonly number[] | undefined;
}

interface Outgoing extends MessageTransfer {
  readonly tensor: TypedArray;
  readonly dtype: Dtype;
  readonly tag: number;
  readonly id: number;
  readonly work: Work<void>;
  readonly record: FlightRecord;
  /** Resolves when the tensor has its values; `null` if it already has them. */
  readonly input: Promise<unknown> | null;
  readonly ready: ReturnType<typeof createDeferred<void>>;
  readonly deadline: OpDeadline;
}

/** State of the sends to one rank. */
interface Sender {
  nextId: number;
  /** Resolves when the tensor of the latest send has its values; `null` if it already has them. */
  input: Promise<unknown> | null;
  /** Sends in flight. */
  readonly outgoing: Map<number, Outgoing>;
}

interface Posted {
  /** Rank, or `null` for any. */
  readonly src: number | null;
  readonly tensor: TypedArray;
  readonly dtype: Dtype;
  readonly tag: number;
  readonly work: Work<number>;
  readonly record: FlightRecord;
  readonly deadline: OpDeadline;
  incoming: Incoming | null;
}

interface Incoming extends MessageTransfer {
  readonly from: number;
  readonly header: FrameHeader;
  /** Segments that arrived before the receive was posted. */
  readonly frames: { offset: number; frame: ArrayBuffer }[];
  posted: Posted | null;
}

export class PointToPoint {
  readonly #env: PointToPointEnvironment;
  readonly #senders = new Map<number, Sender>();
  /** Messages in order of arrival. */
  readonly #incoming = new Map<string, Incoming>();
  /** Receives in the order in which they were posted. */
  readonly #posted = new Set<Posted>();

  constructor(env: PointToPointEnvironment) {
    this.#env = env;
  }

  /** @param options.after see {@link OpOptions.after}. */
  send(tensor: TypedArray, dst: number, options: MessageOf & { after: PromiseLike<unknown> | undefined }): Work<void> {
    const { dtype, tag, timeoutMs, shape, after } = options;
    const { ranks, rank, clock } = this.#env;
    const sender = this.#senders.get(dst) ?? { nextId: 0, input: null, outgoing: new Map<number, Outgoing>() };
    this.#senders.set(dst, sender);
    const id = sender.nextId++;
    const call = `send(${shapeText(shape) ?? tensor.length} ${dtype.name} to rank ${ranks[dst]}, tag ${tag})`;
    const work = new Work<void>(`${call} of rank ${ranks[rank]}`, clock);
    if (this.#hasFailed(work)) return work;
    const record = this.#record('send', id, dtype, tensor.length, call);
    const deadline = createMessageDeadline(this.#env, {
      timeoutMs,
      record,
      awaited: [ranks[dst]!],
      missing: [ranks[dst]!],
      state: () =>
        `Rank ${ranks[dst]} has not received the message: ${messageTransferText(outgoing, record, dtype, 'left', clock.now())}.`,
    });
    // A later send waits for the tensors of earlier sends, because messages keep their order.
    const input = after || sender.input ? Promise.all([sender.input, after]) : null;
    sender.input = input;
    const outgoing: Outgoing = {
      tensor,
      dtype,
      tag,
      id,
      work,
      record,
      input,
      deadline,
      ready: createDeferred(),
      moved: 0,
      movedAt: null,
    };
    sender.outgoing.set(id, outgoing);
    void this.#transmit(dst, sender, outgoing);
    return work;
  }

  /** Resolves with the sender's rank (global). */
  receiveInto(tensor: TypedArray, src: number | null, { dtype, tag, timeoutMs, shape }: MessageOf): Work<number> {
    const { ranks, rank, clock, heardAt } = this.#env;
    const from = src === null ? 'any rank' : `rank ${ranks[src]}`;
    const call = `recv(${shapeText(shape) ?? tensor.length} ${dtype.name} from ${from}, tag ${tag})`;
    const work = new Work<number>(`${call} of rank ${ranks[rank]}`, clock);
    if (this.#hasFailed(work)) return work;
    const record = this.#record('receive', null, dtype, tensor.length, call);
    const missing = src === null ? [] : [ranks[src]!];
    const deadline = createMessageDeadline(this.#env, {
      timeoutMs,
      record,
      awaited: src === null ? ranks.filter((other) => other !== ranks[rank]) : missing,
      missing,
      state: () =>
        posted.incoming
          ? `The message has not arrived completely: ${messageTransferText(posted.incoming, record, dtype, 'arrived', clock.now())}.`
          : 'No matching message has arrived.',
      // The rest of a message that has begun may wait behind other frames of its sender.
      heardAt: () => (posted.incoming ? heardAt(ranks[posted.incoming.from]!) : -Infinity),
    });
    const posted: Posted = { src, tensor, dtype, tag, work, record, deadline, incoming: null };
    this.#posted.add(posted);
    for (const incoming of this.#incoming.values()) {
      if (fits(posted, incoming)) {
        this.#match(posted, incoming);
        break;
      }
    }
    return work;
  }

  /** Receives a frame of a message. @throws ProtocolError */
  receive(header: FrameHeader, frame: ArrayBuffer, from: number): void {
    if (header.kind === FrameKind.READY) {
      return this.#senders.get(from)?.outgoing.get(header.seq)?.ready.resolve();
    }
    const key = `${from}/${header.seq}`;
    const known = this.#incoming.get(key);
    if (!known?.posted) this.#env.unexpectedLimit.add(frame, this.#env.ranks[from]!);
    const incoming = known ?? { from, header, frames: [], posted: null, moved: 0, movedAt: null };
    incoming.frames.push({ offset: header.offset, frame });
    if (known) return this.#absorb(incoming);
    this.#incoming.set(key, incoming);
    const posted = [...this.#posted].find((candidate) => fits(candidate, incoming));
    if (posted) this.#match(posted, incoming);
  }

  /** Rejects all messages in flight. */
  fail(error: Error): void {
    for (const sender of this.#senders.values()) {
      for (const outgoing of sender.outgoing.values()) {
        outgoing.ready.promise.catch(() => {});
        outgoing.ready.reject(error);
        this.#end(outgoing, 'failed');
        outgoing.work.fail(error);
      }
    }
    for (const incoming of this.#incoming.values()) if (!incoming.posted) this.#releaseFrames(incoming);
    for (const posted of [
      ...this.#posted,
      ...[...this.#incoming.values()].flatMap((message) => message.posted ?? []),
    ]) {
      this.#end(posted, 'failed');
      posted.work.fail(error);
    }
    this.#senders.clear();
    this.#incoming.clear();
    this.#posted.clear();
  }

  #hasFailed(work: Work<never> | Work<void> | Work<number>): boolean {
    const error = this.#env.failure();
    if (error) work.fail(error);
    return error !== null;
  }

  #record(kind: 'send' | 'receive', seq: number | null, dtype: Dtype, count: number, call: string): FlightRecord {
    const { recorder, group, clock } = this.#env;
    const op = kind === 'send' ? 'send' : 'recv';
    return recorder.add(
      { group, kind, seq, op, algorithm: algorithmName(AlgorithmCode.DIRECT), dtype: dtype.name, count, call },
      clock.now(),
    );
  }

  #moved(message: MessageTransfer, record: FlightRecord, elements: number): void {
    const now = this.#env.clock.now();
    message.moved += elements;
    message.movedAt = now;
    this.#env.progress.moved(record.scheduledAt, now);
  }

  #end({ deadline, record }: Pick<Posted, 'deadline' | 'record'>, state: 'completed' | 'failed'): void {
    deadline.cancel();
    record.state = state;
    record.endedAt = this.#env.clock.now();
  }

  async #transmit(dst: number, sender: Sender, outgoing: Outgoing): Promise<void> {
    const { tensor, dtype, tag, id, input, ready, record, work } = outgoing;
    const { clock, transmit, crash, failure } = this.#env;
    const countBytes = (bytes: number): void => {
      record.bytesSent += bytes;
      work.sent(bytes);
    };
    // The length comes from the record, because a tensor loses its length if the caller transfers
    // its buffer.
    const { count } = record;
    const segmentElements = Math.min(this.#env.segmentElements, maxSegmentElements(dtype));
    const whole = { ...this.#header(FrameKind.DATA, id), dtype: dtype.code, tag, count };
    const emit = (at: number, segment: TypedArray): Promise<void> => {
      const frame = createFrame({ ...whole, offset: at }, segment.byteLength);
      copyElements(new dtype.array(frame, FRAME_HEADER_BYTES), segment, 0);
      return transmit(dst, frame, countBytes);
    };
    try {
      if (input) await input;
      if (sender.input === input) sender.input = null;
      record.state = 'started';
      record.startedAt = clock.now();
      let eager = EAGER_BYTES;
      if (sender.outgoing.size > MAX_AHEAD && count > 0) {
        await emit(0, tensorView(tensor, 0, 0));
        await ready.promise;
      }
      // An empty tensor is sent, too, as one frame without data.
      for (let at = 0; at < count || at === 0; at += segmentElements) {
        const segment = tensorView(tensor, at, Math.min(at + segmentElements, count));
        if (segment.byteLength > eager) await ready.promise;
        eager -= segment.byteLength;
        await emit(at, segment);
        this.#moved(outgoing, record, segment.length);
      }
      await ready.promise;
    } catch (error) {
      return crash(record.call, error);
    }
    // If the group has failed, `fail` has already rejected the message.
    if (failure()) return;
    sender.outgoing.delete(id);
    this.#end(outgoing, 'completed');
    work.complete(undefined);
  }

  #header(kind: FrameKind, seq: number): FrameHeader {
    const { generation, group } = this.#env;
    return { ...emptyFrameHeader(kind, generation), op: OpCode.SEND, algorithm: AlgorithmCode.DIRECT, group, seq };
  }

  #match(posted: Posted, incoming: Incoming): void {
    const { ranks, rank, clock, context, transmit, fail, crash } = this.#env;
    const { header, from } = incoming;
    const { dtype, tag, record } = posted;
    this.#posted.delete(posted);
    incoming.posted = posted;
    posted.incoming = incoming;
    this.#releaseFrames(incoming);
    record.seq = header.seq;
    record.state = 'started';
    record.startedAt = clock.now();
    if (header.count !== record.count || header.dtype !== dtype.code) {
      return fail(
        new MismatchError(
          `Rank ${ranks[from]} sent ${header.count} ${dtypeName(header.dtype)} with tag ${tag}, but rank ${ranks[rank]} receives ${record.count} ${dtype.name}.`,
          context(),
        ),
      );
    }
    const ready = createFrame(this.#header(FrameKind.READY, header.seq), 0);
    transmit(from, ready).catch((error: unknown) => crash(record.call, error));
    this.#absorb(incoming);
  }

  #releaseFrames({ frames, from }: Incoming): void {
    const { unexpectedLimit, ranks } = this.#env;
    for (const { frame } of frames) unexpectedLimit.remove(frame, ranks[from]!);
  }

  /** Copies the received data of a message whose receive is posted. */
  #absorb(incoming: Incoming): void {
    const { posted, frames, header, from } = incoming;
    if (!posted) return;
    const { tensor, dtype, work, record } = posted;
    const { fail, crash, ranks, context } = this.#env;
    for (const { offset, frame } of frames.splice(0)) {
      const elements = (frame.byteLength - FRAME_HEADER_BYTES) / dtype.bytes;
      const fitsIn = Number.isInteger(elements) && offset === incoming.moved && offset + elements <= record.count;
      if (!fitsIn) {
        return fail(
          new ProtocolError(
            `Rank ${ranks[from]} sent ${elements} elements at offset ${offset} of a message of ${record.count} elements, of which ${incoming.moved} have arrived. These elements do not continue the message, or they exceed its length.`,
            context(),
          ),
        );
      }
      try {
        copyElements(tensor, new dtype.array(frame, FRAME_HEADER_BYTES), offset);
      } catch (error) {
        return crash(record.call, error);
      }
      this.#moved(incoming, record, elements);
    }
    if (incoming.moved < record.count) return;
    this.#incoming.delete(`${from}/${header.seq}`);
    this.#end(posted, 'completed');
    work.complete(this.#env.ranks[from]!);
  }
}

function fits({ src, tag }: Posted, { from, header, posted }: Incoming): boolean {
  return posted === null && (src === null || src === from) && tag === header.tag;
}
