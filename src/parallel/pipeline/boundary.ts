/**
 * Sends activations and their gradients between stages, in float32 or with a codec. `fp16` has one
 * exponent per message, so that small gradients do not become zero.
 *
 * A value is sent in parts of at most {@link PART_BYTES}. Such parts are sent without waiting for
 * the receiver. A rank that computes cannot answer that it is ready, so a large message would wait
 * until the receiver's pass ends.
 */
import * as tf from '@tensorflow/tfjs';
import { codecByName, encodedBytes, type Codec } from '../../collectives/codecs.ts';
import type { MessageOptions } from '../../collectives/options.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Work } from '../../collectives/work.ts';
import { FRAME_HEADER_BYTES } from '../../protocol/frame.ts';
import type { CollectiveCodecName } from '../../spec/codecs.ts';
import { elementCountOf } from '../../util/shape.ts';
import { TensorReader, type Tensor } from '../backward/flatten.ts';
import type { PassKind } from './schedules.ts';

/** The largest message that is sent before its receiver asks for it. */
const PART_BYTES = 64 * 1024;

/**
 * A pass whose result is sent: the output of `stage` (forward), or its input's gradient (backward).
 */
interface BoundaryPass {
  kind: PassKind;
  stage: number;
}

/** Shapes of a value's tensors: a gradient, or an output and its padding mask, if it has one. */
export interface StageBoundaryShapes {
  value: readonly number[];
  padding: readonly number[] | null;
}

/** A value that is being received. */
export interface IncomingStageValue {
  /** Resolves with the tensors. The caller disposes of them. */
  tensors(): Promise<Tensor[]>;
}

export class StageBoundary {
  readonly #group: ProcessGroup;
  readonly #codec: Codec | null;
  readonly #timeoutMs: number;
  readonly #reader = new TensorReader();
  /** Parts that are on their way. */
  #sends: Work<void>[] = [];

  /** @param timeoutMs deadline of each message. It includes the time that the sender computes. */
  constructor(group: ProcessGroup, codec: CollectiveCodecName, timeoutMs: number) {
    this.#group = group;
    this.#codec = codecByName(codec);
    this.#timeoutMs = timeoutMs;
  }

  /** Bytes of a value with `elements` elements, without the headers of frames. */
  bytesOf(elements: number): number {
    return encodedBytes(this.#codec, elements);
  }

  /**
   * Reads a value from the device and sends it to rank `to` of the group.
   *
   * @param padding sent as bytes, whatever the codec is.
   */
  async send(pass: BoundaryPass, [value, padding]: readonly Tensor[], to: number): Promise<void> {
    const values = new Float32Array(value!.size);
    await this.#reader.read(0, [value!], values);
    const { payload, frame } = this.#messageOf(value!.size);
    if (this.#codec) this.#codec.encode(values, frame, null);
    else new Float32Array(frame, FRAME_HEADER_BYTES).set(values);
    const mask = padding && Uint8Array.from(await padding.data());
    const options = this.#optionsOf(pass);
    this.#sends = this.#sends.filter((work) => !work.isCompleted());
    for (const part of [payload, ...(mask ? [mask] : [])].flatMap(partsOf)) {
      this.#sends.push(this.#group.isend(part, this.#global(to), options));
    }
  }

  /** Starts to receive a value from rank `from` of the group. */
  receive(pass: BoundaryPass, { value: shape, padding }: StageBoundaryShapes, from: number): IncomingStageValue {
    const size = elementCountOf(shape);
    const { payload, frame } = this.#messageOf(size);
    const mask = padding && new Uint8Array(elementCountOf(padding));
    const options = this.#optionsOf(pass);
    const works = [payload, ...(mask ? [mask] : [])]
      .flatMap(partsOf)
      .map((part) => this.#group.irecv(part, this.#global(from), options));
    return {
      tensors: async () => {
        for (const work of works) await work;
        let values = new Float32Array(size);
        if (this.#codec) this.#codec.decode(frame, values);
        else values = new Float32Array(frame, FRAME_HEADER_BYTES);
        const tensor = tf.tensor(values, [...shape]);
        return mask ? [tensor, tf.tensor(mask, [...padding], 'bool')] : [tensor];
      },
    };
  }

  /** Resolves when all values have been received at the other end. */
  async flush(): Promise<void> {
    for (const work of this.#sends.splice(0)) await work;
  }

  dispose(): void {
    this.#reader.dispose();
  }

  /** Returns a new frame, and the part behind its header, into which the codec writes. */
  #messageOf(elements: number): { payload: Uint8Array; frame: ArrayBuffer } {
    const frame = new ArrayBuffer(FRAME_HEADER_BYTES + this.bytesOf(elements));
    return { payload: new Uint8Array(frame, FRAME_HEADER_BYTES), frame };
  }

  #optionsOf({ kind, stage }: BoundaryPass): MessageOptions {
    return { tag: tagOf(kind, stage), timeoutMs: this.#timeoutMs };
  }

  #global(rank: number): number {
    return this.#group.ranks[rank]!;
  }
}

/**
 * Returns the tag of a pass's messages. Messages with one tag arrive in the order in which they
 * were sent, which is the order of the micro-batches.
 */
function tagOf(kind: PassKind, stage: number): number {
  return 2 * stage + (kind === 'forward' ? 0 : 1);
}

function partsOf(payload: Uint8Array): Uint8Array[] {
  const parts: Uint8Array[] = [];
  for (let at = 0; at < payload.length; at += PART_BYTES) parts.push(payload.subarray(at, at + PART_BYTES));
  return parts;
}
