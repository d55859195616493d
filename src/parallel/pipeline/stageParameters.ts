/**
 * The parameters of a rank's layers, their gradients and the optimizers' averages.
 *
 * Each parameter has an optimizer of its own, and all of them take the same steps. So layers can
 * move between ranks with the averages of their parameters. The optimizers run on the CPU, as
 * everywhere (see `distributedDataParallel.ts`).
 *
 * A model that needs a pipeline is large, so each number exists once: values are on the device and
 * are read for an update; gradients of micro-batches are added on the device, and are on the CPU
 * from {@link StageParameters.reduce} until {@link StageParameters.apply}.
 */
import * as tf from '@tensorflow/tfjs';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Optimizer } from '../../optim/optimizer.ts';
import { divideVector } from '../../optim/index.ts';
import { TensorReader, writeVariables, type Tensor, type Variable } from '../backward/flatten.ts';
import { trainedVariables, type PipelineLayer } from './pipelineLayer.ts';
import {
  fillByPieces,
  piecesOfArray,
  pieceRangesOf,
  type PiecewiseStateHash,
  type LayerPieces,
  type ReadStatePiece,
} from './layerState.ts';

/** The numbers that the ranks agree on before a step is applied. */
export interface StepCommit {
  learningRate: number;
  /** Factor of the gradients, for clipping. */
  scale: number;
}

/** A layer with its parameters. */
interface ParameterLayer {
  /** Index of this layer in the model. */
  index: number;
  layer: PipelineLayer;
  parameters: readonly Variable[];
}

interface Entry {
  /** Index of the layer in the model. */
  layer: number;
  variable: Variable;
  optimizer: Optimizer;
  /** The sum of the micro-batches' gradients on the device. */
  sum: Tensor | null;
  /**
   * The averaged gradient, from {@link StageParameters.reduce} until {@link StageParameters.apply};
   * `null` otherwise, and while the layer is frozen.
   */
  gradient: Float32Array<ArrayBuffer> | null;
}

export class StageParameters {
  readonly #layers: readonly ParameterLayer[];
  readonly #entries: readonly Entry[];
  readonly #reader = new TensorReader();

  constructor(layers: readonly ParameterLayer[], createOptimizer: (size: number) => Optimizer) {
    this.#layers = layers;
    this.#entries = layers.flatMap(({ index, parameters }) =>
      parameters.map((variable) => ({
        layer: index,
        variable,
        optimizer: createOptimizer(variable.size),
        sum: null,
        gradient: null,
      })),
    );
  }

  /** Layer and size of each parameter. */
  get sizes(): { layer: number; size: number }[] {
    return this.#entries.map(({ layer, variable: { size } }) => ({ layer, size }));
  }

  /** One number for each parameter: 1, or 0 while its layer is frozen. */
  get trained(): number[] {
    return this.#layers.flatMap(({ layer, parameters }) => {
      const trained = trainedVariables(layer, parameters);
      return parameters.map((parameter) => (trained.includes(parameter) ? 1 : 0));
    });
  }

  /** Settings and counters of the optimizers; `null` without parameters. */
  get scalars(): Float64Array<ArrayBuffer> | null {
    return this.#entries[0]?.optimizer.state().scalars ?? null;
  }

  /** Bytes of averages and gradients on the CPU. */
  get cpuBytes(): number {
    return this.#entries.reduce((sum, { optimizer, gradient }) => {
      const slots = optimizer.state().slots.reduce((total, { byteLength }) => total + byteLength, 0);
      return sum + slots + (gradient?.byteLength ?? 0);
    }, 0);
  }

  /** Reads the values of all parameters from the device. */
  async values(): Promise<Float32Array<ArrayBuffer>[]> {
    const all = [];
    for (const entry of this.#entries) all.push(await this.#read(entry));
    return all;
  }

  /** Reads the values of a parameter from the device. */
  read(index: number): Promise<Float32Array<ArrayBuffer>> {
    return this.#read(this.#entries[index]!);
  }

  /** Sets the values of a parameter. */
  write(index: number, values: Float32Array<ArrayBuffer>): void {
    write(this.#entries[index]!, values);
  }

  /** Adds a gradient of a micro-batch, and disposes of it. */
  add(variable: Variable, gradient: Tensor): void {
    const entry = this.#entries.find((each) => each.variable === variable)!;
    const { sum } = entry;
    entry.sum = sum ? tf.add(sum, gradient) : gradient;
    if (sum) tf.dispose([sum, gradient]);
  }

  /** Drops all gradients. */
  drop(): void {
    for (const entry of this.#entries) {
      entry.sum?.dispose();
      entry.sum = null;
      entry.gradient = null;
    }
  }

  /**
   * Reads the sums of gradients, adds those of the other ranks of `group`, and divides them by
   * `samples`. Every rank of the group must call it; all of them have the same layers. Frozen
   * layers have no gradients.
   */
  async reduce(group: ProcessGroup | null, samples: number): Promise<void> {
    const { trained } = this;
    for (const [i, entry] of this.#entries.entries()) {
      const { sum, variable } = entry;
      if (!trained[i]) {
        sum?.dispose();
        entry.sum = null;
        entry.gradient = null;
        continue;
      }
      const gradient = new Float32Array(variable.size);
      if (sum) await this.#reader.read(0, [sum], gradient);
      sum?.dispose();
      entry.sum = null;
      entry.gradient = gradient;
      await group?.allReduce(gradient);
      divideVector(gradient, samples);
    }
  }

  /** Returns the sum of the squares of all gradients, in float64. */
  squaredNorm(): number {
    let squares = 0;
    for (const { gradient } of this.#entries) for (const value of gradient ?? []) squares += value * value;
    return squares;
  }

  /** Multiplies the gradients by `factor`. */
  scale(factor: number): void {
    for (const { gradient } of this.#entries) {
      for (let i = 0; i < (gradient?.length ?? 0); i++) gradient![i]! *= factor;
    }
  }

  /**
   * Takes one step of the optimizers of all parameters with gradients, and drops the gradients.
   *
   * @param learningRate by default that of the optimizers.
   */
  async apply(learningRate: number | null = null): Promise<void> {
    for (const entry of this.#entries) {
      const { optimizer, gradient } = entry;
      if (!gradient) continue;
      const values = await this.#read(entry);
      if (learningRate !== null) optimizer.learningRate = learningRate;
      optimizer.apply(values, gradient);
      entry.gradient = null;
      write(entry, values);
    }
  }

  /** Sets the values to those of the first rank of `group`. */
  async broadcast(group: ProcessGroup): Promise<void> {
    for (const entry of this.#entries) {
      const values = await this.#read(entry);
      await group.broadcast(values, group.ranks[0]!);
      if (group.rank !== 0) write(entry, values);
    }
  }

  /** The averaged gradients, in the order of {@link sizes}. */
  *gradients(): Iterable<Float32Array> {
    for (const { gradient } of this.#entries) yield* piecesOfArray(gradient!);
  }

  /** See `LayerStateSource`. */
  async *pieces(layer: number): LayerPieces {
    for (const entry of this.#of(layer)) {
      yield* piecesOfArray(await this.#read(entry));
      for (const slot of entry.optimizer.state().slots) yield* piecesOfArray(slot);
    }
  }

  /** Sets the parameters of a layer. @param scalars see {@link scalars}. */
  async load(layer: number, read: ReadStatePiece, scalars: Float64Array<ArrayBuffer>): Promise<void> {
    for (const entry of this.#of(layer)) {
      const values = new Float32Array(entry.variable.size);
      await fillByPieces(values, read);
      write(entry, values);
      const { name, slots } = entry.optimizer.state();
      for (const slot of slots) await fillByPieces(slot, read);
      entry.optimizer.load({ name, scalars, slots });
    }
  }

  /** Adds parameters and the state of the optimizers to a hash. */
  async hash(hash: PiecewiseStateHash): Promise<void> {
    for (const entry of this.#entries) {
      const values = await this.#read(entry);
      const { scalars, slots } = entry.optimizer.state();
      for (const { at, length } of pieceRangesOf(values.length)) {
        hash.add(...[values, ...slots].map((array) => array.subarray(at, at + length)), scalars);
      }
    }
  }

  dispose(): void {
    this.drop();
    this.#reader.dispose();
  }

  #of(layer: number): Entry[] {
    return this.#entries.filter((entry) => entry.layer === layer);
  }

  async #read({ variable }: Entry): Promise<Float32Array<ArrayBuffer>> {
    const values = new Float32Array(variable.size);
    await this.#reader.read(0, [variable], values);
    return values;
  }
}

function write({ variable }: Entry, values: Float32Array<ArrayBuffer>): void {
  writeVariables([variable], [{ parameter: 0, offset: 0, size: values.length }], values);
}
