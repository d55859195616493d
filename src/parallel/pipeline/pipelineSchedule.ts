/**
 * `ScheduleGPipe` and `Schedule1F1B`: train a {@link PipelineStage} by a plan of `schedules.ts`.
 * Names and meanings are those of torch.distributed.pipelining.
 */
import * as tf from '@tensorflow/tfjs';
import { evenDisplacements } from '../../collectives/plans/plans.ts';
import { mixSeed } from '../../util/rng.ts';
import { asError, UsageError } from '../../util/errors.ts';
import type { Scalar, Tensor } from '../ddp/flatten.ts';
import type { PipelineStage } from './pipelineStage.ts';
import { forwardOnly, runStages } from './runStages.ts';
import { gpipe, oneForwardOneBackward, rankOfStage, type PipelinePlan, type TimedPass } from './schedules.ts';

export interface PipelineScheduleOptions {
  /** Number of micro-batches of a step. */
  microBatches: number;
  /** The mean loss of a micro-batch, computed on the rank with the last stage. */
  loss: (outputs: Tensor, targets: Tensor) => Scalar;
  /** Seed of dropout. 0 by default. */
  seed?: number;
}

/** A replica's samples of one step. */
export interface PipelineBatch {
  /** [samples, ...inputShape]; needed on rank 0 of the pipeline and ignored on other ranks. */
  inputs?: Tensor | null;
  /** [samples, ...]; needed on the rank with the last stage and ignored on other ranks. */
  targets?: Tensor | null;
}

export interface PipelineStepReport {
  /** Mean over all samples of all replicas. Equal on all ranks. */
  loss: number;
  /** Number of samples of all replicas. */
  samples: number;
  /** The passes of this rank, with times in milliseconds of the stage's clock. */
  passes: TimedPass[];
}

abstract class PipelineSchedule {
  readonly plan: PipelinePlan;
  readonly #stage: PipelineStage;
  readonly #options: PipelineScheduleOptions;
  #step = 0;

  constructor(stage: PipelineStage, plan: PipelinePlan, options: PipelineScheduleOptions) {
    this.plan = plan;
    this.#stage = stage;
    this.#options = options;
  }

  /**
   * Computes the gradients of one step: all micro-batches forward and backward, then the average
   * over all samples of all replicas. Afterwards call `stage.step()`. Every rank must call it.
   *
   * @throws (rejects) UsageError if a rank has no inputs or targets that it needs, or fewer samples
   *   than micro-batches; errors of messages.
   */
  async step(batch: PipelineBatch = {}): Promise<PipelineStepReport> {
    const stage = this.#stage;
    const { group, dataGroup } = stage;
    const cuts = await this.#cutBatch(batch, true);
    const samples = Float64Array.of(cuts.at(-1)!);
    const summed = dataGroup?.allReduce(samples);
    this.#step += 1;
    const losses: Tensor[] = [];
    let passes: TimedPass[];
    try {
      passes = await this.#run(this.plan, cuts, batch, true, (output) => losses.push(output));
    } catch (error) {
      tf.dispose(losses);
      stage.drop();
      // The other ranks wait for this rank's values.
      group.abort(asError(error));
      throw error;
    }
    await summed;
    await stage.reduceGradients(samples[0]!);
    const loss = Float64Array.of(losses.length > 0 ? await sumOf(losses) : 0);
    await group.broadcast(loss, group.ranks[rankOfStage(this.plan, this.plan.stages - 1)]!);
    await dataGroup?.allReduce(loss);
    return { loss: loss[0]! / samples[0]!, samples: samples[0]!, passes };
  }

  /**
   * Computes the outputs of samples, without gradients and dropout (torch: `schedule.eval`). Every
   * rank must call it.
   *
   * @returns [samples, ...outputShape] on the rank with the last stage, `null` on other ranks. The
   *   caller disposes of it.
   */
  async eval(inputs: Tensor | null = null): Promise<Tensor | null> {
    const cuts = await this.#cutBatch({ inputs }, false);
    const outputs: Tensor[] = [];
    try {
      await this.#run(forwardOnly(this.plan), cuts, { inputs }, false, (output) => outputs.push(output));
      return outputs.length === 0 ? null : tf.concat(outputs);
    } finally {
      tf.dispose(outputs);
    }
  }

  #run(
    plan: PipelinePlan,
    cuts: readonly number[],
    { inputs, targets }: PipelineBatch,
    training: boolean,
    onoutput: (output: Tensor) => void,
  ): Promise<TimedPass[]> {
    const { loss, seed = 0 } = this.#options;
    const part = (tensor: Tensor, microBatch: number): Tensor =>
      tf.slice(tensor, cuts[microBatch]!, cuts[microBatch + 1]! - cuts[microBatch]!);
    const samplesOf = (microBatch: number): number => cuts[microBatch + 1]! - cuts[microBatch]!;
    return runStages(this.#stage, plan, {
      rows: samplesOf,
      input: (microBatch) => part(inputs!, microBatch),
      pass: (microBatch) => ({
        training,
        mask: null,
        seed: mixSeed(seed, this.#step, this.#stage.dataGroup?.rank ?? 0, microBatch),
      }),
      // The loss of a micro-batch is weighted by its samples, so that parts of unequal size count
      // correctly.
      losses: training
        ? (microBatch) => [
            (output) => tf.tidy(() => loss(output, part(targets!, microBatch)).mul<Scalar>(samplesOf(microBatch))),
          ]
        : null,
      onoutput: (_, output) => onoutput(output),
    });
  }

  /**
   * Returns the first sample of each micro-batch and the number of samples.
   *
   * @throws (rejects) UsageError on every rank if the batch does not fit.
   */
  async #cutBatch({ inputs, targets }: PipelineBatch, training: boolean): Promise<number[]> {
    const { group } = this.#stage;
    const { microBatches, stages } = this.plan;
    const counts = await group.allGather(Int32Array.of(inputs?.shape[0] ?? 0, targets?.shape[0] ?? 0));
    const lastRank = rankOfStage(this.plan, stages - 1);
    const samples = counts[0]![0]!;
    const labels = counts[lastRank]![1]!;
    if (samples < microBatches) {
      throw this.#unfit(
        `The batch of rank ${group.ranks[0]} has ${samples} samples, but a step has ${microBatches} micro-batches. Pass inputs for at least ` +
          `${microBatches} samples on this rank, or use fewer micro-batches.`,
      );
    }
    if (training && labels !== samples) {
      throw this.#unfit(
        `Rank ${group.ranks[0]} has inputs for ${samples} samples, but rank ${group.ranks[lastRank]}, which has the last stage, has targets for ` +
          `${labels}. Pass inputs and targets of the same samples.`,
      );
    }
    return [...evenDisplacements(samples, microBatches)];
  }

  #unfit(message: string): UsageError {
    const { ranks, rank, worldSize } = this.#stage.group;
    return new UsageError(message, { rank: ranks[rank]!, worldSize });
  }
}

/** GPipe: all forward passes, then all backward passes. See {@link gpipe}. */
export class ScheduleGPipe extends PipelineSchedule {
  constructor(stage: PipelineStage, options: PipelineScheduleOptions) {
    super(stage, gpipe(stage.group.worldSize, options.microBatches, { ring: stage.isRing }), options);
  }
}

/** 1F1B: backward passes as soon as possible. See {@link oneForwardOneBackward}. */
export class Schedule1F1B extends PipelineSchedule {
  constructor(stage: PipelineStage, options: PipelineScheduleOptions) {
    super(stage, oneForwardOneBackward(stage.group.worldSize, options.microBatches, { ring: stage.isRing }), options);
  }
}

async function sumOf(losses: Tensor[]): Promise<number> {
  const stacked = tf.stack(losses);
  tf.dispose(losses);
  try {
    let sum = 0;
    for (const value of await stacked.data()) sum += value;
    return sum;
  } finally {
    stacked.dispose();
  }
}
