/** The loop of `fit` and `fitDataset` over epochs and batches. */
import type * as tf from '@tensorflow/tfjs';
import type { DistributedDataParallel } from '../../parallel/ddp/distributedDataParallel.ts';
import { noSamplesError } from './arguments.ts';
import { WeightChangeError } from '../../parallel/backward/weightChangeDetector.ts';
import { PeergradError, errorReasonOf, UsageError } from '../../util/errors.ts';
import type { BatchSource } from './batchSource.ts';
import { LogMeans } from './callbacks.ts';
import { disposeBatch, createTrainingPass, type RankBatch, type CompiledModel } from './compiledModel.ts';
import { evaluateOnAllRanks, type EvaluateHeldOut } from './evaluation.ts';
import { applyGradientOnAllRanks, learningRateOf } from './optimizerStep.ts';
import type { WaitsUntilFailure } from './waitsUntilFailure.ts';
import { exchangeBatchReports, type BatchReport } from './turn.ts';
import { adoptWeightsOfRankZero } from './weightChanges.ts';

export interface EpochLoopOptions {
  ddp: DistributedDataParallel;
  model: CompiledModel;
  parameters: readonly tf.Variable[];
  source: BatchSource;
  callbacks: tf.CallbackList;
  waits: WaitsUntilFailure;
  /** Held-out samples of this rank; `null`: no validation. */
  validation: EvaluateHeldOut | null;
  /** Number of the first epoch. Training ends before the epoch with the number `epochs`. */
  initialEpoch: number;
  epochs: number;
  /** Whether at least one rank has a callback for batches. */
  exchangesBatches: boolean;
  /** Whether at least one rank has a callback that is called before each batch. */
  exchangesBegins: boolean;
  /** Whether every rank runs the optimizer; see {@link applyGradientOnAllRanks}. */
  runsFlat: boolean;
}

export class EpochLoop {
  readonly #options: EpochLoopOptions;

  constructor(options: EpochLoopOptions) {
    this.#options = options;
  }

  async run(): Promise<void> {
    const { model, callbacks, waits, initialEpoch, epochs } = this.#options;
    await waits.until(callbacks.onTrainBegin());
    model.stopTraining = false;
    for (let epoch = initialEpoch; epoch < epochs; epoch++) {
      await waits.until(callbacks.onEpochBegin(epoch));
      const { logs, isComplete } = await this.#train(epoch);
      const held = isComplete ? await this.#validate() : {};
      await waits.until(callbacks.onEpochEnd(epoch, { ...held, ...logs }));
      const { stops } = await this.#exchange(0);
      if (stops) break;
    }
    await waits.until(callbacks.onTrainEnd());
    // This last exchange lets all ranks reject if a callback of one rank has failed.
    await this.#exchange(0);
  }

  /**
   * Trains on the batches of an epoch.
   *
   * @returns the means of the batches' logs. `isComplete` tells whether all batches of the epoch
   *   were computed.
   */
  async #train(epoch: number): Promise<{ logs: Record<string, number>; isComplete: boolean }> {
    const { source, callbacks, waits, model, exchangesBegins, initialEpoch } = this.#options;
    const means = new LogMeans();
    await waits.until(source.begin(epoch));
    for (let index = 0; ; index++) {
      const batch = await waits.until(source.next(index), (late) => late && disposeBatch(late));
      try {
        const { stops, samples: size } = await this.#nextTurn(index, batch?.samples ?? 0);
        if (stops || size === 0) {
          if (!stops && index === 0 && epoch === initialEpoch) throw noSamplesError();
          if (!stops && source.steps !== null && index < source.steps) warnOfEnd(source.steps, index);
          return { logs: means.means, isComplete: size === 0 };
        }
        const logs = { batch: index, size };
        await waits.until(callbacks.onBatchBegin(index, { ...logs }));
        // The callback may have set weights on rank 0. Then all ranks must receive them before the
        // step.
        if (exchangesBegins) await this.#exchange(batch?.samples ?? 0);
        const results = await this.#step(batch, size, `batch ${index} of epoch ${epoch}`);
        means.add(results.logs, size);
        await waits.until(callbacks.onBatchEnd(index, { ...logs, ...results.logs }));
        if (!results.stops) continue;
        model.stopTraining = true;
        return { logs: means.means, isComplete: index + 1 === source.steps };
      } finally {
        if (batch) disposeBatch(batch);
      }
    }
  }

  /**
   * Returns the turn of all ranks before a batch. Ranks exchange their turns only if this is
   * necessary.
   */
  async #nextTurn(index: number, ownSamples: number): Promise<BatchReport> {
    const { source, exchangesBatches } = this.#options;
    const samples = source.sizeOf(index);
    if (samples !== null && index > 0 && !exchangesBatches) return { stops: false, isChanged: false, samples };
    return this.#exchange(ownSamples);
  }

  /**
   * Ends training on all ranks if one rank ends it. If weights were set on rank 0, all ranks get
   * them.
   */
  async #exchange(samples: number): Promise<BatchReport> {
    const { ddp, model, runsFlat } = this.#options;
    const { group } = ddp;
    // This check ends training in an aborted group. Collectives do not end it if the group has a
    // single rank, because then there are none.
    if (group.failure) throw group.failure;
    const turn = await exchangeBatchReports(group, {
      stops: model.stopTraining,
      isChanged: ddp.isModelChanged,
      samples,
      learningRate: runsFlat ? learningRateOf(model.optimizer) : null,
    });
    if (turn.stops) model.stopTraining = true;
    if (turn.isChanged) await adoptWeightsOfRankZero(ddp);
    return turn;
  }

  /**
   * @returns the means of the batch. `stops` tells whether training was ended on a rank before its
   *   pass.
   */
  async #step(
    batch: RankBatch | null,
    totalSamples: number,
    where: string,
  ): Promise<{ logs: Record<string, number>; stops: boolean }> {
    const { ddp, model, parameters, runsFlat } = this.#options;
    const { rank, worldSize } = ddp.group;
    try {
      const pass = batch ? createTrainingPass(model, batch) : { inputs: [], loss: noLoss };
      const { loss, metrics } = await ddp.backward(pass, { samples: batch?.samples ?? 0, totalSamples });
      await applyGradientOnAllRanks(ddp, model.optimizer, parameters, runsFlat);
      const [, ...names] = model.getDedupedMetricsNames();
      const logs = { loss, ...Object.fromEntries(names.map((name, i) => [name, metrics[i]!])) };
      return { logs, stops: metrics.at(-1)! > 0 };
    } catch (error) {
      if (error instanceof WeightChangeError) {
        throw new UsageError(
          `The weight "${error.weight}" of rank ${rank}'s model was set during ${where}. The next step would undo the change. ` +
            'Set weights in a callback, or between two calls of fit.',
          { rank, worldSize },
        );
      }
      if (error instanceof PeergradError) throw error;
      throw new PeergradError(
        `Rank ${rank} cannot train on ${where}: ${errorReasonOf(error)}. Check the shapes and dtypes of its data, and the layers ` +
          'and losses of the model.',
        { rank, worldSize },
        { cause: error },
      );
    }
  }

  async #validate(): Promise<Record<string, number>> {
    const { ddp, model, validation } = this.#options;
    if (!validation) return {};
    const values = await evaluateOnAllRanks(ddp.group, validation);
    return Object.fromEntries(model.getDedupedMetricsNames().map((name, i) => [`val_${name}`, values[i]!]));
  }
}

function warnOfEnd(steps: number, done: number): void {
  console.warn(
    `The dataset ended after ${done} batches, but batchesPerEpoch is ${steps}. Use dataset.repeat(), or fewer batches.`,
  );
}

/** The loss function of a rank without samples. It is never called. */
function noLoss(): never {
  throw new PeergradError('A batch without samples has no loss.');
}
