/**
 * `PipelineStage`: the layers of one rank of a pipeline, as in torch.distributed.pipelining
 * (https://docs.pytorch.org/docs/stable/distributed.pipelining.html). The ranks of a group hold one
 * model together: each has some of its layers, with their gradients and the optimizer's averages.
 * `ScheduleGPipe` and `Schedule1F1B` train it.
 *
 * Differences from PyTorch: gradients are averaged over samples, also with micro-batches of unequal
 * size; the optimizer runs on the CPU (see `distributedDataParallel.ts`); and a pipeline may be a
 * ring, in which the loss uses the weights of the first layer.
 */
import * as tf from '@tensorflow/tfjs';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Optimizer } from '../../optim/optimizer.ts';
import { PIPELINE_CODECS, type CollectiveCodecName } from '../../spec/codecs.ts';
import { systemClock, EventLoopYielder, type Clock } from '../../util/clock.ts';
import { UsageError } from '../../util/errors.ts';
import { clipScale } from '../flat/clip.ts';
import { CommittedVariables } from '../backward/committedVariables.ts';
import type { Variable } from '../backward/flatten.ts';
import { differentiateTape, disposeTape, recordTape } from '../backward/tape.ts';
import { ModelBuffers } from '../ddp/modelBuffers.ts';
import { optimizerOf, type TensorflowOptimizer } from '../flat/optimizerOf.ts';
import { StageBoundary, type StageBoundaryShapes } from './boundary.ts';
import {
  fillByPieces,
  PiecewiseStateHash,
  piecesOfArray,
  readVariablesFlat,
  type LayerStateSource,
  type LayerPieces,
  type ReadStatePiece,
} from './layerState.ts';
import { trainedVariables, type PipelineLayer } from './pipelineLayer.ts';
import { layersOfStage } from './cutLayers.ts';
import { stagesOfRank } from './schedules.ts';
import { sequentialLayers, type SequentialModel } from './sequentialLayers.ts';
import { StageLayers, type BuiltLayer, type OnGradient } from './stageLayers.ts';
import { StageParameters } from './stageParameters.ts';

/** Deadline of a message between stages, which includes the computation of the sender. */
export const PIPELINE_TIMEOUT_MS = 10 * 60_000;
/** A rank that computes for longer yields, so that its messages travel. */
const YIELD_MS = 4;

/** A model as a chain of layers. */
export interface LayerChain {
  layers: readonly PipelineLayer[];
  /** Whether the loss uses variables of the first layer, so that rank 0 also has the last stage. */
  ring: boolean;
}

export interface PipelineStageOptions {
  /** Number of layers of each stage, in the order of the stages. */
  stages: readonly number[];
  /**
   * An optimizer of TensorFlow.js, such as `tf.train.adam(1e-3)`, or a function that creates an
   * optimizer for a number of elements. The function is called for each parameter.
   */
  optimizer: TensorflowOptimizer | ((size: number) => Optimizer);
  /**
   * The ranks that hold the same stage of other replicas of the model. Their gradients are
   * averaged.
   */
  dataGroup?: ProcessGroup | null;
  /**
   * Codec of activations and their gradients between stages: `fp32` or `fp16`. `fp32` by default.
   */
  codec?: CollectiveCodecName;
  /**
   * Whether a stage keeps only the outputs of its layers and computes each layer again in the
   * backward pass (activation checkpointing). It saves memory, and costs one more forward pass.
   */
  recompute?: boolean;
  /** Deadline of a message between stages, in milliseconds. Ten minutes by default. */
  timeoutMs?: number;
  clock?: Clock;
}

/**
 * This rank's layers of a model whose layers are on several ranks.
 *
 * @example
 * ```ts
 * const layers = [
 *   tf.layers.dense({ units: 10, inputShape: [10] }),
 *   tf.layers.dense({ units: 10 }),
 * ];
 * const optimizer = tf.train.adam(0.01);
 * const stage = await PipelineStage.create(layers, group, { stages: [1, 1], optimizer });
 * const schedule = new Schedule1F1B(stage, {
 *   microBatches: 2,
 *   loss: (outputs, targets) => tf.losses.meanSquaredError(targets, outputs).asScalar(),
 * });
 * const { loss } = await schedule.step({ inputs: xs, targets: ys });
 * await stage.step();
 * ```
 */
export class PipelineStage implements LayerStateSource {
  /** The ranks of the pipeline, in the order of their stages. */
  readonly group: ProcessGroup;
  readonly dataGroup: ProcessGroup | null;
  /** The layers of this rank, by stage. */
  readonly stages: ReadonlyMap<number, StageLayers>;
  readonly isRing: boolean;
  readonly boundary: StageBoundary;
  readonly clock: Clock;
  /** Yields between layers, so that messages travel. */
  readonly yielder: EventLoopYielder;
  readonly parameters: StageParameters;
  readonly #chain: LayerChain;
  readonly #own: readonly BuiltLayer[];
  /** For each layer with buffers: the buffers as they were after the latest applied step. */
  readonly #committed: readonly { layer: number; variables: CommittedVariables; size: number }[];
  /** Index of each stage's first layer. */
  readonly #starts: readonly number[];
  readonly #buffers: ModelBuffers;

  private constructor(
    chain: LayerChain,
    group: ProcessGroup,
    own: ReadonlyMap<number, readonly BuiltLayer[]>,
    parameters: StageParameters,
    options: PipelineStageOptions,
  ) {
    const { stages, dataGroup = null, codec = 'fp32', recompute = false } = options;
    if (!PIPELINE_CODECS.includes(codec)) {
      throw new UsageError(
        `Values between stages cannot have the codec ${codec}. Choose ${PIPELINE_CODECS.join(' or ')}.`,
      );
    }
    const { timeoutMs = PIPELINE_TIMEOUT_MS, clock = systemClock } = options;
    this.group = group;
    this.dataGroup = dataGroup;
    this.clock = clock;
    this.yielder = new EventLoopYielder(clock, YIELD_MS);
    this.isRing = chain.ring;
    this.boundary = new StageBoundary(group, codec, timeoutMs);
    this.parameters = parameters;
    this.#chain = chain;
    this.#own = [...own.values()].flat();
    this.#committed = this.#own
      .filter(({ buffers }) => buffers.length > 0)
      .map(({ index, buffers }) => ({
        layer: index,
        variables: new CommittedVariables(buffers),
        size: buffers.reduce((sum, { size }) => sum + size, 0),
      }));
    this.#starts = startsOf(stages);
    this.#buffers = new ModelBuffers(unique(this.#own.flatMap(({ buffers }) => buffers)), dataGroup ?? group);
    const lossVariables = unique(this.#own.flatMap((layer) => layer.parameters));
    const ongradient: OnGradient = (variable, gradient) => parameters.add(variable, gradient);
    const common = { lossVariables, recompute, ongradient, yielder: this.yielder };
    this.stages = new Map(Array.from(own, ([stage, layers]) => [stage, new StageLayers(layers, common)]));
  }

  /**
   * Builds this rank's layers. Every rank of the group and of `dataGroup` must call it with the
   * same model. The initial values of a stage are those of the first rank of `dataGroup`.
   *
   * @param model a `tf.Sequential`, or a list of layers that are not built yet.
   * @param group the ranks of the pipeline.
   * @throws (rejects) UsageError if the model cannot be cut as `stages` says.
   */
  static async create(
    model: SequentialModel | LayerChain,
    group: ProcessGroup,
    options: PipelineStageOptions,
  ): Promise<PipelineStage> {
    const chain = isChain(model) ? model : { layers: sequentialLayers(model), ring: false };
    const { stages, optimizer, dataGroup = null } = options;
    checkStages(chain, stages, group.worldSize);
    const own = new Map<number, BuiltLayer[]>(
      stagesOfRank({ ranks: group.worldSize, stages: stages.length }, group.rank).map((stage) => [
        stage,
        layersOfStage(stages, stage).map((index) => built(chain.layers[index]!, index)),
      ]),
    );
    const createOptimizer =
      typeof optimizer === 'function' ? optimizer : (size: number): Optimizer => optimizerOf(optimizer, size);
    const parameters = new StageParameters([...own.values()].flat(), createOptimizer);
    const stage = new PipelineStage(chain, group, own, parameters, options);
    if (dataGroup && dataGroup.worldSize > 1) await stage.#broadcast(dataGroup);
    return stage;
  }

  get layers(): readonly number[] {
    return this.#own.map(({ index }) => index);
  }

  /** Names of the layers of this rank. */
  get layerNames(): string[] {
    return this.#own.map(({ layer }) => layer.name);
  }

  /** Shapes of the output that stage `stage - 1` passes to stage `stage`, for one sample. */
  shapesBefore(stage: number): StageBoundaryShapes {
    const { outputShape, paddingShape = null } = this.#chain.layers[this.#starts[stage]! - 1]!;
    return { value: outputShape, padding: paddingShape };
  }

  /** Index of the first layer behind a stage. */
  endOf(stage: number): number {
    return this.#starts[stage + 1] ?? this.#chain.layers.length;
  }

  /** Index of the first layer of this rank that is trained now; `null`: all are frozen. */
  get firstTrained(): number | null {
    const trained = this.#own.filter(({ layer, parameters }) => trainedVariables(layer, parameters).length > 0);
    return trained.length > 0 ? Math.min(...trained.map(({ index }) => index)) : null;
  }

  /**
   * Index of a layer of this rank that was frozen when the stage was created and is trained now:
   * its parameters have no optimizers. `null` if there is no such layer.
   */
  get unfrozenLayer(): number | null {
    const unfrozen = this.#own.find(({ layer, parameters, buffers }) =>
      trainedVariables(layer, parameters).some((variable) => buffers.includes(variable)),
    );
    return unfrozen?.index ?? null;
  }

  /** Returns the name of a layer of the model. */
  nameOf(layer: number): string {
    return this.#chain.layers[layer]!.name;
  }

  /** For each layer with buffers: the number of elements in its buffers. */
  get bufferSizes(): { layer: number; size: number }[] {
    return this.#committed.map(({ layer, size }) => ({ layer, size }));
  }

  /**
   * Averages the gradients of all micro-batches over the samples of all replicas, and adds the
   * gradients of the layers' regularizers. If a replica has changed buffers, all replicas receive
   * the buffers of the first replica with samples.
   *
   * @param samples number of samples of all replicas.
   * @param hasSamples whether this replica has samples.
   * @returns the penalties of the regularizers on the first replica, and 0 on the others.
   */
  async reduceGradients(samples: number, hasSamples = true): Promise<number> {
    // One replica computes the penalties, so that all replicas have the same bits.
    const penalty = (this.dataGroup?.rank ?? 0) === 0 ? await this.#addPenalties(samples) : 0;
    await this.parameters.reduce(this.dataGroup, samples);
    if (this.dataGroup && this.#buffers.count > 0) {
      const flags = Float32Array.from(this.#buffers.flags(hasSamples));
      await this.dataGroup.allReduce(flags);
      await this.#buffers.share(flags);
    }
    return penalty;
  }

  /**
   * Scales the gradients of all stages down to an L2 norm of at most `maxNorm` together. Every rank
   * must call it (torch: `clip_grad_norm_`).
   *
   * @returns the norm before clipping.
   */
  async clipGradNorm(maxNorm: number): Promise<number> {
    const squares = Float64Array.of(this.parameters.squaredNorm());
    await this.group.allReduce(squares);
    const norm = Math.sqrt(squares[0]!);
    const scale = clipScale(norm, maxNorm);
    if (scale < 1) this.parameters.scale(scale);
    return norm;
  }

  /**
   * Applies the gradients.
   *
   * @param learningRate by default that of the optimizer.
   */
  async step(learningRate: number | null = null): Promise<void> {
    await this.parameters.apply(learningRate);
    for (const { variables } of this.#committed) variables.commit();
  }

  /** Drops the gradients of a step that is not applied, and restores the buffers. */
  rollBack(): void {
    this.drop();
    for (const { variables } of this.#committed) variables.rollBack();
  }

  /** For each layer with buffers: reads the buffers as they are now. */
  async readBuffers(): Promise<{ layer: number; values: Float32Array<ArrayBuffer> }[]> {
    const all = [];
    for (const { index, buffers } of this.#own) {
      if (buffers.length > 0) all.push({ layer: index, values: await readVariablesFlat(buffers) });
    }
    return all;
  }

  async *pieces(layer: number): LayerPieces {
    yield* this.parameters.pieces(layer);
    for (const buffers of await this.readBuffers()) if (buffers.layer === layer) yield* piecesOfArray(buffers.values);
  }

  /**
   * Sets the state of a layer of this stage.
   *
   * @param scalars settings and counters of the optimizers.
   */
  async load(layer: number, read: ReadStatePiece, scalars: Float64Array<ArrayBuffer>): Promise<void> {
    await this.parameters.load(layer, read, scalars);
    for (const { layer: index, variables, size } of this.#committed) {
      if (index !== layer) continue;
      const values = new Float32Array(size);
      await fillByPieces(values, read);
      variables.write(values);
    }
  }

  /** Returns the hash of the state of all layers. */
  async hash(): Promise<string> {
    const hash = new PiecewiseStateHash();
    await this.parameters.hash(hash);
    for (const { values } of await this.readBuffers()) hash.add(values);
    return hash.digest();
  }

  /** Drops everything that belongs to an unfinished step. */
  drop(): void {
    for (const layers of this.stages.values()) layers.drop();
    this.parameters.drop();
  }

  /** Frees everything, the layers' variables included. */
  dispose(): void {
    this.drop();
    this.parameters.dispose();
    this.boundary.dispose();
    this.#buffers.dispose();
    for (const { variables } of this.#committed) variables.dispose();
    for (const { layer } of this.#own) layer.dispose();
  }

  /**
   * Differentiates `factor` times the penalties of all layers; returns the sum of the penalties.
   */
  async #addPenalties(factor: number): Promise<number> {
    let sum = 0;
    for (const { layer, parameters } of this.#own) {
      const { result: penalties, tape } = recordTape(() => layer.penalties?.() ?? []);
      const xs = penalties.length > 0 ? trainedVariables(layer, parameters) : [];
      const gradient = tf.scalar(factor);
      const outputs = penalties.map((tensor) => ({ tensor, gradient }));
      const all = xs.length > 0 ? differentiateTape(tape, outputs, xs) : [];
      disposeTape(tape);
      for (const [i, one] of all.entries()) if (one) this.parameters.add(xs[i]!, one);
      for (const penalty of penalties) sum += (await penalty.data())[0]!;
      tf.dispose([gradient, penalties]);
    }
    return sum;
  }

  /** Sets this stage's parameters and buffers to those of the first replica. */
  async #broadcast(dataGroup: ProcessGroup): Promise<void> {
    await this.parameters.broadcast(dataGroup);
    await this.#buffers.broadcast(0);
    for (const { variables } of this.#committed) variables.commit();
  }
}

function built(layer: PipelineLayer, index: number): BuiltLayer {
  const variables = layer.build();
  const trained = trainedVariables(layer, variables);
  return {
    index,
    layer,
    parameters: variables.filter((variable) => trained.includes(variable)),
    buffers: variables.filter((variable) => !trained.includes(variable)),
  };
}

function unique(variables: readonly Variable[]): Variable[] {
  return [...new Set(variables)];
}

function isChain(model: SequentialModel | LayerChain): model is LayerChain {
  return !(model instanceof tf.LayersModel) && 'ring' in model;
}

/** Returns the index of each stage's first layer. */
function startsOf(stages: readonly number[]): number[] {
  let at = 0;
  return stages.map((count) => (at += count) - count);
}

function checkStages({ layers, ring }: LayerChain, stages: readonly number[], ranks: number): void {
  const expected = ring ? ranks + 1 : ranks;
  if (stages.length !== expected) {
    throw new UsageError(
      `The list of stages has ${stages.length} numbers, but ${ranks} ranks${ring ? ' in a ring' : ''} have ${expected} stages. Pass one ` +
        'number of layers for each stage.',
    );
  }
  const total = stages.reduce((sum, count) => sum + count, 0);
  // The last stage of a ring has the loss, so it needs no layer.
  const empty = stages.findIndex((count, stage) => count < (ring && stage === expected - 1 ? 0 : 1));
  if (total !== layers.length || empty !== -1 || !stages.every(Number.isSafeInteger)) {
    throw new UsageError(
      `The stages [${stages.join(', ')}] do not cut a model of ${layers.length} layers. The numbers of layers must be at least 1 and ` +
        `add up to ${layers.length}. The layers are ${layers.map(({ name }) => name).join(', ')}.`,
    );
  }
  for (let stage = 0; stage < expected; stage++) {
    for (const index of layersOfStage(stages, stage)) {
      const layer = layers[index]!;
      const other = layers.findIndex((each, i) => each.name === layer.name && index !== i);
      if (other !== -1) {
        throw new UsageError(
          `The model has two layers named "${layer.name}". If they share weights, they cannot be in a pipeline, because their gradients ` +
            'would be added on two ranks. Use two separate layers, or train the model without a pipeline.',
        );
      }
    }
  }
}
