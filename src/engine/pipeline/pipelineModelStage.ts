/** This rank's stage of a job's model: learns from micro-batches and evaluates samples. */
import * as tf from '@tensorflow/tfjs';
import type { Optimizer } from '../../optim/optimizer.ts';
import { PipelineStage } from '../../parallel/pipeline/pipelineStage.ts';
import { planForwardOnly, runStagePasses } from '../../parallel/pipeline/runStagePasses.ts';
import type { PipelinePlan, TimedStagePass } from '../../parallel/pipeline/schedules.ts';
import type { StepCommit } from '../../parallel/pipeline/stageParameters.ts';
import type { TensorEntry } from '../../formats/weights/namedTensor.ts';
import { isCollectiveCodec } from '../../spec/codecs.ts';
import type { JobSpec } from '../../spec/job.ts';
import type { Clock } from '../../util/clock.ts';
import { tensorMemoryBytes } from '../device/memory.ts';
import type { EvaluatedBatch, StepOfEpoch } from '../tasks/task.ts';
import type { PipelineGrid } from './pipelineGrid.ts';
import type { MicroBatch, PipelineModel, PipelineTask } from './pipelineTask.ts';

interface StageOptions {
  job: JobSpec;
  task: PipelineTask;
  clock: Clock;
  /** Number of layers of each stage. */
  cut: readonly number[];
  createOptimizer: (size: number) => Optimizer;
}

/** This rank's results of the passes of a step. */
export interface StageStepResult {
  /** The summed loss of the replica's samples on the rank with the last stage; 0 on others. */
  loss: number;
  /** The sum of the squares of this stage's gradient. */
  squares: number;
  /** The passes of this rank, timed by its clock. */
  passes: readonly TimedStagePass[];
  /** Milliseconds until the samples were read. */
  data: number;
}

export class PipelineModelStage {
  readonly #model: PipelineModel;
  readonly #stage: PipelineStage;
  readonly #grid: PipelineGrid;
  readonly #plan: PipelinePlan;
  readonly #task: PipelineTask;
  readonly #clock: Clock;
  /** Peak memory in bytes, measured after each pass and after gradients were read. */
  #peakBytes = 0;

  private constructor(
    model: PipelineModel,
    stage: PipelineStage,
    grid: PipelineGrid,
    { task, clock }: Pick<StageOptions, 'task' | 'clock'>,
  ) {
    this.#model = model;
    this.#stage = stage;
    this.#grid = grid;
    this.#plan = grid.plan;
    this.#task = task;
    this.#clock = clock;
  }

  /**
   * Builds this rank's layers. Every rank with a stage must call it.
   *
   * @param grid a grid in which this rank has a stage.
   */
  static async create(
    model: PipelineModel,
    grid: PipelineGrid,
    { job, task, clock, cut, createOptimizer }: StageOptions,
  ): Promise<PipelineModelStage> {
    const { pipeline, data } = grid.groups!;
    const stage = await PipelineStage.create(model, pipeline, {
      stages: cut,
      optimizer: createOptimizer,
      dataGroup: data,
      codec: isCollectiveCodec(job.codec) ? job.codec : 'fp32',
      recompute: job.recompute,
      clock,
    });
    return new PipelineModelStage(model, stage, grid, { task, clock });
  }

  get layerNames(): string[] {
    return this.#stage.layerNames;
  }

  /** The peak number of bytes of this tab's tensors and of its arrays on the CPU. */
  get memoryBytes(): number {
    this.#measureMemory();
    return this.#peakBytes;
  }

  get stage(): PipelineStage {
    return this.#stage;
  }

  /** Names and shapes of this rank's parameters, in the order of `stage.parameters`. */
  get entries(): TensorEntry[] {
    const entriesOf = new Map(this.#model.layers.map(({ name, entries }) => [name, entries]));
    return this.layerNames.flatMap((name) => entriesOf.get(name)!);
  }

  /** Reads the parameters of this rank's layers, in the order of their stages. */
  async readLayers(): Promise<{ stage: number; name: string; values: Float32Array<ArrayBuffer>[] }[]> {
    const values = await this.#stage.parameters.values();
    return [...this.#stage.stages].flatMap(([stage, { layers }]) =>
      layers.map(({ layer: { name }, parameters }) => ({ stage, name, values: values.splice(0, parameters.length) })),
    );
  }

  /**
   * Computes the gradients of a step, averaged over all replicas.
   *
   * @param indices the samples of this replica.
   * @param samples number of samples of all replicas.
   * @param onpass called after each pass.
   * @param during runs a pass. Between two passes, this rank waits for others.
   */
  async learn(
    indices: Uint32Array,
    at: StepOfEpoch,
    samples: number,
    { onpass, during }: { onpass: () => void; during: (pass: () => Promise<void>) => Promise<void> },
  ): Promise<StageStepResult> {
    const stage = this.#stage;
    const losses: tf.Tensor[] = [];
    const startedAt = this.#clock.now();
    const batches = await this.#load(indices, at);
    const data = this.#clock.now() - startedAt;
    try {
      await this.#agreeOnLeftOut(batches);
      const passes = await runStagePasses(stage, this.#plan, {
        rows: () => this.#grid.rows,
        input: (microBatch) => batches[microBatch]!.inputs.clone(),
        pass: (microBatch) => ({ training: true, mask: batches[microBatch]!.mask, seed: 0 }),
        during,
        onpass: () => {
          this.#measureMemory();
          onpass();
        },
        losses: (microBatch) => batches[microBatch]!.losses(this.#model.outputWeights),
        onoutput: (_, loss) => losses.push(loss),
      });
      this.#measureMemory();
      await stage.reduceGradients(samples);
      this.#measureMemory();
      return {
        loss: losses.length > 0 ? await sumOf(losses) : 0,
        squares: stage.parameters.squaredNorm(),
        passes,
        data,
      };
    } catch (error) {
      stage.rollBack();
      throw error;
    } finally {
      tf.dispose(losses);
      for (const batch of batches) free(batch);
    }
  }

  /** Applies the gradients of {@link learn}. */
  async apply({ learningRate, scale }: StepCommit): Promise<void> {
    if (scale < 1) this.#stage.parameters.scale(scale);
    await this.#stage.step(learningRate);
  }

  /** Evaluates held-out samples together with the other ranks of this replica. */
  async evaluate(indices: Uint32Array): Promise<EvaluatedBatch | null> {
    const batches = await this.#load(indices, null);
    const outputs: (tf.Tensor | undefined)[] = [];
    try {
      await this.#agreeOnLeftOut(batches);
      await runStagePasses(this.#stage, planForwardOnly(this.#plan), {
        rows: () => this.#grid.rows,
        input: (microBatch) => batches[microBatch]!.inputs.clone(),
        pass: () => ({ training: false, mask: () => undefined, seed: 0 }),
        losses: null,
        onoutput: (microBatch, output) => {
          outputs[microBatch] = output;
        },
      });
      return outputs.length === 0 ? null : await this.#score(outputs, batches);
    } finally {
      tf.dispose(outputs.filter((output) => output !== undefined));
      for (const batch of batches) free(batch);
    }
  }

  dispose(): void {
    this.#stage.dispose();
  }

  async #score(outputs: readonly (tf.Tensor | undefined)[], batches: readonly MicroBatch[]): Promise<EvaluatedBatch> {
    const all: { leftOut: number; lossSum: number; correct: number; sums: number[]; confusion: number[] } = {
      leftOut: 0,
      lossSum: 0,
      correct: 0,
      sums: [],
      confusion: [],
    };
    for (const [i, output] of outputs.entries()) {
      const scores = await batches[i]!.evaluate(output!, this.#model.outputWeights);
      const { leftOut = 0, lossSum, correct, sums = [], confusion = [] } = scores;
      all.leftOut += leftOut;
      all.lossSum += lossSum;
      all.correct += correct;
      addTo(all.sums, sums);
      addTo(all.confusion, confusion);
    }
    return all;
  }

  /** Loads the micro-batches of this replica's samples. Missing samples have weight 0. */
  #load(indices: Uint32Array, at: StepOfEpoch | null): Promise<MicroBatch[]> {
    const { rows, microBatches, usesSamples } = this.#grid;
    return Promise.all(
      Array.from({ length: microBatches }, (_, i) =>
        this.#task.load(indices.subarray(i * rows, (i + 1) * rows), rows, at, usesSamples),
      ),
    );
  }

  /**
   * Gives weight 0 to the samples that a rank of this replica cannot use. The ranks with the first
   * and the last stage may have different browsers. Every rank of the replica must call it.
   */
  async #agreeOnLeftOut(batches: readonly MicroBatch[]): Promise<void> {
    if (!this.#task.contents) return;
    const { rows, groups } = this.#grid;
    const counts = new Float64Array(batches.length * rows);
    for (const [i, { leftOut = [] }] of batches.entries()) for (const row of leftOut) counts[i * rows + row] = 1;
    await groups!.pipeline.allReduce(counts);
    for (const [i, batch] of batches.entries()) {
      const all = Array.from({ length: rows }, (_, row) => row).filter((row) => counts[i * rows + row]! > 0);
      if (all.length > 0) batch.leaveOut?.(all);
    }
  }

  #measureMemory(): void {
    this.#peakBytes = Math.max(this.#peakBytes, tensorMemoryBytes() + this.#stage.parameters.cpuBytes);
  }
}

function free(batch: MicroBatch): void {
  batch.inputs.dispose();
  batch.dispose();
}

function addTo(sums: number[], values: ArrayLike<number>): void {
  for (let i = 0; i < values.length; i++) sums[i] = (sums[i] ?? 0) + values[i]!;
}

async function sumOf(losses: readonly tf.Tensor[]): Promise<number> {
  let sum = 0;
  for (const loss of losses) sum += (await loss.data())[0]!;
  return sum;
}
