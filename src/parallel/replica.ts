/** One rank's copy of the model for strategies that do not reduce gradients in buckets: flat parameters, flat gradient. */
import type { ProcessGroup } from '../collectives/processGroup.ts';
import type { Clock } from '../util/clock.ts';
import { createLayout, type Slot } from './buckets.ts';
import { gradientsOf, readVariables, TensorReader, writeVariables, type Scalar, type Variable } from './flatten.ts';

/** Behind the gradient: the summed loss and the sample count. */
const EXTRA_ELEMENTS = 2;

export interface LocalGradient {
  /** Summed over this rank's samples. */
  lossSum: number;
  samples: number;
  /** Milliseconds until gradients were here. */
  compute: number;
}

export class Replica {
  readonly size: number;
  readonly parameters: Float32Array<ArrayBuffer>;
  /** The gradient summed over samples, then the summed loss and the number of samples: what ranks can add up. */
  readonly sums: Float32Array<ArrayBuffer>;
  /** The gradient part of {@link sums}. */
  readonly gradient: Float32Array<ArrayBuffer>;
  readonly #variables: readonly Variable[];
  readonly #slots: readonly Slot[];
  readonly #reader = new TensorReader();
  readonly #clock: Clock;
  readonly #checkGradients: () => void;

  private constructor(variables: readonly Variable[], clock: Clock, checkGradients: () => void) {
    const layout = createLayout(variables.map(({ size }) => size));
    this.size = layout.size;
    this.parameters = new Float32Array(layout.size);
    this.sums = new Float32Array(layout.size + EXTRA_ELEMENTS);
    this.gradient = this.sums.subarray(0, layout.size);
    this.#variables = variables;
    this.#slots = layout.slots;
    this.#clock = clock;
    this.#checkGradients = checkGradients;
  }

  /** Reads the variables (float32, of one model, in forward order) and gives every rank rank 0's values. */
  static async create(
    variables: readonly Variable[],
    group: ProcessGroup,
    { clock, checkGradients }: { clock: Clock; checkGradients: () => void },
  ): Promise<Replica> {
    const replica = new Replica(variables, clock, checkGradients);
    await readVariables(variables, replica.#slots, replica.parameters);
    await group.broadcast(replica.parameters, group.ranks[0]!);
    replica.write();
    return replica;
  }

  /** Computes {@link sums} of this rank's samples; zeros where it has none. */
  async compute(
    loss: () => Scalar,
    { samples, reduction = 'mean' }: { samples: number; reduction?: 'mean' | 'sum' },
  ): Promise<LocalGradient> {
    const startedAt = this.#clock.now();
    this.sums.fill(0);
    if (samples > 0) {
      const computed = gradientsOf(loss, this.#variables, reduction === 'mean' ? samples : 1);
      try {
        const tensors = [...this.#slots.map(({ parameter }) => computed.gradients[parameter]!), computed.value];
        await this.#reader.read(0, tensors, this.sums.subarray(0, this.size + 1));
        this.#checkGradients();
      } finally {
        computed.dispose();
      }
      this.sums[this.size + 1] = samples;
    }
    return { lossSum: this.sums[this.size]!, samples, compute: this.#clock.now() - startedAt };
  }

  /** Makes a gradient of sums a mean, in place; returns the mean loss. Without samples both are zero. */
  static average(sums: Float32Array): { loss: number; samples: number } {
    const size = sums.length - EXTRA_ELEMENTS;
    const samples = sums[size + 1]!;
    if (samples === 0) return { loss: 0, samples };
    for (let i = 0; i < size; i++) sums[i]! /= samples;
    return { loss: sums[size]! / samples, samples };
  }

  /** Gives the model {@link parameters}. */
  write(): void {
    writeVariables(this.#variables, this.#slots, this.parameters);
  }

  dispose(): void {
    this.#reader.dispose();
  }
}
