/**
 * Balances the work of ranks: measures this rank's speed, and decides the ranks' shares of the next
 * steps together with the other ranks. All ranks make the same decision, because they use the same
 * exchanged speeds.
 */
import type { ProcessGroup } from '../../../collectives/processGroup.ts';
import { variablesOf } from '../../../parallel/backward/flatten.ts';
import { PassTimer, limitPassTimeRatio, QUARTERS_PER_BATCH } from '../../../parallel/data/passTimes.ts';
import { decideShares, equalShares, plausibleSpeeds, type ShareDecision } from '../../../parallel/data/workShares.ts';
import type { EngineEvent, EventOf } from '../../../protocol/events.ts';
import type { TrainingPlan } from '../../../spec/plan.ts';
import type { TrainingTask } from '../../tasks/task.ts';
import type { RunStrategy } from '../runStrategy.ts';

/**
 * Number of steps between two exchanges of speeds. An exchange takes about as long as a barrier.
 */
const EXCHANGE_EVERY = 4;
/** Speeds are emitted again when one of them has changed by this fraction of its value. */
const EMITTED_CHANGE = 0.1;

/** A pass of a step. */
export interface MeasuredPass {
  /** Number of samples with padding; `samples` is the number without padding. */
  size: number;
  samples: number;
  /**
   * Milliseconds, without the update of parameters and without waits for other ranks. Waits for the
   * samples are included: they are long on a machine that reads or decodes slowly, and become
   * shorter if the rank gets fewer samples.
   */
  ms: number;
}

interface BalancedRun {
  plan: TrainingPlan;
  task: TrainingTask;
  strategy: RunStrategy;
}

interface WorkBalanceOptions extends BalancedRun {
  emit: (event: EngineEvent) => void | Promise<void>;
}

export class WorkBalance {
  readonly #options: WorkBalanceOptions;
  /** Whether the job allows different shares. Different shares also need at least two ranks. */
  readonly #isPossible: boolean;
  /** This rank's passes in this world. */
  #timer = new PassTimer();
  #group: ProcessGroup | null = null;
  #stepsInWorld = 0;
  #decided: ShareDecision = equalShares(1, 'equal');
  #emitted: EventOf<'shares'> | null = null;

  constructor(options: WorkBalanceOptions) {
    this.#options = options;
    this.#isPossible = canBalanceWork(options);
  }

  /** Enters a world. Shares are equal until all ranks have measured their speeds in it. */
  async enter(group: ProcessGroup, step: number): Promise<void> {
    this.#group = group;
    this.#stepsInWorld = 0;
    this.#timer = new PassTimer();
    this.#decided = equalShares(group.worldSize, this.#isActive ? 'unknown' : 'equal');
    this.#emitted = null;
    await this.#emit(
      step,
      this.#decided.shares.map(() => null),
      [],
    );
  }

  /** The ranks' shares. `null` if all are equal; a rank then computes its share in one pass. */
  get shares(): readonly number[] | null {
    return this.#decided.reason === 'speed' ? this.#decided.shares : null;
  }

  /** The ranks' shares for the run's result; `null` if this run never divides by speed. */
  get outcome(): readonly number[] | null {
    return this.#isActive ? this.#decided.shares : null;
  }

  /** Called when this rank has computed its part of a step. */
  took(passes: readonly MeasuredPass[]): void {
    this.#stepsInWorld += 1;
    const { batchSize } = this.#options.plan;
    const computed = passes.filter(({ samples }) => samples > 0);
    this.#timer.add(computed.map(({ size, ms }) => ({ isWhole: size === batchSize, ms })));
  }

  /**
   * Called before each step. Every few steps, exchanges speeds and decides shares again. Every rank
   * must call it.
   *
   * @returns whether speeds were exchanged.
   */
  async update(step: number): Promise<boolean> {
    if (!this.#isActive || this.#stepsInWorld === 0 || this.#stepsInWorld % EXCHANGE_EVERY !== 0) return false;
    const { batchSize } = this.#options.plan;
    const own = this.#timer.times;
    const row = own === null ? [0, 0, 0] : [1, (1000 * batchSize) / own.whole, own.whole / own.quarter];
    const rows = await this.#group!.allGather(Float64Array.from(row));
    const reported = rows.map(([isKnown, speed]) => (isKnown === 0 ? null : speed!));
    const speeds = plausibleSpeeds(reported);
    const times = speeds.map((speed, rank) => {
      if (speed === null) return null;
      const whole = (1000 * batchSize) / speed;
      return { whole, quarter: whole / limitPassTimeRatio(rows[rank]![2]!) };
    });
    this.#decided = decideShares(this.#decided, times);
    const impossible = reported.flatMap((speed, rank) =>
      speed === null || speeds[rank] !== null ? [] : [{ rank, reported: String(speed) }],
    );
    await this.#emit(step, speeds, impossible);
    return true;
  }

  get #isActive(): boolean {
    return this.#isPossible && this.#group !== null && this.#group.worldSize > 1;
  }

  /** Emits the decision, unless the decision emitted last is equal and its speeds are similar. */
  async #emit(
    step: number,
    speeds: readonly (number | null)[],
    impossible: EventOf<'shares'>['impossible'],
  ): Promise<void> {
    const { shares, reason } = this.#decided;
    const event: EventOf<'shares'> = {
      type: 'shares',
      step,
      shares: [...shares],
      reason,
      speeds: [...speeds],
      impossible,
    };
    if (this.#emitted !== null && isSimilar(event, this.#emitted)) return;
    this.#emitted = event;
    await this.#options.emit(event);
  }
}

/**
 * Returns whether training with unequal shares has the same result as with equal shares. Every rank
 * must be able to compute every sample, and the step must be a sum over samples. Models with
 * buffers are excluded, because their layers, such as batch normalization, compute statistics that
 * depend on the batch.
 */
export function canBalanceWork({ task, strategy, plan }: BalancedRun): boolean {
  return (
    plan.balance === 'speed' &&
    strategy.accumulator !== null &&
    task.isShard !== true &&
    plan.batchSize >= QUARTERS_PER_BATCH &&
    variablesOf(task.model).buffers.length === 0
  );
}

function decisionOf({ shares, reason, impossible }: EventOf<'shares'>): string {
  return JSON.stringify([shares, reason, impossible.map(({ rank }) => rank)]);
}

/** Returns whether two events have the same decision, and similar speeds. */
function isSimilar(a: EventOf<'shares'>, b: EventOf<'shares'>): boolean {
  const areClose = a.speeds.every((speed, rank) => {
    const other = b.speeds[rank] ?? null;
    return speed === null || other === null ? speed === other : Math.abs(speed - other) < EMITTED_CHANGE * other;
  });
  return areClose && decisionOf(a) === decisionOf(b);
}
