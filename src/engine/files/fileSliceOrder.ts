/**
 * The order in which a run needs the slices of distributed files. Pictures are read while the run
 * trains, so their slices have the order of the first epoch, or of the epoch in which a saved run
 * continues. All other data are read before the first step.
 */
import { loadData } from '../../jobs/index.ts';
import type { Dataset } from '../../jobs/dataset.ts';
import { sharedFileRangeOf, type IncomingFile } from '../../jobs/dataFile.ts';
import { GlobalCursor } from '../../parallel/data/cursor.ts';
import { initialTrainingProgress, type TrainingProgress } from '../../parallel/recovery/progress.ts';
import type { JobSpec } from '../../spec/job.ts';
import { isPipelineJob } from '../../spec/pipeline.ts';
import { DataError } from '../../util/errors.ts';
import { checksDueAfterStep, heldOutSampleOrder, evaluationIntervalSteps } from '../tasks/evaluation.ts';
import type { SharedFileSlices } from './sharedFileSlices.ts';

export interface FileSliceOrder {
  /** All slices, each once, by the time at which ranks need them. */
  readonly slices: Uint32Array;
  /** The number of slices, from the first one, that are needed before the first step. */
  readonly opening: number;
}

/** Returns the order of files that are needed as a whole before the first step. */
export function wholeFilesSliceOrder(count: number): FileSliceOrder {
  return { slices: Uint32Array.from({ length: count }, (_, slice) => slice), opening: count };
}

/**
 * Determines the order on a rank that has all files. Opens the data to find out which slices are
 * needed to open them.
 *
 * @param worldSize the number of ranks that train.
 * @param from the progress of this rank's state.
 * @throws (rejects) errors that are not about the files. For files that cannot be used, returns
 *   {@link wholeFilesSliceOrder}: ranks report the problem when they open the data.
 */
export async function determineFileSliceOrder(
  shared: SharedFileSlices,
  job: JobSpec,
  worldSize: number,
  from: TrainingProgress = initialTrainingProgress(),
): Promise<FileSliceOrder> {
  const all = wholeFilesSliceOrder(shared.count);
  // Slices that are sent at the same time would disturb measurements of links.
  const isMeasuring = job.measure !== null || job.codec === 'auto';
  if (job.job !== 'images' || isPipelineJob(job) || isMeasuring) return all;
  const order = new Set<number>();
  const numbers = new Map<IncomingFile, number>();
  const need = (file: number, start: number, end: number): void => {
    for (const slice of shared.slicesOf(file, start, end)) order.add(slice);
  };
  const observed = shared.stored().map((one, at) => {
    const range = (start: number, end: number): Promise<Blob> => {
      need(at, start, end);
      return one.place.file.range(start, end);
    };
    // With `range`, a preview of a picture asks only for the bytes that it needs.
    const file: IncomingFile = { ...one.place.file, range, has: () => false };
    numbers.set(file, at);
    return { ...one, place: { in: 'shared', file } as const, blob: () => range(0, one.size) };
  });
  const data = await loadData(job, { shared: observed, baseUrl: '' }).catch((error: unknown) => {
    if (error instanceof DataError) return null;
    throw error;
  });
  if (!data?.train.placeOf) return all;
  const { train, test } = data;
  const needSample = (of: Dataset, index: number): void => {
    const found = sharedFileRangeOf(of.placeOf!(index))!;
    need(numbers.get(found.file)!, found.range.start, found.range.end);
  };
  // The warm-up computes a batch of the first samples.
  for (let i = 0; i < Math.min(job.batchSize, train.size); i++) needSample(train, i);
  const opening = order.size;
  for (const [of, index] of restOfEpoch(job, { train: train.size, test: test.size }, worldSize, from)) {
    needSample(of === 'train' ? train : test, index);
  }
  for (const slice of all.slices) order.add(slice);
  return { slices: Uint32Array.from(order), opening };
}

/** Yields the samples of the steps and evaluations until the end of an epoch, in their order. */
function* restOfEpoch(
  plan: Pick<JobSpec, 'seed' | 'batchSize' | 'epochs' | 'maxSteps' | 'maxMinutes' | 'patience' | 'hashEvery'>,
  totals: { train: number; test: number },
  worldSize: number,
  from: TrainingProgress,
): Generator<[of: 'train' | 'test', index: number]> {
  const window = plan.batchSize * worldSize;
  const cursor = new GlobalCursor({ datasetSize: totals.train, seed: plan.seed });
  const last = Math.min(plan.maxSteps ?? Infinity, from.step + cursor.stepsLeft(from.position, plan.epochs, window));
  const evaluateEvery = from.evaluateEvery || evaluationIntervalSteps(totals, plan, window, last);
  const heldOut = heldOutSampleOrder(totals.test);
  let tested = 0;
  for (let { step, position } = from; ; step++) {
    // Before its first step, a continued run evaluates its state, if an evaluation is due.
    const { samples } = checksDueAfterStep({ ...from, step, position, evaluateEvery }, plan, step >= last);
    for (; tested < Math.min(samples, totals.test); tested++) yield ['test', heldOut[tested]!];
    if (step >= last || position.epoch > from.position.epoch) return;
    const { indices, next } = cursor.windowAt(position, window);
    for (const index of indices) yield ['train', index];
    position = next;
  }
}
