/** What comes after a step, once all ranks agree: testing held-out samples, and comparing ranks. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { splitWindow } from '../../parallel/data/cursor.ts';
import { judge, type Progress } from '../../parallel/recovery/progress.ts';
import type { Confusion } from '../../protocol/confusion.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { TrainingPlan } from '../../spec/plan.ts';
import type { Metrics } from '../../spec/measures.ts';
import type { Yielder } from '../../util/yielder.ts';
import type { Task } from '../tasks/task.ts';

/** Held-out samples within a pass: +- 1 point is enough for a curve. */
export const INTERMEDIATE_SAMPLES = 500;
/**
 * Held-out samples are tested about this often in a run, and all of them at the end of every pass
 * over the data.
 */
const EVALUATIONS_PER_RUN = 8;

export interface Duties {
  /** Held-out samples to test. */
  samples: number;
  /** Whether to compare ranks. */
  comparison: boolean;
}

export const NO_DUTIES: Duties = { samples: 0, comparison: false };

/** What is due after the last step that was applied. */
export function dutiesAfter(
  { step, position, evaluateEvery }: Progress,
  { hashEvery, patience }: Pick<TrainingPlan, 'hashEvery' | 'patience'>,
  isOver: boolean,
): Duties {
  if (step === 0) return NO_DUTIES;
  const endsPass = position.offset === 0;
  // Losses of more or fewer samples cannot be compared.
  const testsAll = patience !== null;
  const isTest = isOver || endsPass || step % evaluateEvery === 0;
  return {
    samples: isOver || endsPass || (isTest && testsAll) ? Infinity : isTest ? INTERMEDIATE_SAMPLES : 0,
    comparison: isOver || step % hashEvery === 0,
  };
}

/**
 * Steps between two tests within a pass, of a run of `totalSteps` that learn from `globalBatch`
 * samples each. No more samples are tested than learned from meanwhile: testing, of which each
 * sample costs a third of a step's, must not outlast training.
 */
export function testInterval(
  { train, test }: { train: number; test: number },
  { patience }: Pick<TrainingPlan, 'patience'>,
  globalBatch: number,
  totalSteps: number,
): number {
  const stepsPerPass = Math.ceil(train / globalBatch);
  const tested = patience === null ? Math.min(INTERMEDIATE_SAMPLES, test) : test;
  const learned = Math.ceil(tested / globalBatch);
  return Math.min(stepsPerPass, Math.max(learned, Math.ceil(totalSteps / EVALUATIONS_PER_RUN)));
}

/** Both of them. */
export function joined(a: Duties, b: Duties): Duties {
  return { samples: Math.max(a.samples, b.samples), comparison: a.comparison || b.comparison };
}

/** How well held-out samples are answered. */
export interface Tested {
  /** Tested samples of all ranks. */
  samples: number;
  /** Mean. */
  loss: number;
  /** Share of right answers; `null` where nothing is classified. */
  accuracy: number | null;
  /** What else is told. */
  metrics?: Metrics;
  /** Answers by class, for all held-out samples of a task with few classes. */
  confusion?: Confusion;
}

interface HeldOutTestsOptions {
  task: Task;
  plan: TrainingPlan;
  yielder: Yielder;
  emit: (event: EngineEvent) => void | Promise<void>;
  /** See `TrainingLoopOptions`. */
  keepBest?: () => Promise<void>;
}

/** The tests on held-out samples of a run. */
export class HeldOutTests {
  readonly #options: HeldOutTestsOptions;
  /** The latest test. */
  #tested: Tested | null = null;

  constructor(options: HeldOutTestsOptions) {
    this.#options = options;
  }

  get tested(): Tested | null {
    return this.#tested;
  }

  /**
   * Tests at most `most` of the `held` samples of all ranks after a step, and takes the outcome
   * into `progress`. Every rank must call it.
   */
  async run(group: ProcessGroup, progress: Progress, most: number, held: number): Promise<void> {
    const { task, plan, emit, yielder, keepBest } = this.#options;
    const step = progress.step - 1;
    const report = async (done: number, share: number): Promise<void> => {
      await emit({ type: 'testing', step, done, share });
      await yielder.yieldIfDue();
    };
    this.#tested = await testHeldOut(group, task, Math.min(most, held), report, held);
    if (plan.patience !== null && judge(progress, this.#tested.loss)) await keepBest?.();
    const { confusion, ...tested } = this.#tested;
    await emit({ type: 'evaluation', step, ...tested });
    if (confusion) await emit({ type: 'confusion', step, ...confusion });
  }
}

/**
 * Evaluates the first `samples` held-out samples: each rank tests its share, and an all-reduce adds
 * the sums. If each rank has its own held-out samples, all test the same fraction of them, rounded
 * up.
 *
 * @param tell called with the number of samples that this rank has tested of its share.
 * @param held the number of held-out samples of all ranks.
 */
export async function testHeldOut(
  group: ProcessGroup,
  task: Task,
  samples: number,
  tell: (done: number, share: number) => void | Promise<void> = () => {},
  held = task.testSamples,
): Promise<Tested> {
  const firsts = task.isShard ? Math.ceil((task.testSamples * samples) / held) : samples;
  const indices = Uint32Array.from({ length: firsts }, (_, i) => i);
  const share = task.isShard ? indices : splitWindow(indices, group.rank, group.worldSize);
  const classes = samples === held ? (task.classes ?? []) : [];
  const { score } = task;
  const first = 3 + (score?.sums ?? 0);
  const own = new Float64Array(first + classes.length ** 2);
  own[0] = share.length;
  for (let at = 0; at < share.length; at += task.testBatch) {
    const told = await task.evaluate(share.subarray(at, at + task.testBatch));
    const { lossSum, correct, sums = [], confusion = [] } = told;
    for (const [i, sum] of [lossSum, correct, ...sums].entries()) own[i + 1]! += sum;
    for (let i = first; i < own.length; i++) own[i]! += confusion[i - first]!;
    await tell(Math.min(at + task.testBatch, share.length), share.length);
  }
  const all = Array.from(await group.allReduce(own));
  const [tested, lossSum, correct, ...sums] = all.slice(0, first);
  const counts = all.slice(first);
  const metrics = score?.toMetrics(sums, tested!) ?? {};
  return {
    ...{ samples: tested!, loss: lossSum! / tested!, accuracy: task.classifies ? correct! / tested! : null },
    ...(Object.keys(metrics).length > 0 && { metrics }),
    ...(classes.length > 0 && {
      confusion: {
        classes: [...classes],
        counts: classes.map((_, i) => counts.slice(i * classes.length, (i + 1) * classes.length)),
      },
    }),
  };
}
