/**
 * `distribute` runs `model.fit` on several ranks, with TensorFlow.js's arguments and results. Its
 * usage follows that of Horovod with Keras (https://horovod.readthedocs.io/en/stable/keras.html).
 */
import * as tf from '@tensorflow/tfjs';
import { checkWholeAtLeast } from '../../parallel/groups/checks.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { checkSignalNotAborted, failGroupOnAbort } from '../../collectives/work.ts';
import { DistributedDataParallel } from '../../parallel/ddp/distributedDataParallel.ts';
import { variablesOf } from '../../parallel/backward/flatten.ts';
import type { DistributedDataParallelOptions } from '../../parallel/ddp/options.ts';
import { MismatchError, PeergradError, PeerGoneError, errorReasonOf, UsageError } from '../../util/errors.ts';
import { mixSeed } from '../../util/rng.ts';
import { agreeOnArguments, type RankArguments } from './agreement.ts';
import {
  checkDatasetIsFinite,
  checkShuffle,
  DEFAULT_BATCH_SIZE,
  type DistributedEvaluateArgs,
  type DistributedEvaluateDatasetArgs,
  type DistributedFitArgs,
  type DistributedFitDatasetArgs,
  noSamplesError,
} from './arguments.ts';
import {
  compiledModelOf,
  describeLossAndMetrics,
  describeLayers,
  measuredValueCount,
  type CompiledModel,
  type FitTensors,
} from './compiledModel.ts';
import { DatasetBatches, isDataset } from './datasetBatches.ts';
import { evaluateOnAllRanks } from './evaluation.ts';
import {
  prepareDatasetEvaluation,
  prepareSpanEvaluation,
  prepareTensorsEvaluation,
  datasetShareOf,
  datasetSizeText,
  sketchesOf,
  type EvaluationContext,
  type PreparedEvaluation,
} from './heldOutData.ts';
import { WaitsUntilFailure } from './waitsUntilFailure.ts';
import { checkLossesPerSample, sampleWeightsPerOutput } from './sampleWeights.ts';
import { TensorBatches } from './tensorBatches.ts';
import { InputsAndTargets } from './tensorData.ts';
import { prepareTraining, type RankTrainingFacts } from './training.ts';
import { adoptWeightsOfRankZero, checkRankZeroSetWeights } from './weightChanges.ts';

/** Options of {@link DistributedDataParallelOptions}. Every rank must pass the same options. */
export type DistributeOptions = Pick<DistributedDataParallelOptions, 'algorithm' | 'bucketCapBytes' | 'codec'>;

/**
 * A prepared call: its arguments, and the work that it does if the arguments of all ranks agree.
 */
interface Call<Own, Result> extends RankArguments<Own> {
  /** Checks the arguments of all ranks together. The group does not end if this throws. */
  check?: (all: Own[]) => void;
  run: (all: Own[]) => Promise<Result>;
}

/**
 * Makes a compiled model train on all ranks of a group. All ranks receive rank 0's weights. Every
 * rank must call it with the same model and arguments. The same holds for every method of the
 * result except `predict`.
 *
 * @param model compiled with the same optimizer, loss and metrics on every rank. Its weights must
 *   be float32.
 * @throws (rejects) UsageError on every rank for a model that is not compiled or has nothing to
 *   train; MismatchError on every rank if models, their layers' settings, losses or metrics
 *   differ.
 *
 * @example
 * ```ts
 * model.compile({ optimizer: 'adam', loss: 'meanSquaredError' });
 * const ranks = await distribute(model, group);
 * const { history } = await ranks.fit(xs, ys, { epochs: 2, batchSize: 4 });
 * ```
 */
export async function distribute(
  model: tf.LayersModel,
  group: ProcessGroup,
  options: DistributeOptions = {},
): Promise<DistributedModel> {
  await agreeOnArguments(group, 'distribute', () => ({
    shared: { ...describeLossAndMetrics(compiledModelOf(model)), ...describeLayers(model) },
    own: null,
  }));
  const metrics = measuredValueCount(compiledModelOf(model));
  // As in TensorFlow.js, weights without a gradient stay the same.
  const ddp = await DistributedDataParallel.create(model, group, { ...options, metrics, findUnusedParameters: true });
  return new DistributedModel(model, ddp, metrics);
}

/** A model that trains on all ranks; see {@link distribute}. */
export class DistributedModel {
  readonly model: tf.LayersModel;
  /** Averages the gradients. */
  readonly ddp: DistributedDataParallel;
  readonly #parameters: readonly tf.Variable[];
  readonly #metrics: number;
  /** Number of calls of {@link fit}, equal on all ranks. */
  #fits = 0;

  /** Use {@link distribute}. */
  constructor(model: tf.LayersModel, ddp: DistributedDataParallel, metrics: number) {
    this.model = model;
    this.ddp = ddp;
    this.#parameters = variablesOf(model).parameters;
    this.#metrics = metrics;
  }

  get group(): ProcessGroup {
    return this.ddp.group;
  }

  /**
   * Trains on tensors, as `model.fit` does: N ranks with `batchSize` b train like one rank with
   * N * b. Every rank passes the same samples and computes a part of each batch. With `sharded`,
   * every rank passes its own samples and computes b of them in each step.
   *
   * Losses and metrics are averaged over the samples of all ranks, so callbacks receive the same
   * logs on every rank. `size` in the logs of a batch is the number of samples on all ranks. If a
   * callback sets `model.stopTraining` on one rank, training ends on all ranks. It ends after the
   * batch if at least one rank has callbacks for batches, otherwise after the epoch. If weights
   * were set on rank 0, before `fit` or in a callback, all ranks continue with them.
   *
   * @returns the history, the same on every rank.
   * @throws (rejects) UsageError on every rank if arguments of one rank are invalid; MismatchError
   *   on every rank if arguments, samples or optimizers differ, or if weights were set on other
   *   ranks but not on rank 0. Errors in training end the group: the rank rejects with its error,
   *   other ranks with an error that names the rank.
   */
  async fit(x: FitTensors, y: FitTensors, args: DistributedFitArgs = {}): Promise<tf.History> {
    const { batchSize = DEFAULT_BATCH_SIZE, shuffle = true, validationSplit = 0 } = args;
    const validationData = args.validationData?.length ? args.validationData : null;
    return this.#call('fit', args, async (place) => {
      const { model, own, isSharded } = place;
      const { rank, worldSize } = this.group;
      checkWholeAtLeast('batchSize', batchSize, 1);
      checkShuffle(shuffle);
      const data = new InputsAndTargets(model, x, y);
      own.push(data);
      const isSplit = !validationData && validationSplit > 0 && validationSplit < 1;
      const end = isSplit ? Math.floor(data.size * (1 - validationSplit)) : data.size;
      const weights = await sampleWeightsPerOutput(model, data.targets, args);
      await checkLossesPerSample(model, data, weights, worldSize > 1);
      const given = validationData ? await prepareTensorsEvaluation(place, validationData, batchSize) : null;
      const { classWeight: _, ...held } = args;
      const split = isSplit
        ? prepareSpanEvaluation(
            place,
            data,
            await sampleWeightsPerOutput(model, data.targets, held),
            { start: end, end: data.size },
            batchSize,
          )
        : null;
      const training = prepareTraining(place, this.ddp, this.#parameters, args, given?.heldOut ?? split);
      const shared = { ...training.shared, ...given?.shared, batchSize, shuffle, validationSplit };
      return {
        shared: { ...data.describe(isSharded), ...shared },
        sketches: { ...(await sketchesOf(place, data, weights)), ...given?.sketches },
        own: { ...training.own, samples: end, seed: mixSeed(args.seed ?? 0, this.#fits) },
        check: (all: { samples: number }[]) => {
          if (all.every(({ samples }) => samples === 0)) throw noSamplesError();
        },
        run: (all: (RankTrainingFacts & { samples: number; seed: number })[]) => {
          this.#fits++;
          const { seed } = all[0]!;
          const sizes = isSharded ? all.map(({ samples }) => samples) : end;
          const source = new TensorBatches(data, weights, { rank, worldSize, sizes, batchSize, shuffle, seed });
          return training.run(all, source, { samples: source.samples, batchSize: batchSize * worldSize });
        },
      };
    });
  }

  /**
   * Trains on a dataset of batches, as `model.fitDataset` does; see {@link fit}. In each step every
   * rank computes one element of the dataset, so N ranks with batches of b samples train like one
   * rank with N * b. Every rank passes the same dataset, which {@link shardDataset} divides. With
   * `sharded`, every rank passes its own dataset; a rank whose dataset has ended takes part without
   * samples until the other datasets have ended. `batchesPerEpoch` is a number of steps.
   *
   * @throws (rejects) errors of {@link fit}; UsageError for an infinite dataset without
   *   `batchesPerEpoch`.
   */
  async fitDataset<T extends tf.TensorContainer>(
    dataset: tf.data.Dataset<T>,
    args: DistributedFitDatasetArgs<T>,
  ): Promise<tf.History> {
    const { validationData, validationBatchSize = DEFAULT_BATCH_SIZE, classWeight, batchesPerEpoch = null } = args;
    return this.#call('fitDataset', args, async (place) => {
      const { model, isSharded } = place;
      checkDatasetIsFinite(dataset, batchesPerEpoch, 'batchesPerEpoch');
      if (batchesPerEpoch !== null) checkWholeAtLeast('batchesPerEpoch', batchesPerEpoch, 1);
      const given = isDataset(validationData)
        ? prepareDatasetEvaluation(place, validationData, args.validationBatches, 'validationBatches', 'fitDataset')
        : validationData
          ? await prepareTensorsEvaluation(place, validationData, validationBatchSize)
          : null;
      const training = prepareTraining(place, this.ddp, this.#parameters, args, given?.heldOut ?? null);
      const size = isSharded ? null : datasetSizeText(dataset);
      return {
        shared: { ...training.shared, ...given?.shared, batchesPerEpoch, 'the size of the dataset': size },
        sketches: given?.sketches,
        own: training.own,
        run: (all: RankTrainingFacts[]) => {
          const share = datasetShareOf(dataset, place, 'fitDataset');
          const source = new DatasetBatches(model, share, {
            batchesPerEpoch,
            classWeight,
            isShared: this.group.worldSize > 1,
          });
          return training.run(all, source, { samples: null, batchSize: null });
        },
      };
    });
  }

  /**
   * Returns losses and metrics of held-out samples, as `model.evaluate` does. All ranks return the
   * same values. Every rank computes a part of the samples. With `sharded`, every rank passes its
   * own samples. If weights were set on rank 0, all ranks first receive these weights.
   *
   * @returns a scalar, or several if the model has several outputs or metrics; `model.metricsNames`
   *   has their names. The caller disposes of them.
   * @throws (rejects) errors of {@link fit}.
   */
  async evaluate(x: FitTensors, y: FitTensors, args: DistributedEvaluateArgs = {}): Promise<tf.Scalar | tf.Scalar[]> {
    const { batchSize = DEFAULT_BATCH_SIZE, sampleWeight } = args;
    return this.#evaluate('evaluate', args, async (place) => {
      checkWholeAtLeast('batchSize', batchSize, 1);
      const { shared, ...held } = await prepareTensorsEvaluation(place, [x, y], batchSize, sampleWeight);
      return { ...held, shared: { ...shared, batchSize, 'the presence of sampleWeight': Boolean(sampleWeight) } };
    });
  }

  /**
   * Does the same as {@link evaluate} for a dataset of batches. The batches are divided between
   * ranks as in {@link fitDataset}.
   */
  async evaluateDataset<T extends tf.TensorContainer>(
    dataset: tf.data.Dataset<T>,
    args: DistributedEvaluateDatasetArgs = {},
  ): Promise<tf.Scalar | tf.Scalar[]> {
    return this.#evaluate('evaluateDataset', args, (place) =>
      prepareDatasetEvaluation(place, dataset, args.batches, 'batches', 'evaluateDataset'),
    );
  }

  /**
   * Computes the model's outputs for this rank's inputs: `model.predict`. It does not communicate,
   * and one rank alone may call it.
   */
  predict(x: tf.Tensor | tf.Tensor[], args?: Parameters<tf.LayersModel['predict']>[1]): tf.Tensor | tf.Tensor[] {
    return this.model.predict(x, args);
  }

  /** Frees buffers of the GPU. The model can still be used. */
  dispose(): void {
    this.ddp.dispose();
  }

  async #evaluate(
    call: string,
    args: { sharded?: boolean | undefined; signal?: AbortSignal | undefined },
    prepare: (place: EvaluationContext) => PreparedEvaluation | Promise<PreparedEvaluation>,
  ): Promise<tf.Scalar | tf.Scalar[]> {
    return this.#call(call, args, async (place) => {
      const { heldOut, ...compared } = await prepare(place);
      return {
        ...compared,
        own: null,
        run: async () => {
          const [first, ...rest] = (await evaluateOnAllRanks(this.group, heldOut)).map((value) => tf.scalar(value));
          return rest.length === 0 ? first! : [first!, ...rest];
        },
      };
    });
  }

  /**
   * Prepares a call on every rank, and runs it if the arguments of all ranks agree. The group ends
   * if the run fails or the signal is aborted.
   */
  #call<Own, Result>(
    call: string,
    { sharded = false, signal }: { sharded?: boolean | undefined; signal?: AbortSignal | undefined },
    prepare: (place: EvaluationContext) => Promise<Call<Own, Result>>,
  ): Promise<Result> {
    const { group } = this;
    const rank = group.ranks[group.rank]!;
    const result = this.#runOnAllRanks(call, sharded, (place) => {
      checkSignalNotAborted(signal, rank, call);
      return prepare(place);
    });
    if (signal) failGroupOnAbort({ rank, fail: (error) => group.abort(error) }, signal, call, result);
    return result;
  }

  async #runOnAllRanks<Own, Result>(
    call: string,
    isSharded: boolean,
    prepare: (place: EvaluationContext) => Promise<Call<Own, Result>>,
  ): Promise<Result> {
    const { group } = this;
    const { rank } = group;
    const own: { dispose(): void }[] = [];
    let prepared: Call<Own, Result> | null = null;
    let occupied: CompiledModel | null = null;
    try {
      const all = await agreeOnArguments(group, call, async () => {
        const model = this.#checkModel();
        model.isTraining = true;
        occupied = model;
        prepared = await prepare({ model, own, isSharded, waits: new WaitsUntilFailure(group), group });
        return {
          shared: { sharded: isSharded, ...prepared.shared },
          sketches: prepared.sketches,
          own: { own: prepared.own, isChanged: this.ddp.isModelChanged },
        };
      });
      checkRankZeroSetWeights(
        all.map(({ isChanged }) => isChanged),
        group,
      );
      const owns = all.map((each) => each.own);
      prepared!.check?.(owns);
      try {
        if (all[0]!.isChanged) await adoptWeightsOfRankZero(this.ddp);
        return await prepared!.run(owns);
      } catch (error) {
        group.abort(namingRank(error, group.ranks[rank]!, call));
        throw isReport(error, call) ? new PeergradError(error.message, error.context, { cause: error }) : error;
      }
    } finally {
      for (const each of own) each.dispose();
      if (occupied) (occupied as CompiledModel).isTraining = false;
    }
  }

  /** @throws UsageError if the model is in use or was changed since {@link distribute}. */
  #checkModel(): CompiledModel {
    const model = compiledModelOf(this.model);
    if (model.isTraining) {
      throw new UsageError(
        `The model "${model.name}" is already in use by fit or evaluate. Wait for the end of that call.`,
      );
    }
    const { parameters } = variablesOf(this.model);
    const isSame =
      parameters.length === this.#parameters.length && parameters.every((each, i) => each === this.#parameters[i]);
    if (isSame && measuredValueCount(model) === this.#metrics) return model;
    throw new UsageError(
      `The ${isSame ? 'metrics' : 'trainable weights'} of the model "${model.name}" changed after distribute. Call distribute again.`,
    );
  }
}

/** Returns the error that other ranks receive. Its message names the rank that failed. */
function namingRank(error: unknown, rank: number, call: string): Error {
  if (error instanceof MismatchError) return error;
  const isNamed = error instanceof PeergradError && new RegExp(`\\brank ${rank}\\b`, 'i').test(error.message);
  const message = isNamed ? error.message : `Rank ${rank} failed in ${call}: ${errorReasonOf(error)}.`;
  return new PeergradError(message, { rank, op: call }, { cause: error });
}

/**
 * Whether the error was made by {@link namingRank} on another rank. Such an error arrives as a
 * PeerGoneError, but the rank that sent it is not gone.
 */
function isReport(error: unknown, call: string): error is PeerGoneError {
  return error instanceof PeerGoneError && error.context.op === call && error.context.missing === undefined;
}
