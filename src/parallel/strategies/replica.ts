/**
 * One rank's copy of the model, as flat parameters and a flat gradient, for strategies that do not
 * reduce gradients in buckets.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Optimizer } from '../../optim/optimizer.ts';
import type { Clock } from '../../util/clock.ts';
import { divideVector } from '../../optim/index.ts';
import { createFlatLayout, type ParameterSlot } from '../flat/buckets.ts';
import { clipGradNorm } from '../flat/clip.ts';
import {
  readVariables,
  TensorReader,
  variablesOf,
  writeVariables,
  type Model,
  type ModelVariables,
  type Tensor,
  type Variable,
} from '../backward/flatten.ts';
import { ModelBuffers } from '../ddp/modelBuffers.ts';
import { differentiatePass, type Pass, type PassOptions } from '../backward/pass.ts';
import { verifyModel } from '../ddp/verifyModel.ts';

/** Number of elements after the gradient: the summed loss and the number of samples. */
const EXTRA_ELEMENTS = 2;

export interface LocalPassReport {
  /** Mean loss of this rank's samples; 0 without samples. */
  loss: number;
  samples: number;
  /** Milliseconds from the start of the pass until the gradients were read. */
  compute: number;
}

interface ReplicaOptions {
  /** See {@link DistributedDataParallel.create}. */
  model: Model | readonly Variable[];
  group: ProcessGroup;
  clock: Clock;
  /**
   * Called after gradients are read from the GPU. It must throw if the gradients are invalid, for
   * example after a GPU error.
   */
  checkGradients: () => void;
  /** See `StrategyOptions`. */
  clipNorm: number | null;
}

export class ModelReplica {
  readonly size: number;
  readonly parameters: Float32Array<ArrayBuffer>;
  /**
   * The gradient summed over samples, the summed loss and the number of samples. Ranks can sum
   * these values.
   */
  readonly sums: Float32Array<ArrayBuffer>;
  readonly variables: ModelVariables;
  readonly #buffers: ModelBuffers;
  readonly #slots: readonly ParameterSlot[];
  readonly #reader = new TensorReader();
  readonly #options: ReplicaOptions;
  #group: ProcessGroup;

  private constructor(variables: ModelVariables, options: ReplicaOptions) {
    const layout = createFlatLayout(variables.parameters.map(({ size }) => size));
    this.size = layout.size;
    this.parameters = new Float32Array(layout.size);
    this.sums = new Float32Array(layout.size + EXTRA_ELEMENTS);
    this.variables = variables;
    this.#buffers = new ModelBuffers(variables.buffers, options.group);
    this.#slots = layout.slots;
    this.#options = options;
    this.#group = options.group;
  }

  /** Creates a replica and attaches it to the group; see {@link attach}. */
  static async create(options: ReplicaOptions): Promise<ModelReplica> {
    const { model, group } = options;
    const replica = new ModelReplica(variablesOf(model), options);
    await replica.attach(group);
    return replica;
  }

  /**
   * Continues in `group`: checks that its ranks have the same model, and broadcasts rank 0's
   * variables.
   *
   * @throws (rejects) as DDP's `create`.
   */
  async attach(group: ProcessGroup): Promise<void> {
    const { parameters } = this.variables;
    await verifyModel(group, this.variables, {});
    if (group.rank === 0) await readVariables(parameters, this.#slots, this.parameters);
    await group.broadcast(this.parameters, group.ranks[0]!);
    if (group.rank !== 0) this.write();
    this.regroup(group);
    await this.#buffers.broadcast(0);
  }

  /** Continues in `group`, whose ranks have the same model. */
  regroup(group: ProcessGroup): void {
    this.#group = group;
    this.#buffers.regroup(group);
  }

  /** Indices of the parameters (forward order) in the order of the flat arrays. */
  get order(): number[] {
    return this.#slots.map(({ parameter }) => parameter);
  }

  /** Computes {@link sums} from this rank's samples. Without samples all sums are zero. */
  async compute<Outputs extends Tensor | Tensor[]>(
    pass: Pass<Outputs>,
    options: PassOptions,
  ): Promise<LocalPassReport> {
    const { clock, checkGradients } = this.#options;
    const { samples, oncomputed } = options;
    const startedAt = clock.now();
    this.sums.fill(0);
    const computed = await differentiatePass(pass, options, this.variables, this.#group);
    if (computed) {
      try {
        const tensors = [...this.#slots.map(({ parameter }) => computed.gradients[parameter]!), computed.value];
        await this.#reader.read(0, tensors, this.sums.subarray(0, this.size + 1));
        checkGradients();
      } finally {
        computed.dispose();
      }
      this.sums[this.size + 1] = samples;
    }
    oncomputed?.();
    const loss = samples > 0 ? this.sums[this.size]! / samples : 0;
    return { loss, samples, compute: clock.now() - startedAt };
  }

  /**
   * Applies the mean of `sums` to {@link parameters}. Without samples, nothing is applied.
   *
   * @param sums see {@link ModelReplica.sums}; the gradient is divided and clipped in place.
   * @returns the mean loss and the number of samples.
   */
  learn(
    optimizer: Optimizer,
    learningRate = optimizer.learningRate,
    sums: Float32Array = this.sums,
  ): { loss: number; samples: number } {
    const { size } = this;
    const { clipNorm } = this.#options;
    const samples = sums[size + 1]!;
    if (samples === 0) return { loss: 0, samples };
    const gradient = sums.subarray(0, size);
    divideVector(gradient, samples);
    if (clipNorm !== null) clipGradNorm(gradient, [{ start: 0, end: size }], clipNorm);
    optimizer.learningRate = learningRate;
    optimizer.apply(this.parameters, gradient);
    return { loss: sums[size]! / samples, samples };
  }

  /** Copies {@link parameters} to the model. */
  write(): void {
    writeVariables(this.variables.parameters, this.#slots, this.parameters);
  }

  /**
   * Broadcasts the buffers that at least one rank has changed since the last call, from the lowest
   * rank with samples; from rank 0 if no rank has samples.
   *
   * @param hasSamples whether this rank has had samples since the last call.
   */
  async shareBuffers(hasSamples: boolean): Promise<void> {
    if (this.#buffers.count === 0) return;
    await this.#buffers.share(await this.#group.allReduce(Float32Array.from(this.#buffers.flags(hasSamples))));
  }

  dispose(): void {
    this.#reader.dispose();
    this.#buffers.dispose();
  }
}
