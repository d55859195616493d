/**
 * Whole states of a run, for checkpoints. With a sharded optimizer, each rank has only a part of
 * the averages. When ranks compare their states, the ranks that save the state receive all
 * averages.
 */
import type { ElasticStrategy } from '../../parallel/strategies/index.ts';
import type { Clock } from '../../util/clock.ts';
import { createDeferred, type Deferred } from '../../util/deferred.ts';
import { PeergradError, UsageError } from '../../util/errors.ts';
import type { RunState } from './runState.ts';

/** Milliseconds for which a request waits until ranks compare their states. */
const WAIT_MS = 120_000;

interface WholeStatesOptions {
  strategy: Pick<ElasticStrategy, 'isWhole' | 'gatherWhole' | 'release'>;
  clock: Clock;
  /** Copies this rank's state. */
  snapshot: () => Promise<RunState>;
}

export class WholeStateRequests {
  readonly #options: WholeStatesOptions;
  readonly #requests = new Set<Deferred<RunState>>();

  constructor(options: WholeStatesOptions) {
    this.#options = options;
  }

  /**
   * Resolves with the whole state: immediately if this rank has it, otherwise when ranks have
   * compared their states.
   *
   * @throws (rejects) PeergradError if ranks do not compare their states within {@link WAIT_MS};
   *   UsageError if the run ends earlier.
   */
  async request(): Promise<RunState> {
    const { clock, strategy, snapshot } = this.#options;
    if (strategy.isWhole) return snapshot();
    const request = createDeferred<RunState>();
    const cancel = clock.after(WAIT_MS, () =>
      request.reject(
        new PeergradError(
          "The state was not saved. Each rank has only its shard of the optimizer's averages, and ranks gather the shards when they " +
            `compare states, which did not happen for ${WAIT_MS / 1000} s. Save again while the run trains, or choose a smaller hashEvery.`,
        ),
      ),
    );
    this.#requests.add(request);
    try {
      return await request.promise;
    } finally {
      cancel();
      this.#requests.delete(request);
    }
  }

  /**
   * Runs a comparison of all ranks. While it runs, the state is whole on the ranks that save it.
   * Every rank must call it.
   *
   * @param isWanted whether this rank saves this state.
   */
  async during(isWanted: boolean, compare: () => Promise<void>): Promise<void> {
    const { strategy, snapshot } = this.#options;
    await strategy.gatherWhole(this.#requests.size > 0 || isWanted);
    try {
      await compare();
      if (!strategy.isWhole || this.#requests.size === 0) return;
      const state = await snapshot();
      for (const request of this.#requests) request.resolve(state);
    } finally {
      strategy.release();
    }
  }

  dispose(): void {
    const error = new UsageError('The state was not saved, because the run ended before ranks compared their states.');
    for (const request of this.#requests) request.reject(error);
  }
}
