/** The common parts of `fit` and `fitDataset`. */
import type * as tf from '@tensorflow/tfjs';
import type { DistributedDataParallel } from '../../parallel/ddp/distributedDataParallel.ts';
import { canRunOptimizerFlat } from '../../parallel/flat/optimizerOf.ts';
import type { SharedArguments } from './agreement.ts';
import { checkWholeAtLeast } from '../../parallel/groups/checks.ts';
import type { BatchSource } from './batchSource.ts';
import {
  isCalledBeforeBatches,
  isCalledOnBatches,
  createCallbacks,
  createTensorflowCallbackList,
} from './callbacks.ts';
import { EpochLoop } from './epochs.ts';
import type { EvaluateHeldOut } from './evaluation.ts';
import type { EvaluationContext } from './heldOutData.ts';
import { describeOptimizer } from './optimizerStep.ts';

export interface TrainingArgs extends Pick<
  tf.ModelFitArgs,
  'callbacks' | 'yieldEvery' | 'verbose' | 'initialEpoch' | 'epochs' | 'classWeight'
> {
  sharded?: boolean | undefined;
  sampleWeight?: unknown;
}

/** Properties of one rank's optimizer and callbacks, which it reports to all ranks. */
export interface RankTrainingFacts {
  runsFlat: boolean;
  actsOnBatches: boolean;
  actsBeforeBatches: boolean;
}

export interface PreparedTraining {
  shared: SharedArguments;
  own: RankTrainingFacts;
  /** @param facts the numbers of samples that callbacks receive. */
  run: (
    all: readonly RankTrainingFacts[],
    source: BatchSource,
    facts: { samples: number | null; batchSize: number | null },
  ) => Promise<tf.History>;
}

/**
 * Prepares training on this rank.
 *
 * @param heldOut samples for validation; `null` if there are none.
 * @throws UsageError for invalid arguments.
 */
export function prepareTraining(
  { model, waits }: EvaluationContext,
  ddp: DistributedDataParallel,
  parameters: readonly tf.Variable[],
  args: TrainingArgs,
  heldOut: EvaluateHeldOut | null,
): PreparedTraining {
  const epochs = checkWholeAtLeast('epochs', args.epochs ?? 1, 0);
  const initialEpoch = checkWholeAtLeast('initialEpoch', args.initialEpoch ?? 0, 0);
  const callbacks = createCallbacks(args);
  const { optimizer } = model;
  return {
    shared: {
      ...describeOptimizer(optimizer),
      epochs,
      initialEpoch,
      classWeight: args.classWeight ? JSON.stringify(args.classWeight) : null,
      'the presence of sampleWeight': Boolean(args.sampleWeight),
      'the presence of held-out samples': heldOut !== null,
    },
    own: {
      runsFlat: canRunOptimizerFlat(optimizer),
      actsOnBatches: callbacks.some(isCalledOnBatches),
      actsBeforeBatches: callbacks.some(isCalledBeforeBatches),
    },
    run: async (all, source, { samples, batchSize }) => {
      const names = model.getDedupedMetricsNames();
      const { list, history } = createTensorflowCallbackList(model, callbacks, {
        epochs,
        initialEpoch,
        samples,
        steps: source.steps,
        batchSize,
        verbose: args.verbose ?? 1,
        doValidation: heldOut !== null,
        metrics: heldOut ? [...names, ...names.map((name) => `val_${name}`)] : names,
      });
      model.history = history;
      await new EpochLoop({
        ddp,
        model,
        parameters,
        source,
        callbacks: list,
        waits,
        validation: heldOut,
        initialEpoch,
        epochs,
        exchangesBatches: all.some((each) => each.actsOnBatches),
        exchangesBegins: all.some((each) => each.actsBeforeBatches),
        runsFlat: all.every((each) => each.runsFlat),
      }).run();
      return history;
    },
  };
}
