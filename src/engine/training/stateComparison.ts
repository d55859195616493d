/**
 * Compares the state hashes of all ranks. Statistics of the ranks are sent in the same exchange.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { RankStatistics } from '../../protocol/runEvents.ts';
import { isElasticJob } from '../../spec/job.ts';
import { type TrainingPlan } from '../../spec/plan.ts';
import { DivergenceError, MismatchError } from '../../util/errors.ts';
import { dissenters } from '../../util/mostFrequentVote.ts';
import { nameRanks } from '../../util/text.ts';
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
  /** The state hashes of the latest comparison. The index is the rank. */
  hashes: readonly string[] = [];
  /** The statistics of the latest exchange. The index is the rank. */
  statistics: readonly RankStatistics[] = [];

  constructor(options: StateComparisonOptions) {
    this.#options = options;
  }

  /**
   * Compares states after `step` and exchanges statistics. Every rank must call it.
   *
   * @throws (rejects) DivergenceError if states differ and the strategy is elastic, so that a
   *   divergent state can be replaced; MismatchError if states differ and the strategy is not
   *   elastic.
   */
  async compare(group: ProcessGroup, step: number, hash: string): Promise<void> {
    const { emit, figures, telemetry, plan } = this.#options;
    const { hashes, statistics, ranks } = await telemetry.exchange(hash, figures.statistics(), plan.hashEvery);
    const divergent = dissenters(hashes);
    this.hashes = hashes;
    await emit({ type: 'hashes', step, hashes, agree: divergent.length === 0 });
    if (divergent.length > 0) {
      const what = `After step ${step + 1} the state of ${nameRanks(divergent)} differs from the other ranks' state`;
      const reason = 'Either a machine computes wrong results, or it runs another version of the page.';
      const context = { rank: group.rank, worldSize: group.worldSize, step, divergent };
      if (isElasticJob(plan)) throw new DivergenceError(`${what} and must be replaced. ${reason}`, context);
      throw new MismatchError(`${what}, so the run has stopped. ${reason}`, context);
    }
    this.statistics = statistics;
    await emit({ type: 'ranks', step, ranks: statistics });
    await emit({ type: 'telemetry', step, ranks });
  }
}
