/** Ring all-reduce: runs the plan of `ringPlan.ts`, one op per instance, driven by arriving segments. */
import type { HopEvent } from '../protocol/events.ts';
import { OpCode, Phase, ReduceOp, type FrameHeader } from '../protocol/frame.ts';
import { chunkRange, ringStepCount, transferFrom, modulo } from './ringPlan.ts';
import { RingOp, type OpEnvironment } from './ringOp.ts';
import type { OpTrace } from './work.ts';

export class AllReduceOp extends RingOp {
  readonly #data: Float32Array;
  readonly #hops: HopEvent[];
  readonly #startedAt: number;

  /** @param data reduced in place; must not be touched until the op is done. */
  constructor(data: Float32Array, reduceOp: ReduceOp, env: OpEnvironment) {
    const { rank, worldSize: n } = env;
    const left = modulo(rank - 1, n);
    const hops = Array.from({ length: ringStepCount(n) }, (_, ringStep): HopEvent => {
      const receivedChunk = transferFrom(n, ringStep, left).chunk;
      return {
        ringStep,
        sentChunk: transferFrom(n, ringStep, rank).chunk,
        receivedChunk,
        sentAt: null,
        receivedAt: null,
      };
    });
    const lengthOf = (chunk: number): number => {
      const { start, end } = chunkRange(data.length, n, chunk);
      return end - start;
    };
    super(
      { op: OpCode.ALL_REDUCE, reduceOp, root: 0, count: data.length },
      env,
      hops.map(({ receivedChunk }) => lengthOf(receivedChunk)),
    );
    this.#data = data;
    this.#hops = hops;
    this.#startedAt = env.now();
  }

  override get trace(): OpTrace {
    return { startedAt: this.#startedAt, hops: this.#hops };
  }

  protected async contribute(): Promise<void> {
    const { rank, worldSize } = this.env;
    if (worldSize === 1) return;
    const { start, end } = chunkRange(this.#data.length, worldSize, transferFrom(worldSize, 0, rank).chunk);
    await this.sendSegments(Phase.REDUCE_SCATTER, this.#data.subarray(start, end), start);
    this.#markSent(0);
  }

  /** A chunk starts its sum `hop` ranks before the left neighbour; a finished one depends on everybody. */
  protected originOf(ringStep: number): number {
    const { rank, worldSize } = this.env;
    return modulo(rank - 1 - Math.min(ringStep, worldSize - 2), worldSize);
  }

  protected ringStepOf({ phase, hop }: FrameHeader): number {
    return phase === Phase.REDUCE_SCATTER ? hop : this.env.worldSize - 1 + hop;
  }

  protected take(header: FrameHeader, values: Float32Array<ArrayBuffer>, frame: ArrayBuffer): void {
    const { offset } = header;
    const data = this.#data;
    const lastStep = this.#hops.length - 1;
    const ringStep = this.ringStepOf(header);
    if (header.phase === Phase.ALL_GATHER) {
      data.set(values, offset);
      if (ringStep < lastStep) this.forward(frame, Phase.ALL_GATHER, header.hop + 1, offset);
      return;
    }
    for (let i = 0; i < values.length; i++) values[i]! += data[offset + i]!;
    if (header.hop < this.env.worldSize - 2) {
      this.forward(frame, Phase.REDUCE_SCATTER, header.hop + 1, offset);
      return;
    }
    // Everyone's part is in: this rank owns the sum, and all others copy these very bytes.
    if (this.descriptor.reduceOp === ReduceOp.AVG)
      for (let i = 0; i < values.length; i++) values[i]! /= this.env.worldSize;
    data.set(values, offset);
    this.forward(frame, Phase.ALL_GATHER, 0, offset);
  }

  protected override onStepReceived(ringStep: number): void {
    const hop = this.#hops[ringStep]!;
    hop.receivedAt = this.env.now();
    // Segments are forwarded as they come, so the next ring step's chunk has left by now.
    this.#markSent(ringStep + 1);
  }

  #markSent(ringStep: number): void {
    const hop = this.#hops[ringStep];
    if (hop) hop.sentAt = this.env.now();
  }
}
