/** Runs a plan with the layers of this rank's stages. */
import type { Tensor } from '../backward/flatten.ts';
import type { LayerPass } from './pipelineLayer.ts';
import type { PipelineStage } from './pipelineStage.ts';
import { runPipelinePlan, type PipelinePlanRunOptions } from './runPlan.ts';
import type { StageLoss } from './stageLayers.ts';
import type { PipelinePlan, TimedStagePass } from './schedules.ts';

/** The micro-batches of a step, as this rank needs them. */
export interface StepMicroBatches {
  /** First dimension of a micro-batch's tensors. */
  rows(microBatch: number): number;
  /** Returns the input of the first layer, on rank 0. The stage disposes of it. */
  input(microBatch: number): Tensor;
  pass(microBatch: number): LayerPass;
  /**
   * Index of the model's first layer that is trained, equal on all ranks; 0 by default. Stages
   * before it have no backward passes.
   */
  firstTrained?: number;
  /**
   * Returns the parts of a micro-batch's loss, summed over its samples, as functions of the output
   * of the last layer. They are computed one after another. `null`: the outputs are computed
   * without gradients.
   */
  losses: ((microBatch: number) => readonly StageLoss[]) | null;
  /** Called after each pass of a step. After a forward pass, the stage keeps its activations. */
  onpass?(): void;
  /** See {@link PipelinePlanRunOptions.during}. */
  during?: NonNullable<PipelinePlanRunOptions['during']>;
  /** Receives the loss or, without a loss, the output of the last layer, and disposes of it. */
  onoutput(microBatch: number, output: Tensor): void;
}

/**
 * Runs this rank's passes. Gradients are added to those of the stage.
 *
 * @param plan with a loss: forward and backward passes; without: forward passes only.
 * @returns see {@link runPipelinePlan}.
 */
export function runStagePasses(
  stage: PipelineStage,
  plan: PipelinePlan,
  batches: StepMicroBatches,
): Promise<TimedStagePass[]> {
  const { group, boundary, clock, yielder, stages } = stage;
  const { losses, firstTrained = 0 } = batches;
  const last = plan.stages - 1;
  const learns = (at: number): boolean => firstTrained < stage.endOf(at);
  const passes = plan.passes.map((own) => own.filter(({ kind, stage: at }) => kind === 'forward' || learns(at)));
  return runPipelinePlan({
    ...(batches.during && { during: batches.during }),
    plan: { ...plan, passes },
    rank: group.rank,
    boundary,
    clock,
    yielder,
    shapesBefore: (at, microBatch) => {
      const { value, padding } = stage.shapesBefore(at);
      const rows = batches.rows(microBatch);
      return { value: [rows, ...value], padding: padding && [rows, ...padding] };
    },
    forward: async (at, microBatch, input) => {
      const layers = stages.get(at)!;
      const [x, padding = null] = input ?? [batches.input(microBatch)];
      const from = { x: x!, padding };
      const pass = batches.pass(microBatch);
      let output: Tensor[];
      if (losses && learns(at)) {
        output = await layers.forward(microBatch, from, pass, at === last ? losses(microBatch) : null);
      } else output = await layers.infer(from, pass);
      if (losses) batches.onpass?.();
      if (at < last) return output;
      const [result, mask] = output;
      mask?.dispose();
      batches.onoutput(microBatch, result!);
      return null;
    },
    backward: async (at, microBatch, dy) => {
      const gradient = await stages.get(at)!.backward(microBatch, dy?.[0] ?? null, firstTrained);
      batches.onpass?.();
      return gradient && [gradient];
    },
  });
}

/** Returns the plan without its backward passes. */
export function planForwardOnly(plan: PipelinePlan): PipelinePlan {
  return { ...plan, passes: plan.passes.map((own) => own.filter(({ kind }) => kind === 'forward')) };
}
