/** Compares the ranks' state hashes, and exchanges their statistics with them. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { RankStatistics } from '../../protocol/runEvents.ts';
import { isElastic } from '../../spec/job.ts';
import { type TrainingPlan } from '../../spec/plan.ts';
import { DivergenceError, MismatchError } from '../../util/errors.ts';
import { dissenters } from '../../util/majority.ts';
import type { RunStats } from './telemetry/runStats.ts';
import type { StepTelemetry } from './telemetry/stepTelemetry.ts';

interface StateComparisonOptions {
  plan: TrainingPlan;
  emit: (event: EngineEvent) => void | Promise<void>;
  figures: RunStats;
  telemetry: StepTelemetry;
}

export class StateComparison {
  readonly #options: StateComparisonOptions;
  /** State hashes of the latest comparison, by rank. */
  hashes: readonly string[] = [];
  /** Statistics of the latest exchange, by rank. */
  statistics: readonly RankStatistics[] = [];

  constructor(options: StateComparisonOptions) {
    this.#options = options;
  }

  /**
   * Compares states after `step` and exchanges statistics. Every rank must call it.
   *
   * @throws (rejects) DivergenceError if states differ; MismatchError if the strategy cannot
   *   replace them.
   */
  async compare(group: ProcessGroup, step: number, hash: string): Promise<void> {
    const { emit, figures, telemetry, plan } = this.#options;
    const { hashes, statistics, ranks } = await telemetry.exchange(hash, figures.statistics(), plan.hashEvery);
    const divergent = dissenters(hashes);
    this.hashes = hashes;
    await emit({ type: 'hashes', step, hashes, agree: divergent.length === 0 });
    if (divergent.length > 0) {
      const differs = `After step ${step + 1} the state of rank ${divergent.join(', ')} differs from the others'`;
      const reason = 'that machine computes wrongly or runs another version of the page.';
      const context = { rank: group.rank, worldSize: group.worldSize, step, divergent };
      if (isElastic(plan)) throw new DivergenceError(`${differs}, and has to be replaced: ${reason}`, context);
      throw new MismatchError(`${differs}, so the run stopped: ${reason}`, context);
    }
    this.statistics = statistics;
    await emit({ type: 'ranks', step, ranks: statistics });
    await emit({ type: 'telemetry', step, ranks });
  }
}
