/**
 * The checks that all ranks make after they have applied a step: evaluate held-out samples and
 * compare states.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { equalPartOfWindow } from '../../parallel/data/cursor.ts';
import { recordEvaluation, type TrainingProgress } from '../../parallel/recovery/progress.ts';
import type { ConfusionMatrix } from '../../protocol/confusion.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { TrainingPlan } from '../../spec/plan.ts';
import type { MetricValues } from '../../spec/measures.ts';
import type { EventLoopYielder } from '../../util/clock.ts';
import { seededPermutation } from '../../util/rng.ts';
import type { TrainingTask } from './task.ts';

/**
 * The number of held-out samples in an evaluation within an epoch. The accuracy is then known to
 * about +- 1 percentage point, which is enough for a curve.
 */
export const INTERMEDIATE_EVALUATION_SAMPLES = 500;
/**
 * How often held-out samples are evaluated within epochs: at most about `perRun` times in a run.
 * Between two evaluations, ranks train with at least `trained` times as many samples as an
 * evaluation uses. Evaluating a sample takes about a third of the time of training with it. So
 * evaluation takes at most a twelfth of the time of training, or with `patience` a third. In
 * addition, all held-out samples are evaluated at the end of every epoch.
 */
const RHYTHM = { perRun: 20, trained: 4 };
const PATIENT_RHYTHM = { perRun: 8, trained: 1 };

/**
 * A run with a time limit is assumed to have at most this many steps. The assumption determines the
 * interval between evaluations.
 */
const TIMED_STEPS = 400;

/**
 * The smallest number of samples in an evaluation. With fewer, the accuracy would be mostly chance.
 */
const LEAST_SAMPLES = 32;

export interface DueChecks {
  /** The number of held-out samples to evaluate. */
  samples: number;
  /** Whether ranks must compare their states. */
  comparison: boolean;
}

export const NO_DUE_CHECKS: DueChecks = { samples: 0, comparison: false };

/**
 * Returns the checks that are due after the latest step. Without `patience`, there are early
 * evaluations after the first step, and after a quarter and half of the first interval, so that a
 * curve starts soon. Early evaluations use fewer samples, so that evaluation always takes a small
 * part of the time. The number of samples grows with the steps, from at least {@link
 * LEAST_SAMPLES}.
 */
export function checksDueAfterStep(
  { step, position, evaluateEvery }: TrainingProgress,
  { hashEvery, patience }: Pick<TrainingPlan, 'hashEvery' | 'patience'>,
  isOver: boolean,
): DueChecks {
  if (step === 0) return NO_DUE_CHECKS;
  const endsEpoch = position.offset === 0;
  // With `patience`, every evaluation uses all samples, because losses over different numbers of
  // samples cannot be compared.
  const testsAll = patience !== null;
  const early = [1, Math.ceil(evaluateEvery / 4), Math.ceil(evaluateEvery / 2)];
  const isTest = step % evaluateEvery === 0 || (!testsAll && early.includes(step));
  const some = Math.max(LEAST_SAMPLES, Math.ceil(INTERMEDIATE_EVALUATION_SAMPLES * Math.min(1, step / evaluateEvery)));
  return {
    samples: isOver || endsEpoch || (isTest && testsAll) ? Infinity : isTest ? some : 0,
    comparison: isOver || step % hashEvery === 0,
  };
}

/**
 * Returns the number of steps between two evaluations within an epoch, in a run of `totalSteps`
 * steps of `globalBatch` samples. The interval is at most an epoch.
 */
export function evaluationIntervalSteps(
  { train, test }: { train: number; test: number },
  { patience, maxMinutes }: Pick<TrainingPlan, 'patience' | 'maxMinutes'>,
  globalBatch: number,
  totalSteps: number,
): number {
  const steps = maxMinutes === null ? totalSteps : Math.min(totalSteps, TIMED_STEPS);
  const stepsPerEpoch = Math.ceil(train / globalBatch);
  const tested = patience === null ? Math.min(INTERMEDIATE_EVALUATION_SAMPLES, test) : test;
  const { perRun, trained } = patience === null ? RHYTHM : PATIENT_RHYTHM;
  const leastSteps = Math.ceil((tested * trained) / globalBatch);
  return Math.min(stepsPerEpoch, Math.max(leastSteps, Math.ceil(steps / perRun)));
}

export function mergeDueChecks(a: DueChecks, b: DueChecks): DueChecks {
  return { samples: Math.max(a.samples, b.samples), comparison: a.comparison || b.comparison };
}

export interface EvaluationResult {
  /** The number of evaluated samples on all ranks together. */
  samples: number;
  /** Mean loss. */
  loss: number;
  /** The fraction of correct outputs; `null` if the task does not classify. */
  accuracy: number | null;
  metrics?: MetricValues;
  /**
   * The confusion matrix. It exists after an evaluation of all held-out samples, if the task has
   * few classes.
   */
  confusion?: ConfusionMatrix;
}

export interface HeldOutTask extends Pick<
  TrainingTask,
  'testSamples' | 'testBatch' | 'classifies' | 'classes' | 'score' | 'isShard' | 'evaluate' | 'ahead' | 'expectHeldOut'
> {
  /**
   * How the samples are divided among ranks that have the same samples. By default each rank
   * evaluates a share of its own. Ranks with the same `index` evaluate the same samples together,
   * and `counts` is true on only one of them, so that these samples are counted once.
   */
  readonly share?: { index: number; of: number; counts: boolean };
}

interface HeldOutEvaluationsOptions {
  task: HeldOutTask;
  plan: TrainingPlan;
  yielder: EventLoopYielder;
  emit: (event: EngineEvent) => void | Promise<void>;
  /** See `LoopOptions`. */
  keepBest?: () => Promise<void>;
}

export class HeldOutEvaluations {
  readonly #options: HeldOutEvaluationsOptions;
  #tested: EvaluationResult | null = null;

  constructor(options: HeldOutEvaluationsOptions) {
    this.#options = options;
  }

  get tested(): EvaluationResult | null {
    return this.#tested;
  }

  /**
   * Evaluates at most `most` of the `total` held-out samples of all ranks. In runs with `patience`,
   * also records the result in `progress`. Called after a step. Every rank must call it.
   */
  async run(group: ProcessGroup, progress: TrainingProgress, most: number, total: number): Promise<void> {
    const { task, plan, emit, yielder, keepBest } = this.#options;
    const step = progress.step - 1;
    const report = async (done: number, share: number): Promise<void> => {
      await emit({ type: 'testing', step, done, share });
      await yielder.yieldIfDue();
    };
    this.#tested = await evaluateHeldOutSamples(group, task, Math.min(most, total), report, total);
    if (this.#tested === null) {
      const message = `Step ${step + 1} has no held-out loss, because none of its held-out samples can be used.`;
      await emit({ type: 'note', message });
      return;
    }
    if (plan.patience !== null && recordEvaluation(progress, this.#tested.loss)) await keepBest?.();
    const { confusion, ...tested } = this.#tested;
    await emit({ type: 'evaluation', step, ...tested });
    if (confusion) await emit({ type: 'confusion', step, ...confusion });
  }
}

/** Seed of the order in which held-out samples are chosen. */
const ORDER_SEED = 1;

/** Returns an order of the held-out samples. An evaluation of n samples uses the first n. */
export function heldOutSampleOrder(count: number): Uint32Array {
  return seededPermutation(count, ORDER_SEED);
}

/** Returns this rank's share of `samples` held-out samples; see {@link evaluateHeldOutSamples}. */
export function heldOutIndicesOfRank(
  group: Pick<ProcessGroup, 'rank' | 'worldSize'>,
  task: HeldOutTask,
  samples: number,
  total: number,
): Uint32Array {
  const count = task.isShard ? Math.ceil((task.testSamples * samples) / total) : samples;
  // The order is random, because held-out samples may be sorted by class, or classes may take
  // turns.
  const indices = heldOutSampleOrder(task.testSamples).subarray(0, count).sort();
  const { index, of } = task.share ?? { index: group.rank, of: group.worldSize };
  return task.isShard ? indices : equalPartOfWindow(indices, index, of);
}

/**
 * Lets the task read the first samples of a share.
 *
 * @param batch the number of samples that are needed immediately. Others are read ahead.
 */
export function prefetchHeldOutIndices({ ahead = 0, expectHeldOut }: HeldOutTask, share: Uint32Array, batch = 0): void {
  if (ahead > 0) expectHeldOut?.([...share.subarray(0, batch + ahead)]);
}

/**
 * Evaluates `samples` of the held-out samples. Each rank evaluates its share, and an all-reduce
 * adds the sums. If each rank has held-out samples of its own, every rank evaluates the same
 * fraction of them, rounded up. Resolves with `null` if none of the samples can be used.
 *
 * @param report called with the number of samples of its share that this rank has evaluated so far.
 * @param total the number of held-out samples of all ranks.
 */
export async function evaluateHeldOutSamples(
  group: ProcessGroup,
  task: HeldOutTask,
  samples: number,
  report: (done: number, share: number) => void | Promise<void> = () => {},
  total = task.testSamples,
): Promise<EvaluationResult | null> {
  const isCounted = task.share?.counts ?? true;
  const share = heldOutIndicesOfRank(group, task, samples, total);
  const classes = samples === total ? (task.classes ?? []) : [];
  const { score } = task;
  const first = 3 + (score?.sums ?? 0);
  const own = new Float64Array(first + classes.length ** 2);
  own[0] = isCounted ? share.length : 0;
  for (let at = 0; at < share.length; at += task.testBatch) {
    prefetchHeldOutIndices(task, share.subarray(at), task.testBatch);
    const scores = await task.evaluate(share.subarray(at, at + task.testBatch));
    const { leftOut = 0, lossSum, correct, sums = [], confusion = [] } = scores;
    if (isCounted) own[0] -= leftOut;
    for (const [i, sum] of [lossSum, correct, ...sums].entries()) own[i + 1]! += sum;
    for (let i = first; i < own.length; i++) own[i]! += confusion[i - first] ?? 0;
    await report(Math.min(at + task.testBatch, share.length), share.length);
  }
  const all = Array.from(await group.allReduce(own));
  const [used, lossSum, correct, ...sums] = all.slice(0, first);
  if (used === 0) return null;
  const counts = all.slice(first);
  const metrics = score?.toMetrics(sums, used!) ?? {};
  return {
    samples: used!,
    loss: lossSum! / used!,
    accuracy: task.classifies ? correct! / used! : null,
    ...(Object.keys(metrics).length > 0 && { metrics }),
    ...(classes.length > 0 && {
      confusion: {
        classes: [...classes],
        counts: classes.map((_, i) => counts.slice(i * classes.length, (i + 1) * classes.length)),
      },
    }),
  };
}
