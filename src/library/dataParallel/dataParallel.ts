/**
 * `DataParallel` divides each batch among several replicas of a model in one tab, as
 * torch.nn.DataParallel does
 * (https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html). Replica 0 is the
 * caller's model on the caller's thread (`device_ids[0]`). Each other replica is in a worker with a
 * device of its own. A batch is scattered to the replicas. Replica 0 gathers the outputs, computes
 * the loss, and sends back the gradients of the outputs. It then sums the gradients of the
 * parameters and takes the step.
 *
 * As in PyTorch, the buffers are those of replica 0. For example, the averages of batch
 * normalization are computed from replica 0's samples.
 */
import * as tf from '@tensorflow/tfjs';
import type { Optimizer } from '../../optim/optimizer.ts';
import { createFlatLayout, type FlatLayout } from '../../parallel/flat/buckets.ts';
import {
  readVariables,
  TensorReader,
  variablesOf,
  writeVariables,
  type Model,
  type ModelVariables,
} from '../../parallel/backward/flatten.ts';
import { moveOptimizerAveragesToLayout } from '../../parallel/flat/optimizerLayout.ts';
import { toFlatOptimizer, type TensorflowOptimizer } from '../../parallel/flat/optimizerOf.ts';
import { WeightChangeDetector } from '../../parallel/backward/weightChangeDetector.ts';
import { systemClock, type Clock } from '../../util/clock.ts';
import { UsageError } from '../../util/errors.ts';
import { watchCurrentGpu } from '../device.ts';
import { checkInputBatches, checkReplicableModel, checkReplicaOptions } from './checks.ts';
import {
  arrayBuffersOf,
  readTensor,
  splitTensorRows,
  type ArrayTensor,
  type PassMemory,
  type ReplicaCall,
  type ReplicaPort,
  type ReplicaResult,
} from './messages.ts';
import { addDirectGradient, differentiateLoss, gatherReplicaOutputs, type LossGradients } from './outputs.ts';
import { DataParallelReplicaClient } from './dataParallelReplicaClient.ts';
import { describeReplicaModel } from './replicaModel.ts';
import { ReplicaPass } from './replicaPass.ts';

const DEFAULT_TIMEOUT_MS = 60_000;

export interface DataParallelOptions {
  /** Number of replicas, 1 to 16, including the caller's model. Default 2. */
  replicas?: number;
  /** Maximum time in milliseconds for a worker to start or to answer. Default 60 000. */
  timeoutMs?: number;
  clock?: Clock;
  /** Opens a replica other than replica 0. By default, a new worker is started for each. */
  openReplica?: (replica: number) => ReplicaPort;
}

/** Samples, shapes and memory of one replica in the latest pass. */
export interface ReplicaPassReport extends PassMemory {
  replica: number;
  /** Number of samples. It is 0 if the batch was too small for this replica to receive any. */
  batch: number;
  /** Shapes of the replica's part of the inputs and of the outputs. */
  inputs: number[][];
  outputs: number[][];
}

/** The loss as a function of the gathered output, or of all outputs if the model has several. */
export type OutputLoss<Outputs extends tf.Tensor | tf.Tensor[] = tf.Tensor> = (outputs: Outputs) => tf.Scalar;

type Inputs = tf.Tensor | tf.Tensor[];

export class DataParallel {
  /** All parameters, flat, in the order of {@link layout}. {@link step} changes them. */
  readonly parameters: Float32Array<ArrayBuffer>;
  /** The gradient of the latest {@link backward}, flat. */
  readonly gradient: Float32Array<ArrayBuffer>;
  readonly layout: FlatLayout;
  /** The model (torch: `module`), its parameters in forward order, and its buffers. */
  readonly variables: ModelVariables;
  readonly #model: Model;
  readonly #pass: ReplicaPass;
  readonly #replicas: readonly DataParallelReplicaClient[];
  readonly #reader = new TensorReader();
  readonly #gpu = watchCurrentGpu();
  readonly #watch: WeightChangeDetector;
  #rows: Omit<ReplicaPassReport, 'replica'>[] = [];
  /** TensorFlow.js's data ids of the buffers when they were last sent to the replicas. */
  #replicated: readonly object[] = [];
  /** Whether {@link parameters} must be sent to the replicas, because their values have changed. */
  #isChanged = true;
  #hasGradient = false;
  #isBusy = false;
  #optimizerBytes = 0;

  private constructor(model: Model, replicas: readonly DataParallelReplicaClient[]) {
    this.variables = variablesOf(model);
    this.layout = createFlatLayout(this.variables.parameters.map(({ size }) => size));
    this.parameters = new Float32Array(this.layout.size);
    this.gradient = new Float32Array(this.layout.size);
    this.#model = model;
    this.#pass = new ReplicaPass(model, this.variables);
    this.#watch = new WeightChangeDetector(this.variables.parameters);
    this.#replicas = replicas;
  }

  /**
   * Starts the replicas. The caller's model is replica 0. It still belongs to the caller, who
   * disposes of it.
   *
   * @param model a LayersModel of TensorFlow.js's own layers, because workers rebuild it from its
   *   topology.
   * @throws (rejects) UsageError if there is nothing to train or a layer is a custom one;
   *   PeergradError, DeviceError or TimeoutError with the number of a replica that does not start.
   *   After each of these errors, no worker keeps running.
   */
  static async create(
    model: Model,
    {
      replicas = 2,
      timeoutMs = DEFAULT_TIMEOUT_MS,
      clock = systemClock,
      openReplica = openWorker,
    }: DataParallelOptions = {},
  ): Promise<DataParallel> {
    checkReplicableModel(model);
    checkReplicaOptions(replicas, timeoutMs);
    const description = describeReplicaModel(model);
    const clients = Array.from(
      { length: replicas - 1 },
      (_, i) => new DataParallelReplicaClient(openReplica(i + 1), i + 1, clock, timeoutMs),
    );
    const parallel = new DataParallel(model, clients);
    try {
      await Promise.all(clients.map((client) => client.call({ type: 'start', model: description })));
      await readVariables(parallel.variables.parameters, parallel.layout.slots, parallel.parameters);
      return parallel;
    } catch (error) {
      parallel.dispose();
      throw error;
    }
  }

  /** Number of replicas, including the caller's model. */
  get replicas(): number {
    return this.#replicas.length + 1;
  }

  /**
   * Runs the model on a batch, split over the replicas as torch.chunk does, and gathers the
   * outputs. The caller disposes of them.
   *
   * @param xs one tensor for each input of the model, float32, int32 or bool.
   * @throws (rejects) UsageError for inputs that do not fit; errors of a replica, with its number.
   */
  async predict(xs: Inputs): Promise<tf.Tensor | tf.Tensor[]> {
    return this.#alone(async () => {
      const gathered = await this.#forward(checkInputBatches(xs, this.#model), false);
      return gathered.length === 1 ? gathered[0]! : gathered;
    });
  }

  /**
   * Computes the gradient of a batch's loss. The model runs in training mode on all replicas. Then
   * `loss` is computed from the gathered outputs, so it is the loss of the whole batch. Except for
   * rounding, the gradient is that of this loss. Every call replaces the earlier gradient, so there
   * is no `zeroGrad`.
   *
   * @param loss a scalar, such as the mean over the batch. It may use the model's parameters, too,
   *   for example their squares.
   * @returns the loss.
   * @throws (rejects) as {@link predict}, and errors of `loss`.
   */
  async backward<Outputs extends tf.Tensor | tf.Tensor[] = tf.Tensor>(
    xs: Inputs,
    loss: OutputLoss<Outputs>,
  ): Promise<number> {
    return this.#alone(async () => {
      this.#hasGradient = false;
      const owned: tf.Tensor[] = [];
      try {
        owned.push(...(await this.#forward(checkInputBatches(xs, this.#model), true)));
        const outputs = [...owned];
        const found = differentiateLoss(outputs, this.variables.parameters, () =>
          loss((outputs.length === 1 ? outputs[0]! : outputs) as Outputs),
        );
        owned.push(found.value, ...found.outputs, ...found.parameters.filter((gradient) => gradient !== null));
        await this.#backpropagate(found);
        this.#hasGradient = true;
        return (await found.value.data())[0]!;
      } finally {
        tf.dispose(owned);
        this.#pass.drop();
        // If the call failed before the backward pass of a replica, the replica still keeps its
        // forward pass.
        if (!this.#hasGradient) for (const replica of this.#replicas) replica.call({ type: 'drop' }).catch(() => {});
      }
    });
  }

  /**
   * Applies the gradient of {@link backward} on replica 0. Other replicas receive the new
   * parameters before their next pass.
   *
   * @param optimizer the result of `createOptimizer`, or an optimizer of TensorFlow.js; pass the
   *   same object in every step.
   * @throws UsageError if there is no gradient, for example because weights were loaded; if weights
   *   of the model were set after {@link backward}; or for an optimizer that {@link optimizerOf}
   *   rejects.
   */
  step(optimizer: Optimizer | TensorflowOptimizer): void {
    if (!this.#hasGradient) throw new UsageError('There is no gradient. Call backward before step, and await it.');
    const { changed } = this.#watch;
    if (changed) {
      throw new UsageError(
        `The weight "${changed.name}" was set after backward, so the gradient belongs to the old weights, and step would ` +
          'undo the change. Call backward again before step.',
      );
    }
    const flat = this.flatOptimizer(optimizer);
    flat.apply(this.parameters, this.gradient);
    const { scalars, slots } = flat.state();
    this.#optimizerBytes = [scalars, ...slots].reduce((sum, { byteLength }) => sum + byteLength, 0);
    this.writeParameters();
  }

  /**
   * Returns the flat optimizer that {@link step} uses for `optimizer`. With its `state()` and
   * `load()`, the state of the optimizer can be saved and loaded.
   */
  flatOptimizer(optimizer: Optimizer | TensorflowOptimizer): Optimizer {
    const flat = toFlatOptimizer(optimizer, this.variables.parameters);
    moveOptimizerAveragesToLayout(flat, this.layout);
    return flat;
  }

  /**
   * Copies {@link parameters} to the model. Call it after the parameters were changed by anything
   * but {@link step}.
   */
  writeParameters(): void {
    writeVariables(this.variables.parameters, this.layout.slots, this.parameters);
    this.#watch.accept();
    this.#isChanged = true;
  }

  /** Drops the gradient of the latest {@link backward}, so that {@link step} cannot apply it. */
  dropGradients(): void {
    this.#hasGradient = false;
  }

  /**
   * Whether weights were set on the model, for example with `setWeights`, after {@link parameters}
   * were read or written. The next pass reads the model's weights.
   */
  get isModelChanged(): boolean {
    return this.#watch.changed !== null;
  }

  /**
   * Describes the latest pass. For each replica, returns its samples, and the largest number of
   * bytes and tensors that its weights and the pass had at the same time. Replica 0 needs more than
   * the others, because it also has the gathered outputs, the loss, and the flat arrays of
   * parameters, gradient and optimizer.
   */
  memory(): ReplicaPassReport[] {
    const flat = this.parameters.byteLength + this.gradient.byteLength + this.#optimizerBytes;
    return this.#rows.map((row, replica) => ({ ...row, replica, bytes: row.bytes + (replica === 0 ? flat : 0) }));
  }

  /** Ends the workers. The model can still be used. */
  dispose(): void {
    for (const replica of this.#replicas) replica.close();
    this.#pass.drop();
    this.#reader.dispose();
    this.#gpu.stop();
  }

  /** Runs `work`. @throws (rejects) UsageError while other work is running. */
  async #alone<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isBusy) {
      throw new UsageError('The replicas are still computing another call. Await it before the next call.');
    }
    this.#isBusy = true;
    try {
      return await work();
    } finally {
      this.#isBusy = false;
    }
  }

  /**
   * Sends changed weights to the replicas, scatters the inputs, runs the model on all replicas, and
   * gathers the outputs. The caller disposes of the outputs.
   */
  async #forward(inputs: readonly tf.Tensor[], training: boolean): Promise<tf.Tensor[]> {
    const sizes = chunkSizes(inputs[0]!.shape[0], this.replicas);
    const arrays = sizes.length > 1 ? await Promise.all(inputs.map(readTensor)) : [];
    await this.#replicate();
    this.#pass.begin();
    const answers = this.#scatter(arrays, sizes, (own) => ({ type: 'forward', inputs: own, training }));
    const first = inputs.map((input) => input.slice(0, sizes[0]));
    let outputs: readonly tf.Tensor[] = [];
    try {
      outputs = training ? this.#pass.forward(first) : this.#pass.predict(first);
      const results = await Promise.all(answers);
      this.#gpu.check();
      const gathered = outputs.map((output, i) => gatherReplicaOutputs(output, results, i));
      this.#pass.measure();
      this.#rows = this.#describe(inputs, outputs, sizes, results);
      return gathered;
    } catch (error) {
      // A failed pass is dropped only after all replicas have stopped computing.
      await Promise.allSettled(answers);
      if (outputs.length === 0) tf.dispose(first);
      throw error;
    } finally {
      if (!training) tf.dispose([first, [...outputs]]);
    }
  }

  /**
   * Sends the gradients of the outputs to the replicas, and sums the replicas' gradients of the
   * parameters.
   */
  async #backpropagate({ outputs: gradients, parameters: direct }: LossGradients): Promise<void> {
    const sizes = this.#rows.map(({ batch }) => batch).filter((batch) => batch > 0);
    const arrays = sizes.length > 1 ? await Promise.all(gradients.map(readTensor)) : [];
    const answers = this.#scatter(arrays, sizes, (own) => ({ type: 'backward', gradients: own }));
    const first = gradients.map((gradient) => gradient.slice(0, sizes[0]));
    let mine: tf.Tensor[] = [];
    try {
      mine = this.#pass.backward(first).map((gradient, i) => addDirectGradient(gradient, direct[i]!));
      const ordered = this.layout.slots.map(({ parameter }) => mine[parameter]!);
      await this.#reader.read(0, ordered, this.gradient);
      this.#gpu.check();
      const results = await Promise.all(answers);
      for (const { tensors } of results) addTo(this.gradient, tensors[0]!);
      for (const [i, { memory }] of [{ memory: this.#pass.memory }, ...results].entries()) {
        Object.assign(this.#rows[i]!, memory);
      }
    } finally {
      await Promise.allSettled(answers);
      tf.dispose([first, mine]);
    }
  }

  /** Calls each replica except replica 0 with its part of the arrays. */
  #scatter(
    arrays: readonly ArrayTensor[],
    sizes: readonly number[],
    callWith: (own: ArrayTensor[]) => ReplicaCall,
  ): Promise<ReplicaResult>[] {
    const parts = arrays.map((array) => splitTensorRows(array, sizes));
    const answers = sizes.slice(1).map((_, i) => {
      const own = parts.map((part) => part[i + 1]!);
      return this.#replicas[i]!.call(callWith(own), arrayBuffersOf(own));
    });
    // The rejections of replicas are reported after replica 0 has run its own part. Without this
    // line, they would count as unhandled until then.
    for (const answer of answers) answer.catch(() => {});
    return answers;
  }

  /**
   * Sends parameters and buffers to the replicas if they have changed since they were last sent.
   */
  async #replicate(): Promise<void> {
    const { parameters, buffers } = this.variables;
    if (this.isModelChanged) {
      this.#watch.accept();
      this.#isChanged = true;
      await readVariables(parameters, this.layout.slots, this.parameters);
    }
    const ids = buffers.map(({ dataId }) => dataId);
    if (!this.#isChanged && !ids.some((id, i) => id !== this.#replicated[i])) return;
    const { slots, size } = createFlatLayout(buffers.map((buffer) => buffer.size));
    const call: ReplicaCall = {
      type: 'replicate',
      parameters: this.parameters,
      buffers: new Float32Array(size),
    };
    if (size > 0) await readVariables(buffers, slots, call.buffers);
    // The mark is removed before the parameters are sent. So if they change meanwhile, they are
    // sent again before the next pass.
    this.#isChanged = false;
    this.#replicated = ids;
    const sent = Promise.all(this.#replicas.map((replica) => replica.call(call)));
    await sent.catch((error: unknown) => {
      this.#isChanged = true;
      throw error;
    });
  }

  #describe(
    inputs: readonly tf.Tensor[],
    outputs: readonly tf.Tensor[],
    sizes: readonly number[],
    results: readonly ReplicaResult[],
  ): Omit<ReplicaPassReport, 'replica'>[] {
    return Array.from({ length: this.replicas }, (_, i) => {
      const batch = sizes[i] ?? 0;
      const shapes =
        i === 0 ? outputs.map(({ shape }) => shape) : (results[i - 1]?.tensors ?? []).map(({ shape }) => shape);
      const memory = i === 0 ? this.#pass.memory : (results[i - 1]?.memory ?? { bytes: 0, tensors: 0 });
      const own = batch === 0 ? [] : inputs.map(({ shape }) => [batch, ...shape.slice(1)]);
      return { batch, inputs: own, outputs: shapes, ...memory };
    });
  }
}

function openWorker(): ReplicaPort {
  return new Worker(new URL('./dataParallelWorker.ts', import.meta.url), { type: 'module' });
}

function addTo(sum: Float32Array, { values }: ArrayTensor): void {
  for (let i = 0; i < sum.length; i++) sum[i]! += values[i]!;
}

/**
 * Returns the sizes of the parts of a batch, as torch.chunk does. Each part except the last has
 * ceil(batch / chunks) samples. There may be fewer than `chunks` parts: 4 samples in 3 chunks
 * result in parts of 2 and 2.
 */
export function chunkSizes(batch: number, chunks: number): number[] {
  const size = Math.ceil(batch / chunks);
  return Array.from({ length: Math.ceil(batch / size) }, (_, i) => Math.min(size, batch - i * size));
}
