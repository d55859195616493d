/** Collectives that only copy: all-gather (and barrier, which is its smallest), and broadcast down the ring. */
import { OpCode, Phase, ReduceOp, type FrameHeader } from '../protocol/frame.ts';
import { modulo } from './ringPlan.ts';
import { RingOp, type OpEnvironment } from './ringOp.ts';

/** Ring all-gather: each rank's part goes round n-1 hops. Every rank ends with all parts, in rank order. */
export class AllGatherOp extends RingOp {
  readonly #parts: Float32Array;

  /**
   * @param parts n equal parts in rank order, this rank's own already in its place; the others are filled in.
   * @param op all-gather, or barrier: having heard of everyone, everyone has come.
   */
  constructor(parts: Float32Array, op: typeof OpCode.ALL_GATHER | typeof OpCode.BARRIER, env: OpEnvironment) {
    const partElements = parts.length / env.worldSize;
    const expected = Array.from({ length: env.worldSize - 1 }, () => partElements);
    super({ op, reduceOp: ReduceOp.NONE, root: 0, count: parts.length }, env, expected);
    this.#parts = parts;
  }

  protected async contribute(): Promise<void> {
    const { rank, worldSize } = this.env;
    if (worldSize === 1) return;
    const size = this.#parts.length / worldSize;
    await this.sendSegments(Phase.ALL_GATHER, this.#parts.subarray(rank * size, (rank + 1) * size), rank * size);
  }

  protected originOf(ringStep: number): number {
    return modulo(this.env.rank - 1 - ringStep, this.env.worldSize);
  }

  protected ringStepOf({ hop }: FrameHeader): number {
    return hop;
  }

  protected take({ hop, offset }: FrameHeader, values: Float32Array<ArrayBuffer>, frame: ArrayBuffer): void {
    this.#parts.set(values, offset);
    if (hop < this.env.worldSize - 2) this.forward(frame, Phase.ALL_GATHER, hop + 1, offset);
  }
}

/** Pipelined broadcast: `src` sends segments to its right, everyone copies and passes them on, up to src's left. */
export class BroadcastOp extends RingOp {
  readonly #data: Float32Array;
  readonly #src: number;

  /** @param data sent on `src`, overwritten on every other rank. */
  constructor(data: Float32Array, src: number, env: OpEnvironment) {
    super({ op: OpCode.BROADCAST, reduceOp: ReduceOp.NONE, root: src, count: data.length }, env, [
      env.rank === src ? 0 : data.length,
    ]);
    this.#data = data;
    this.#src = src;
  }

  protected async contribute(): Promise<void> {
    const { rank, worldSize } = this.env;
    if (rank === this.#src && worldSize > 1) await this.sendSegments(Phase.ALL_GATHER, this.#data, 0);
  }

  protected originOf(): number {
    return this.#src;
  }

  /** One step of whole-tensor size: pipelined segments have no steps that end. */
  protected ringStepOf(): number {
    return 0;
  }

  protected take({ hop, offset }: FrameHeader, values: Float32Array<ArrayBuffer>, frame: ArrayBuffer): void {
    this.#data.set(values, offset);
    const { rank, worldSize } = this.env;
    const isLast = modulo(rank + 1, worldSize) === this.#src;
    if (!isLast) this.forward(frame, Phase.ALL_GATHER, hop + 1, offset);
  }
}
