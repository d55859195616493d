/**
 * `ScheduleGPipe` and `Schedule1F1B`: train a {@link PipelineStage} by a plan of `schedules.ts`.
 * Names and meanings are those of torch.distributed.pipelining.
 */
import * as tf from '@tensorflow/tfjs';
import { evenDisplacements } from '../../collectives/plans/plans.ts';
import { mixSeed } from '../../util/rng.ts';
import { asError, MismatchError, UsageError } from '../../util/errors.ts';
import type { Scalar, Tensor } from '../backward/flatten.ts';
import type { PipelineStage } from './pipelineStage.ts';
import { planForwardOnly, runStagePasses } from './runStagePasses.ts';
import { gpipe, oneForwardOneBackward, rankOfStage, type PipelinePlan, type TimedStagePass } from './schedules.ts';

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
  /** Mean loss of all samples of all replicas; equal on all ranks. */
  loss: number;
  /** Number of samples of all replicas. */
  samples: number;
  /** The passes of this rank, with times in milliseconds of the stage's clock. */
  passes: TimedStagePass[];
}

/** Numbers about a replica's batch and layers. In messages between replicas they come first. */
interface ReplicaCounts {
  samples: number;
  targets: number;
  /** See `PipelineStage.unfrozenLayer`. Without such a layer it is {@link NO_LAYER}. */
  unfrozenLayer: number;
  /** Index of the first layer of the model that is trained; {@link NO_LAYER}: all are frozen. */
  firstTrained: number;
}

const COUNTS = 4;
/** Stands for no layer. It is larger than all indices of layers. */
const NO_LAYER = 2 ** 31 - 1;

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
   * A batch with fewer samples than micro-batches has fewer micro-batches. A replica may have no
   * samples, if another replica has samples.
   *
   * @throws (rejects) UsageError on every rank of every replica if a rank lacks inputs or targets
   *   that it needs, or if it trains a layer that was frozen when its stage was created;
   *   MismatchError if replicas have frozen different layers; errors of messages.
   */
  async step(batch: PipelineBatch = {}): Promise<PipelineStepReport> {
    const stage = this.#stage;
    const { group, dataGroup } = stage;
    const own = await this.#exchangeCounts(batch);
    const samples = await this.#samplesOfAll(own);
    const cuts = [...evenDisplacements(own.samples, this.plan.microBatches)];
    this.#step += 1;
    const losses: Tensor[] = [];
    let passes: TimedStagePass[];
    try {
      passes = await this.#run(this.plan, cuts, batch, own.firstTrained, (output) => losses.push(output));
    } catch (error) {
      tf.dispose(losses);
      stage.drop();
      // The other ranks wait for values of this rank, so their groups must fail, too.
      for (const waiting of [group, dataGroup]) waiting?.abort(asError(error));
      throw error;
    }
    const penalty = await stage.reduceGradients(samples, own.samples > 0);
    const loss = Float64Array.of((losses.length > 0 ? await sumOf(losses) : 0) + penalty * samples);
    await group.allReduce(loss);
    await dataGroup?.allReduce(loss);
    return { loss: loss[0]! / samples, samples, passes };
  }

  /**
   * Computes the outputs of samples, without gradients and dropout (torch: `schedule.eval`). Every
   * rank must call it.
   *
   * @returns [samples, ...outputShape] on the rank with the last stage, `null` on other ranks. The
   *   caller disposes of it.
   */
  async eval(inputs: Tensor | null = null): Promise<Tensor | null> {
    const { samples } = await this.#exchangeCounts({ inputs });
    if (samples === 0) throw this.#unfit(`Rank ${this.#stage.group.ranks[0]} has no inputs. Pass inputs on this rank.`);
    const cuts = [...evenDisplacements(samples, this.plan.microBatches)];
    const outputs: Tensor[] = [];
    try {
      await this.#run(planForwardOnly(this.plan), cuts, { inputs }, null, (output) => outputs.push(output));
      return outputs.length === 0 ? null : tf.concat(outputs);
    } finally {
      tf.dispose(outputs);
    }
  }

  /** @param firstTrained see `StepMicroBatches`; `null`: nothing is trained. */
  #run(
    plan: PipelinePlan,
    cuts: readonly number[],
    { inputs, targets }: PipelineBatch,
    firstTrained: number | null,
    onoutput: (output: Tensor) => void,
  ): Promise<TimedStagePass[]> {
    const { loss, seed = 0 } = this.#options;
    const training = firstTrained !== null;
    const part = (tensor: Tensor, microBatch: number): Tensor =>
      tf.slice(tensor, cuts[microBatch]!, cuts[microBatch + 1]! - cuts[microBatch]!);
    const samplesOf = (microBatch: number): number => cuts[microBatch + 1]! - cuts[microBatch]!;
    const passes = plan.passes.map((own) => own.filter(({ microBatch }) => samplesOf(microBatch) > 0));
    return runStagePasses(
      this.#stage,
      { ...plan, passes },
      {
        rows: samplesOf,
        input: (microBatch) => part(inputs!, microBatch),
        ...(training && { firstTrained }),
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
      },
    );
  }

  /** Combines the numbers of all ranks of this replica. Every rank of the pipeline must call it. */
  async #exchangeCounts({ inputs, targets }: PipelineBatch): Promise<ReplicaCounts> {
    const { group, unfrozenLayer, firstTrained } = this.#stage;
    const layers = [unfrozenLayer ?? NO_LAYER, firstTrained ?? NO_LAYER];
    const own = Int32Array.of(inputs?.shape[0] ?? 0, targets?.shape[0] ?? 0, ...layers);
    const all = await group.allGather(own);
    return {
      samples: all[0]![0]!,
      targets: all[rankOfStage(this.plan, this.plan.stages - 1)]![1]!,
      unfrozenLayer: Math.min(...all.map(([, , layer]) => layer!)),
      firstTrained: Math.min(...all.map(([, , , layer]) => layer!)),
    };
  }

  /**
   * Returns the number of samples of all replicas.
   *
   * @throws (rejects) UsageError on every rank of every replica, see {@link step}.
   */
  async #samplesOfAll({ samples, targets, unfrozenLayer, firstTrained }: ReplicaCounts): Promise<number> {
    const { dataGroup, group, parameters } = this.#stage;
    const own = Int32Array.of(samples, targets, unfrozenLayer, firstTrained, ...parameters.trained);
    const all = (await dataGroup?.allGather(own)) ?? [own];
    for (const [replica, [inputs, labels, layer]] of all.entries()) {
      const which = all.length > 1 ? ` of replica ${replica}` : '';
      if (layer !== NO_LAYER) {
        throw this.#unfit(
          `The layer "${this.#stage.nameOf(layer!)}"${which} was frozen when its stage was created, and is trained now. It has no optimizer. ` +
            'Freeze it again, or create the stage again.',
        );
      }
      if (labels !== inputs) {
        throw this.#unfit(
          `The first rank${which} has inputs for ${inputs} samples, but the rank with the last stage${which} has targets for ${labels}. ` +
            'Pass inputs and targets of the same samples.',
        );
      }
    }
    if (firstTrained === NO_LAYER) {
      throw this.#unfit('All layers with weights are frozen. Set `trainable` of a layer before the stage is created.');
    }
    const odd = all.findIndex((trained) => trained.slice(COUNTS).join() !== own.slice(COUNTS).join());
    if (odd !== -1) {
      const error = new MismatchError(
        `Replicas ${dataGroup!.rank} and ${odd} have frozen different layers. Freeze the same layers on all replicas.`,
      );
      // The ranks of other stages have other layers, so they cannot notice the difference. This
      // error ends their group.
      group.abort(error);
      throw error;
    }
    const total = all.reduce((sum, [inputs]) => sum + inputs!, 0);
    if (total === 0) {
      throw this.#unfit(
        `No replica has samples for this step. Pass inputs on the first rank of a replica, or skip the step.`,
      );
    }
    return total;
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
