/** This rank's stage of a job's model: learns from micro-batches and evaluates samples. */
import * as tf from '@tensorflow/tfjs';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Optimizer } from '../../optim/optimizer.ts';
import { cutLayers } from '../../parallel/pipeline/cutLayers.ts';
import { measureLayers } from '../../parallel/pipeline/measureLayers.ts';
import { PipelineStage } from '../../parallel/pipeline/pipelineStage.ts';
import { forwardOnly, runStages } from '../../parallel/pipeline/runStages.ts';
import type { PipelinePlan, TimedPass } from '../../parallel/pipeline/schedules.ts';
import type { JobSpec } from '../../spec/job.ts';
import { STATE_BYTES_PER_WEIGHT } from '../../spec/pipeline.ts';
import type { Clock } from '../../util/clock.ts';
import { memoryBytes } from '../device/memory.ts';
import type { Evaluated } from '../tasks/task.ts';
import type { PipelineGrid } from './pipelineGrid.ts';
import type { MicroBatch, PipelineModel, PipelineTask } from './pipelineTask.ts';

interface StageOptions {
  job: JobSpec;
  task: PipelineTask;
  clock: Clock;
  createOptimizer: (size: number) => Optimizer;
}

/** What this rank knows after the passes of a step. */
export interface LearnedStage {
  /** The summed loss of the replica's samples on the rank with the last stage; 0 on others. */
  loss: number;
  /** The sum of the squares of this stage's gradient. */
  squares: number;
  /** The passes of this rank, timed by its clock. */
  passes: readonly TimedPass[];
}

export class PipelineModelStage {
  readonly #model: PipelineModel;
  readonly #stage: PipelineStage;
  readonly #grid: PipelineGrid;
  readonly #plan: PipelinePlan;
  readonly #task: PipelineTask;
  /** The most bytes of tensors at the end of a pass. */
  #peakBytes = 0;

  private constructor(model: PipelineModel, stage: PipelineStage, grid: PipelineGrid, task: PipelineTask) {
    this.#model = model;
    this.#stage = stage;
    this.#grid = grid;
    this.#plan = grid.planOf(model.ring);
    this.#task = task;
  }

  /**
   * Cuts the model and builds this rank's layers. Every rank of the world must call it.
   *
   * @returns the number of layers of each stage, and this rank's stage; `null` on a rank without a
   *   stage.
   */
  static async create(
    model: PipelineModel,
    world: ProcessGroup,
    grid: PipelineGrid,
    { job, task, clock, createOptimizer }: StageOptions,
  ): Promise<{ cut: number[]; stage: PipelineModelStage | null }> {
    const cutModel = async (): Promise<number[]> => {
      const costs = model.cost?.layers ?? (await costsOf(task, clock));
      const layers = model.layers.map(({ name, size }, i) => ({
        name,
        cost: costs[i]!,
        bytes: size * STATE_BYTES_PER_WEIGHT,
      }));
      return cutLayers(layers, grid.stages, { ring: model.ring, lossCost: model.cost?.logits ?? 0 });
    };
    // Times differ between ranks, so one rank cuts for all.
    const cut = await world.broadcastObject(world.rank === 0 ? await cutModel() : undefined, world.ranks[0]!);
    if (!grid.groups) return { cut, stage: null };
    const { pipeline, data } = grid.groups;
    const stage = await PipelineStage.create(model, pipeline, {
      stages: cut,
      optimizer: createOptimizer,
      dataGroup: data,
      precision: job.codec === 'fp16' ? 'fp16' : 'fp32',
      recompute: job.recompute,
      clock,
    });
    return { cut, stage: new PipelineModelStage(model, stage, grid, task) };
  }

  get layerNames(): string[] {
    return this.#stage.layerNames;
  }

  /** The most bytes that this tab has needed: tensors, and the parameters' arrays on the CPU. */
  get memoryBytes(): number {
    return Math.max(this.#peakBytes, memoryBytes()) + this.#stage.parameters.cpuBytes;
  }

  /** The state that is equal on all replicas. */
  state(): ArrayBufferView[] {
    return this.#stage.parameters.state();
  }

  /**
   * Computes the gradients of a step, averaged over all replicas.
   *
   * @param indices the samples of this replica.
   * @param samples number of samples of all replicas.
   */
  async learn(indices: Uint32Array, step: number, samples: number): Promise<LearnedStage> {
    const stage = this.#stage;
    const losses: tf.Tensor[] = [];
    const batches = await this.#load(indices, step);
    try {
      const passes = await runStages(stage, this.#plan, {
        rows: () => this.#grid.rows,
        input: (microBatch) => batches[microBatch]!.inputs.clone(),
        pass: (microBatch) => {
          this.#measureMemory();
          return { training: true, mask: batches[microBatch]!.mask, seed: 0 };
        },
        losses: (microBatch) => batches[microBatch]!.losses(this.#model.outputWeights),
        onoutput: (_, loss) => losses.push(loss),
      });
      this.#measureMemory();
      await stage.reduceGradients(samples);
      return {
        loss: losses.length > 0 ? await sumOf(losses) : 0,
        squares: stage.parameters.squaredNorm(),
        passes,
      };
    } catch (error) {
      stage.drop();
      throw error;
    } finally {
      tf.dispose(losses);
      for (const batch of batches) free(batch);
    }
  }

  /** Applies the gradients of {@link learn}, multiplied by `scale` if it is below 1. */
  apply(scale: number): void {
    const { parameters } = this.#stage;
    if (scale < 1) parameters.scale(scale);
    parameters.apply();
  }

  /** Evaluates held-out samples together with the other ranks of this replica. */
  async evaluate(indices: Uint32Array): Promise<Evaluated | null> {
    const batches = await this.#load(indices, null);
    const outputs: (tf.Tensor | undefined)[] = [];
    try {
      await runStages(this.#stage, forwardOnly(this.#plan), {
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

  async #score(outputs: readonly (tf.Tensor | undefined)[], batches: readonly MicroBatch[]): Promise<Evaluated> {
    const all: { lossSum: number; correct: number; sums: number[]; confusion: number[] } = {
      lossSum: 0,
      correct: 0,
      sums: [],
      confusion: [],
    };
    for (const [i, output] of outputs.entries()) {
      const scores = await batches[i]!.evaluate(output!, this.#model.outputWeights);
      const { lossSum, correct, sums = [], confusion = [] } = scores;
      all.lossSum += lossSum;
      all.correct += correct;
      addTo(all.sums, sums);
      addTo(all.confusion, confusion);
    }
    return all;
  }

  /** Loads the micro-batches of this replica's samples. Missing samples have weight 0. */
  #load(indices: Uint32Array, step: number | null): Promise<MicroBatch[]> {
    const { rows, microBatches } = this.#grid;
    return Promise.all(
      Array.from({ length: microBatches }, (_, i) =>
        this.#task.load(indices.subarray(i * rows, (i + 1) * rows), rows, step),
      ),
    );
  }

  #measureMemory(): void {
    this.#peakBytes = Math.max(this.#peakBytes, memoryBytes());
  }
}

/** Measures the layers with one sample. */
async function costsOf(task: PipelineTask, clock: Clock): Promise<number[]> {
  const batch = await task.load(Uint32Array.of(0), 1, 0);
  try {
    return await measureLayers(task.createModel().layers, batch.inputs, clock);
  } finally {
    free(batch);
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
