/** One forward and backward pass of a rank, however its caller gives it. */
import type { ProcessGroup } from '../collectives/processGroup.ts';
import { UsageError } from '../util/errors.ts';
import {
  emptyInputs,
  gradientsOf,
  type Gradients,
  type Model,
  type ModelPass,
  type ModelVariables,
  type Scalar,
  type Tensor,
} from './flatten.ts';
import { gradientsOfPass } from './stagedGradients.ts';
import { hasSyncLayers } from './stages.ts';
import type { GradientListener } from './tape.ts';

/** A function that gives the loss, or, for a LayersModel, inputs to apply it to and the loss of its outputs. */
export type Pass<Outputs extends Tensor | Tensor[] = Tensor> = (() => Scalar) | ModelPass<Outputs>;

export interface PassOptions {
  /** Samples that this rank's loss covers; 0 is fine, the others' count. */
  samples: number;
  /** Whether the loss function gives the mean over those samples (default) or their sum. */
  reduction?: 'mean' | 'sum';
  /**
   * The samples of all ranks in this reduction, including those of `noSync`; the same on every rank. Optional: a codec or a hook
   * takes averages, so without it ranks add up their samples first, which takes 2(n-1) hops. Ignored inside `join`.
   */
  totalSamples?: number;
}

/**
 * Differentiates the sum of the loss over samples, or with `wanted: 'mean'` its mean. Without samples nothing is computed, but a
 * pass through a model still takes part in what its SyncBatchNormalization layers send.
 *
 * @param onfinal see {@link gradientsOfPass}.
 * @returns `null` without samples. The caller disposes of the result.
 * @throws (rejects) UsageError where the number of samples is none, inputs are given for a model that is not known, or a
 *   function for one with SyncBatchNormalization layers in a group of several ranks; what {@link gradientsOfPass} rejects with.
 */
export async function differentiate<Outputs extends Tensor | Tensor[]>(
  pass: Pass<Outputs>,
  { samples, reduction = 'mean' }: PassOptions,
  { model, parameters }: ModelVariables,
  group: ProcessGroup,
  wanted: 'sum' | 'mean' = 'sum',
  onfinal?: GradientListener,
): Promise<Gradients | null> {
  if (!(samples >= 0 && samples < Infinity)) {
    throw new UsageError(`samples is ${samples}; give the number of samples that the loss covers.`);
  }
  const scale = reduction === wanted ? 1 : wanted === 'sum' ? samples : 1 / samples;
  if (typeof pass === 'function') {
    if (model && exchangesStatistics(model, group)) {
      throw new UsageError(
        `The model "${model.name}" has SyncBatchNormalization layers, and a loss that is a function applies them to this ` +
          "rank's samples alone. Give its inputs and the loss of its outputs instead: { inputs, loss: (outputs) => .. }.",
      );
    }
    return samples > 0 ? gradientsOf(pass, parameters, scale, onfinal) : null;
  }
  if (!model) {
    throw new UsageError(
      'This was made with a list of variables, not a model: give a function that computes the loss.',
    );
  }
  if (samples > 0) return gradientsOfPass(model, pass, parameters, scale, group, onfinal);
  await attendPass({ model, parameters }, group);
  return null;
}

/** Takes part in the others' passes through a model, without samples. */
export async function attendPass(
  { model, parameters }: Pick<ModelVariables, 'model' | 'parameters'>,
  group: ProcessGroup,
): Promise<void> {
  if (!model || !exchangesStatistics(model, group)) return;
  const { inputs, dispose } = emptyInputs(model);
  try {
    (await gradientsOfPass(model, { inputs, loss: noLoss }, parameters, 0, group)).dispose();
  } finally {
    dispose();
  }
}

function exchangesStatistics(model: Model, { worldSize }: ProcessGroup): boolean {
  return worldSize > 1 && hasSyncLayers(model);
}

/** Not called where there are no samples. */
function noLoss(): never {
  throw new UsageError('A pass without samples has no loss.');
}
