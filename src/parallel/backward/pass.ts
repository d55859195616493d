/** One forward and backward pass of a rank. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { UsageError } from '../../util/errors.ts';
import {
  disposeAll,
  emptyInputs,
  gradientsOf,
  keepScaledTensor,
  type ComputedGradients,
  type Model,
  type ModelPass,
  type ModelVariables,
  type Scalar,
  type Tensor,
  type Variable,
} from './flatten.ts';
import { CommittedVariables } from './committedVariables.ts';
import { stagedGradientsOf } from './stagedGradients.ts';
import { hasSyncBatchNorm } from './stages.ts';
import type { GradScaler } from './gradScaler.ts';
import type { PassWithDeclaredInputs, PassCaptures } from './passCaptures.ts';
import type { GradientListener } from './tape.ts';

/**
 * A function that returns the loss; or, for a LayersModel, its inputs and a function that returns
 * the loss of its outputs.
 */
export type Pass<Outputs extends Tensor | Tensor[] = Tensor> =
  | (() => Scalar)
  | PassWithDeclaredInputs
  | ModelPass<Outputs>;

export interface PassOptions {
  /** Number of samples that this rank's loss covers; may be 0. */
  samples: number;
  /** Whether the loss is the mean over those samples (default) or their sum. */
  reduction?: 'mean' | 'sum';
  /**
   * Number of samples of all ranks in this reduction, including those of `noSync`. It must be the
   * same on every rank. Codecs and hooks need the total before gradients are sent. If the total is
   * missing, ranks first sum their numbers of samples, in one more all-reduce. The option is
   * ignored inside `join`.
   */
  totalSamples?: number;
  /**
   * Computes the pass in mixed precision with this scaler. Ranks with and without a scaler may
   * train together. Gradients are sent only after all of them are known to be finite, so
   * communication does not overlap with computation.
   */
  gradScaler?: GradScaler | null;
  /**
   * Replays passes that declare their inputs (see `passCaptures.ts`), unless there is a
   * {@link gradScaler}. The captures must belong to the parameters of this model.
   */
  captures?: PassCaptures | null;
  /**
   * Called when this rank has computed and read its gradients. The rank then waits for other ranks.
   */
  oncomputed?: (() => void) | undefined;
  /**
   * A signal that ends the reduction. When it is aborted, the group fails on every rank with
   * AbortError, which names this rank.
   */
  signal?: AbortSignal | undefined;
}

/**
 * Differentiates the loss summed over samples, or the mean loss if `wanted` is `mean`. Without
 * samples nothing is computed, but a pass through a model still takes part in the collectives of
 * its SyncBatchNormalization layers.
 *
 * @param onfinal see {@link gradientsOfPass}.
 * @returns `null` without samples. The caller disposes of the result.
 * @throws (rejects) UsageError if `samples` is negative or not finite, inputs are passed without a
 *   model, or a function is passed for a model with SyncBatchNormalization layers in a group of
 *   several ranks; errors of {@link gradientsOfPass}.
 */
export async function differentiatePass<Outputs extends Tensor | Tensor[]>(
  pass: Pass<Outputs>,
  { samples, reduction = 'mean', gradScaler = null, captures = null }: PassOptions,
  { model, parameters, buffers }: ModelVariables,
  group: ProcessGroup,
  wanted: 'sum' | 'mean' = 'sum',
  onfinal?: GradientListener,
): Promise<ComputedGradients | null> {
  if (!(samples >= 0 && samples < Infinity)) {
    throw new UsageError(`samples is ${samples}; pass the number of samples that the loss covers.`);
  }
  const scale = reduction === wanted ? 1 : wanted === 'sum' ? samples : 1 / samples;
  if (typeof pass === 'function') {
    if (model && exchangesStatistics(model, group)) {
      throw new UsageError(
        `The model "${model.name}" has SyncBatchNormalization layers, but a pass that is a function applies these layers to this ` +
          "rank's samples alone. Pass the model's inputs and the loss of its outputs instead: { inputs, loss: (outputs) => .. }.",
      );
    }
    if (samples === 0) return null;
    if (captures && !gradScaler && 'inputs' in pass) return captures.gradientsOf(pass, scale, onfinal);
    if (!gradScaler) return gradientsOf(pass, parameters, scale, onfinal);
    return differentiateScaled(gradScaler, buffers, (factor) => gradientsOf(pass, parameters, scale * factor));
  }
  if (!model) {
    throw new UsageError(
      'The pass has inputs for a model, but a list of variables is trained. Pass a function that computes the loss.',
    );
  }
  if (gradScaler && exchangesStatistics(model, group)) {
    throw new UsageError(
      `The model "${model.name}" has SyncBatchNormalization layers, whose passes run in full precision. Remove gradScaler.`,
    );
  }
  if (samples > 0) {
    if (!gradScaler) return gradientsOfPass(model, pass, parameters, scale, group, onfinal);
    return differentiateScaled(gradScaler, buffers, (factor) =>
      gradientsOfPass(model, pass, parameters, scale * factor, group),
    );
  }
  await passWithoutSamples({ model, parameters }, group);
  return null;
}

/** Computes a pass in mixed precision. A repeated pass starts with the same buffers. */
async function differentiateScaled(
  gradScaler: GradScaler,
  buffers: readonly Variable[],
  compute: (scale: number) => ComputedGradients | Promise<ComputedGradients>,
): Promise<ComputedGradients> {
  const before = new CommittedVariables(buffers);
  try {
    return await gradScaler.differentiate((scale) => {
      before.rollBack();
      return compute(scale);
    });
  } finally {
    before.dispose();
  }
}

/**
 * Differentiates a pass on this rank alone, in one synchronous call, without metrics. The caller
 * disposes of the result.
 *
 * @param model the model of a pass that is not a function.
 */
export function differentiatePassAlone<Outputs extends Tensor | Tensor[]>(
  pass: Pass<Outputs>,
  { model, parameters }: Pick<ModelVariables, 'model' | 'parameters'>,
): ComputedGradients {
  if (typeof pass === 'function') return gradientsOf(pass, parameters, 1);
  const loss = (): Scalar => pass.loss(model!.apply(pass.inputs, { training: true }) as Outputs);
  return gradientsOf(loss, parameters, 1);
}

/**
 * Runs `model` on `inputs` in training mode and differentiates `scale` times the loss by each of
 * `variables`. SyncBatchNormalization layers use the statistics of all ranks' samples. Every rank
 * must call it, because a model with such layers issues the same collectives on all ranks. Only
 * such a model may be run without samples.
 *
 * The result is this rank's part of the gradient. The sum of the parts of all ranks is the gradient
 * of one value: each rank's `scale` times its loss, summed over all ranks. With a loss that is a
 * mean, `scale` is this rank's number of samples.
 *
 * `onfinal` is called as in {@link gradientsOf}, but never if the model runs in stages.
 *
 * If the model runs in stages, its moving averages are updated only after everything else has
 * succeeded. They are updated on the CPU, so that they stay equal on all ranks bit for bit. The
 * caller disposes of the result.
 *
 * @throws (rejects) UsageError for a wrong number of inputs; errors of {@link stagedGradientsOf};
 *   DeviceError.
 */
export async function gradientsOfPass<Outputs extends Tensor | Tensor[]>(
  model: Model,
  { inputs, loss, metrics }: ModelPass<Outputs>,
  variables: readonly Variable[],
  scale: number,
  group: ProcessGroup,
  onfinal?: GradientListener,
): Promise<ComputedGradients> {
  const tensors = [inputs].flat();
  if (tensors.length !== model.inputs.length) {
    throw new UsageError(
      `The model "${model.name}" has ${model.inputs.length} input(s), but the pass has ${tensors.length}. ` +
        'Pass one tensor for each input.',
    );
  }
  const measured: Tensor[] = [];
  const lossOf = (all: Tensor[]): Scalar => {
    const outputs = (all.length === 1 ? all[0]! : all) as Outputs;
    const value = loss(outputs);
    if (metrics) measured.push(keepScaledTensor(() => metrics(outputs), scale));
    return value;
  };
  const run = (): Promise<ComputedGradients> | ComputedGradients => {
    if (exchangesStatistics(model, group))
      return stagedGradientsOf(model, { inputs: tensors, loss: lossOf }, variables, scale, group);
    const outputs = (): Tensor[] => [model.apply(tensors, { training: true }) as Tensor | Tensor[]].flat();
    return gradientsOf(() => lossOf(outputs()), variables, scale, onfinal);
  };
  try {
    const gradients = await run();
    const [values] = measured;
    if (!values) return gradients;
    return { ...gradients, metrics: values, dispose: () => disposeAll(values, gradients) };
  } catch (error) {
    disposeAll(...measured);
    throw error;
  }
}

/** @throws UsageError if the number of metrics of a pass differs from DDP's option `metrics`. */
export function checkMetrics(computed: ComputedGradients | null, expected: number): void {
  const count = computed?.metrics?.size ?? 0;
  if (!computed || count === expected) return;
  computed.dispose();
  throw new UsageError(
    `The pass has ${count} metric(s), but DistributedDataParallel was created with metrics: ${expected}. Both must be equal.`,
  );
}

/**
 * Runs a pass without samples: takes part only in the collectives of the other ranks' passes
 * through a model.
 */
export async function passWithoutSamples(
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
  return worldSize > 1 && hasSyncBatchNorm(model);
}

/** A loss function that is never called: the pass has no samples. */
function noLoss(): never {
  throw new UsageError('A pass without samples has no loss.');
}
