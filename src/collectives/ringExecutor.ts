/**
 * Runs ring ops over the links to both neighbours: numbers them, routes frames to them, bounds what may be sent ahead,
 * holds their deadlines, and fails all of them together.
 *
 * Flow control is MPI's eager and rendezvous: an op's first EAGER_BYTES may be sent before the right neighbour has issued
 * the op (it parks them); the rest waits for its READY. Readiness depends only on the order ops are issued in, so this
 * cannot deadlock, and a fast rank cannot fill a slow one's memory.
 *
 * A failed op fails its group, as in NCCL: neighbours can no longer agree on what comes next. The reason goes round the
 * ring in both directions, so every rank learns it at once and not by its own deadline.
 */
import * as v from 'valibot';
import {
  createFrame,
  decodeJsonFrame,
  emptyHeader,
  encodeJsonFrame,
  FrameKind,
  readHeader,
  type FrameHeader,
} from '../protocol/frame.ts';
import type { Link } from '../transport/link.ts';
import type { Clock } from '../util/clock.ts';
import {
  asError,
  MismatchError,
  PeerGoneError,
  PeergradError,
  ProtocolError,
  TimeoutError,
  type ErrorContext,
} from '../util/errors.ts';
import { describeOp, type OpEnvironment, type RingOp } from './ringOp.ts';
import { modulo } from './ringPlan.ts';
import { Work } from './work.ts';

/** What an op may send before its receiver has issued it: small ops never wait for a round trip. */
export const EAGER_BYTES = 256 * 1024;
/** Ops in flight at once; further ones wait here. With EAGER_BYTES it bounds what a neighbour may have to park. */
export const MAX_OPS_IN_FLIGHT = 64;

export interface RingExecutorOptions {
  rank: number;
  worldSize: number;
  epoch: number;
  left: Link | null;
  right: Link | null;
  segmentElements: number;
  clock: Clock;
  onfailure: ((error: Error) => void) | undefined;
}

interface Issue<T> {
  /** Elements of the op's whole tensor: the same on every rank, so all agree whether it needs a READY. */
  count: number;
  bucket: number;
  timeoutMs: number;
  create: (env: OpEnvironment) => RingOp;
  result: () => T;
}

interface Flight {
  readonly seq: number;
  readonly op: RingOp;
  readonly needsReady: boolean;
  /** Settles the op's work once it is done. */
  readonly finish: () => void;
  readonly fail: (error: Error) => void;
  readonly sent: (bytes: number) => void;
  readonly cancelDeadline: () => void;
  isLaunched: boolean;
  eagerLeft: number;
  /** Frames that wait for the right neighbour's READY. */
  held: ArrayBuffer[] | null;
}

const AbortReason = v.strictObject({
  name: v.string(),
  message: v.string(),
  /** Where it happened, as far as the sender's error knows. */
  op: v.optional(v.string()),
  seq: v.optional(v.number()),
  missing: v.optional(v.array(v.number())),
});

/** Longest reason passed on: it has to fit a frame. */
const MAX_REASON_LENGTH = 1000;

/** Errors that an ABORT carries to other ranks as what they are; any other arrives as PeerGoneError. */
const ABORT_ERRORS: Record<string, new (message: string, context?: ErrorContext) => PeergradError> = {
  MismatchError,
  TimeoutError,
  ProtocolError,
};

export class RingExecutor {
  readonly #options: RingExecutorOptions;
  readonly #leftRank: number;
  readonly #rightRank: number;
  readonly #flights = new Map<number, Flight>();
  /** Frames of ops that this rank has not issued yet, by sequence number. */
  readonly #parked = new Map<number, ArrayBuffer[]>();
  /** READYs of ops that this rank has not issued yet. */
  readonly #readyAhead = new Set<number>();
  #nextSeq = 0;
  #launched = 0;
  #bytesSent = 0;
  #failure: Error | null = null;

  constructor(options: RingExecutorOptions) {
    this.#options = options;
    const { rank, worldSize, left, right } = options;
    this.#leftRank = modulo(rank - 1, worldSize);
    this.#rightRank = modulo(rank + 1, worldSize);
    if (left) this.#attach(left, this.#leftRank);
    if (right && right !== left) this.#attach(right, this.#rightRank);
  }

  get bytesSent(): number {
    return this.#bytesSent;
  }

  /** The context every error of this rank carries. */
  get #context(): ErrorContext {
    const { rank, worldSize, epoch } = this.#options;
    return { rank, worldSize, epoch };
  }

  issue<T>({ count, bucket, timeoutMs, create, result }: Issue<T>): Work<T> {
    const { rank, worldSize, epoch, segmentElements, clock } = this.#options;
    const seq = this.#nextSeq++;
    const op = create({
      ...{ rank, worldSize, epoch, seq, bucket, segmentElements },
      now: () => clock.now(),
      emit: (frame) => this.#emit(flight, frame),
    });
    const work = new Work<T>(`${describeOp(op.descriptor)} #${seq} of rank ${rank}`, clock);
    const needsReady = count * Float32Array.BYTES_PER_ELEMENT > EAGER_BYTES;
    const flight: Flight = {
      seq,
      op,
      needsReady,
      finish: () => work.complete(result(), op.trace),
      fail: (error) => work.fail(error),
      sent: (bytes) => work.sent(bytes),
      cancelDeadline: clock.after(timeoutMs, () => this.#expire(flight, timeoutMs)),
      isLaunched: false,
      eagerLeft: EAGER_BYTES,
      held: needsReady && !this.#readyAhead.delete(seq) ? [] : null,
    };
    if (this.#failure) {
      flight.cancelDeadline();
      work.fail(this.#failure);
      return work;
    }
    this.#flights.set(seq, flight);
    this.#launchNext();
    return work;
  }

  /** Gives the group up: rejects every op in flight here and, unless told not to, tells both neighbours why. */
  fail(error: Error, { tellNeighbours = true } = {}): void {
    if (this.#failure) return;
    this.#failure = error;
    const { left, right, epoch, onfailure } = this.#options;
    for (const link of new Set([left, right])) {
      if (!link) continue;
      link.onframe = null;
      link.onclose = null;
      // A neighbour that cannot be told finds out by its link or its deadline.
      if (tellNeighbours)
        link.send(encodeJsonFrame(emptyHeader(FrameKind.ABORT, epoch), reasonOf(error))).catch(() => {});
    }
    for (const flight of this.#flights.values()) {
      flight.cancelDeadline();
      flight.fail(error);
    }
    this.#flights.clear();
    this.#parked.clear();
    onfailure?.(error);
  }

  #attach(link: Link, peer: number): void {
    // The other link may have failed the group already.
    if (this.#failure) return;
    // First what has come, which may be the reason for the close behind it.
    link.onframe = (frame) => {
      try {
        this.#receive(frame, peer);
      } catch (error) {
        this.fail(asError(error));
      }
    };
    if (this.#failure) return;
    link.onclose = (error) => {
      const during = this.#describeFirst();
      const because = error ? `: ${error.message}` : '.';
      this.fail(
        new PeerGoneError(`Rank ${this.#options.rank} lost its link to rank ${peer}${during}${because}`, {
          ...this.#context,
          missing: [peer],
        }),
      );
    };
  }

  #receive(frame: ArrayBuffer, from: number): void {
    const header = readHeader(frame);
    if (header.epoch !== this.#options.epoch) return;
    switch (header.kind) {
      case FrameKind.DATA:
        return this.#receiveData(header, frame, from);
      case FrameKind.READY: {
        const flight = this.#flights.get(header.seq);
        if (flight) this.#release(flight);
        else if (header.seq >= this.#nextSeq) this.#readyAhead.add(header.seq);
        return;
      }
      case FrameKind.ABORT: {
        const { name, message, ...where } = v.parse(AbortReason, decodeJsonFrame(frame));
        const Reason = ABORT_ERRORS[name] ?? PeerGoneError;
        return this.fail(new Reason(message, { ...this.#context, ...where }));
      }
      case FrameKind.HELLO:
      case FrameKind.HELLO_ACK:
        throw new ProtocolError(`Rank ${from} greeted again on a link that is up.`, this.#context);
      default:
        header.kind satisfies never;
    }
  }

  #receiveData(header: FrameHeader, frame: ArrayBuffer, from: number): void {
    const flight = this.#flights.get(header.seq);
    if (flight?.isLaunched) {
      flight.op.receive(header, frame, from);
      this.#settle(flight);
      return;
    }
    if (!flight && header.seq < this.#nextSeq) {
      throw new ProtocolError(`Rank ${from} sent data of collective #${header.seq}, which is over.`, this.#context);
    }
    const parked = this.#parked.get(header.seq);
    if (parked) parked.push(frame);
    else this.#parked.set(header.seq, [frame]);
  }

  #launchNext(): void {
    for (const flight of this.#flights.values()) {
      if (this.#launched >= MAX_OPS_IN_FLIGHT) return;
      if (flight.isLaunched) continue;
      flight.isLaunched = true;
      this.#launched += 1;
      void this.#launch(flight);
    }
  }

  async #launch(flight: Flight): Promise<void> {
    const { left, epoch } = this.#options;
    if (flight.needsReady && left) {
      void this.#transmit(flight, left, createFrame({ ...emptyHeader(FrameKind.READY, epoch), seq: flight.seq }, 0));
    }
    try {
      for (const frame of this.#parked.get(flight.seq) ?? []) {
        flight.op.receive(readHeader(frame), frame, this.#leftRank);
      }
      this.#parked.delete(flight.seq);
      await flight.op.start();
      this.#settle(flight);
    } catch (error) {
      this.fail(asError(error));
    }
  }

  #settle(flight: Flight): void {
    if (!flight.op.isDone || flight.held?.length || !this.#flights.delete(flight.seq)) return;
    this.#launched -= 1;
    flight.cancelDeadline();
    flight.finish();
    this.#launchNext();
  }

  async #emit(flight: Flight, frame: ArrayBuffer): Promise<void> {
    // A failed op has nothing more to say: its receiver has given it up too.
    if (this.#failure) return;
    if (flight.held && flight.eagerLeft < frame.byteLength) {
      flight.held.push(frame);
      return;
    }
    flight.eagerLeft -= frame.byteLength;
    await this.#transmit(flight, this.#options.right!, frame);
  }

  #release(flight: Flight): void {
    const held = flight.held ?? [];
    flight.held = null;
    for (const frame of held) void this.#transmit(flight, this.#options.right!, frame);
    this.#settle(flight);
  }

  async #transmit(flight: Flight, link: Link, frame: ArrayBuffer): Promise<void> {
    this.#bytesSent += frame.byteLength;
    flight.sent(frame.byteLength);
    try {
      await link.send(frame);
    } catch (error) {
      // Of a link that is gone `onclose` has told, with a better message.
      if (!(error instanceof PeerGoneError)) this.fail(asError(error));
    }
  }

  #expire(flight: Flight, timeoutMs: number): void {
    const { rank } = this.#options;
    const name = describeOp(flight.op.descriptor);
    const waiting = flight.held?.length
      ? { peer: this.#rightRank, side: 'right', what: 'it has not issued this op', ranks: [this.#rightRank] }
      : { peer: this.#leftRank, side: 'left', ...flight.op.missing() };
    this.fail(
      new TimeoutError(
        `Timed out: rank ${rank} waited ${timeoutMs} ms in collective #${flight.seq} ${name} ` +
          `for rank ${waiting.peer}, its ${waiting.side} neighbour (${waiting.what}).`,
        { ...this.#context, op: name, seq: flight.seq, missing: waiting.ranks },
      ),
    );
  }

  /** ` during collective #3 allReduce(..)`, or nothing when none is in flight. */
  #describeFirst(): string {
    const [flight] = this.#flights.values();
    return flight ? ` during collective #${flight.seq} ${describeOp(flight.op.descriptor)}` : '';
  }
}

function reasonOf(error: Error): v.InferOutput<typeof AbortReason> {
  const { op, seq, missing }: ErrorContext = error instanceof PeergradError ? error.context : {};
  return { name: error.name, message: error.message.slice(0, MAX_REASON_LENGTH), op, seq, missing };
}
