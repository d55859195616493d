/** Runs a plan with the layers of this rank's stages. */
import * as tf from '@tensorflow/tfjs';
import type { Scalar, Tensor } from '../ddp/flatten.ts';
import type { LayerPass } from './pipelineLayer.ts';
import type { PipelineStage } from './pipelineStage.ts';
import { runPlan } from './runPlan.ts';
import type { PipelinePlan, TimedPass } from './schedules.ts';

/** The micro-batches of a step, as this rank needs them. */
export interface MicroBatches {
  /** First dimension of a micro-batch's tensors. */
  rows(microBatch: number): number;
  /** Returns the input of the first layer, on rank 0. The stage disposes of it. */
  input(microBatch: number): Tensor;
  pass(microBatch: number): LayerPass;
  /**
   * Returns the loss of a micro-batch, summed over its samples, from the output of the last layer.
   * `null`: the outputs are computed without gradients.
   */
  loss: ((microBatch: number, output: Tensor) => Scalar) | null;
  /** Receives the loss or, without a loss, the output of the last layer, and disposes of it. */
  onoutput(microBatch: number, output: Tensor): void;
}

/**
 * Runs this rank's passes. Gradients are added to those of the stage.
 *
 * @param plan with a loss: forward and backward passes; without: forward passes only.
 * @returns see {@link runPlan}.
 */
export function runStages(stage: PipelineStage, plan: PipelinePlan, batches: MicroBatches): Promise<TimedPass[]> {
  const { group, boundary, clock, stages, parameters } = stage;
  const { loss } = batches;
  const last = plan.stages - 1;
  return runPlan({
    plan,
    rank: group.rank,
    boundary,
    clock,
    shapeBefore: (at, microBatch) => [batches.rows(microBatch), ...stage.shapeBefore(at)],
    forward: (at, microBatch, x) => {
      const layers = stages.get(at)!;
      const input = x ?? batches.input(microBatch);
      const pass = batches.pass(microBatch);
      let output: Tensor;
      if (loss) {
        const lossOf = at === last ? (y: Tensor): Scalar => loss(microBatch, y) : null;
        output = layers.forward(microBatch, input, pass, lossOf);
      } else {
        output = layers.infer(input, pass);
        input.dispose();
      }
      if (at < last) return output;
      batches.onoutput(microBatch, output);
      return null;
    },
    backward: (at, microBatch, dy) => {
      const gradient = dy ?? tf.scalar(1);
      const { dx, gradients } = stages.get(at)!.backward(microBatch, gradient, at > 0);
      if (!dy) gradient.dispose();
      parameters.add(gradients);
      return dx;
    },
  });
}

/** Returns the plan without its backward passes. */
export function forwardOnly(plan: PipelinePlan): PipelinePlan {
  return { ...plan, passes: plan.passes.map((own) => own.filter(({ kind }) => kind === 'forward')) };
}
