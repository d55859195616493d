/**
 * A run that only compares methods. Ranks train a few steps alone, measure their links, and
 * estimate the time of a step with each method. Nothing that ranks learn is exchanged, so the model
 * is unchanged at the end.
 */
import type { ProcessGroup } from '../../../collectives/processGroup.ts';
import type { Variable } from '../../../parallel/backward/flatten.ts';
import { measureExchangeSpeed } from '../../../parallel/costs/measureExchangeSpeed.ts';
import { chooseMethods, methodCosts } from '../../../parallel/costs/methodCosts.ts';
import type { RunLimits } from '../../../parallel/recovery/progress.ts';
import { encodedGradients } from '../../../parallel/costs/exchangeCosts.ts';
import { POWER_SGD_MATRIX_RANK } from '../../../parallel/strategies/gradientTransport.ts';
import type { ReportedDevice } from '../../../protocol/room.ts';
import type { MethodTestResult } from '../../../protocol/runResult.ts';
import type { TrainingPlan } from '../../../spec/plan.ts';
import type { Clock } from '../../../util/clock.ts';
import type { TrainingTask } from '../../tasks/task.ts';
import type { RunStats } from '../telemetry/runStats.ts';

/**
 * Number of steps. On WebAssembly, the first steps take up to four times as long as later steps,
 * until the browser has optimized their code.
 */
const STEPS = 20;
/**
 * Number of steps at the end that are timed. All ranks begin them at the same time, so that tabs of
 * one machine share its processors as in training. The times vary on shared processors. The mean is
 * used, because the duration of training is the sum of such times.
 */
const TIMED_STEPS = 10;

/** The test takes the same number of steps, whatever the plan's limits are. */
export const METHOD_TEST_RUN_BOUNDS: RunLimits = {
  epochs: Infinity,
  maxSteps: STEPS,
  maxMinutes: null,
  patience: null,
};

interface MethodTestOptions {
  plan: TrainingPlan;
  clock: Clock;
  task: Pick<TrainingTask, 'isLanguageModel'>;
  device: Pick<ReportedDevice, 'backend'>;
}

export class MethodTest {
  readonly #options: MethodTestOptions;
  readonly #parameters: readonly Variable[];
  #comparison: MethodTestResult | null = null;

  private constructor(options: MethodTestOptions, parameters: readonly Variable[]) {
    this.#options = options;
    this.#parameters = parameters;
  }

  /** Creates the test of a plan. Returns `null` if the plan has none. */
  static of(options: MethodTestOptions, parameters: readonly Variable[]): MethodTest | null {
    return options.plan.measure === 'methods' ? new MethodTest(options, parameters) : null;
  }

  /** The result; `null` before {@link compare}. */
  get comparison(): MethodTestResult | null {
    return this.#comparison;
  }

  /**
   * Called before each step. Every rank must call it.
   *
   * @returns whether ranks have waited for each other.
   */
  async waitForRanks(group: ProcessGroup, step: number): Promise<boolean> {
    const isFirstTimed = step === STEPS - TIMED_STEPS;
    if (isFirstTimed) await group.barrier();
    return isFirstTimed;
  }

  /**
   * Measures links and compares methods. Every rank must call it, and gets the same result.
   *
   * @param figures statistics of this rank's steps.
   */
  async compare(group: ProcessGroup, figures: Pick<RunStats, 'latestStepMs'>): Promise<void> {
    const { clock, task, device } = this.#options;
    const stepMs = figures.latestStepMs(TIMED_STEPS);
    const { worldSize } = group;
    const size = this.#parameters.reduce((sum, parameter) => sum + parameter.size, 0);
    const links = await measureExchangeSpeed(group, size, clock);
    const isOnCpu = device.backend === 'wasm' || device.backend === 'cpu';
    const times = await group.allGather(Float64Array.of(stepMs, isOnCpu ? stepMs : 0));
    const ownMs = Math.max(...times.map(([ms]) => ms!));
    const busyMs = Math.max(...times.map(([, ms]) => ms!));
    const costs = methodCosts({
      ...{ worldSize, ownMs, busyMs, ...links },
      learner: task.isLanguageModel === true ? 'language model' : 'classifier',
      gradients: encodedGradients(this.#parameters, POWER_SGD_MATRIX_RANK),
    });
    const bytesPerMs = worldSize > 1 ? links.bytesPerMs : null;
    this.#comparison = { ownMs, latencyMs: links.latencyMs, bytesPerMs, costs, ...chooseMethods(costs) };
  }
}
