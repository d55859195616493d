/**
 * Measures buckets and chooses their size, once a codec is chosen: some steps with the default size
 * are timed, then all ranks choose once.
 */
import { USUAL_COSTS } from '../../collectives/plans/costModel.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { ringStepCount } from '../../collectives/plans/ringPlan.ts';
import type { BucketChoice } from '../../protocol/runResult.ts';
import { median } from '../../util/statistics.ts';
import { chooseBucketCap } from './bucketChoice.ts';
import type { FlatLayout } from '../ddp/buckets.ts';
import type { StepReport } from './strategy.ts';

/** Steps before the timed ones: the first step with another codec may include its set-up. */
const LEFT_OUT = 1;
/** Timed steps; their median tolerates one outlier. */
const TIMED = 3;

/**
 * Times when a bucket was read and when its sum was complete; milliseconds of this rank's clock.
 */
interface BucketTimes {
  readyAt: number;
  doneAt: number;
}

export class AutoBuckets {
  readonly #group: ProcessGroup;
  readonly #steps: BucketTimes[][] = [];
  #isChosen: boolean;

  constructor(group: ProcessGroup, layout: FlatLayout) {
    this.#group = group;
    this.#isChosen = group.worldSize === 1 || layout.buckets.length < 2;
  }

  /** Records a step, on all ranks the same one. */
  record({ traces }: StepReport): void {
    if (this.#isChosen) return;
    const times = traces.flatMap((trace) => {
      const doneAt = Math.max(-Infinity, ...(trace?.hops ?? []).map(({ receivedAt }) => receivedAt ?? -Infinity));
      return trace && doneAt > -Infinity ? [{ readyAt: trace.startedAt, doneAt }] : [];
    });
    this.#steps.push(times);
    // Only buckets on the ring are timed.
    if (times.length < traces.length) this.#isChosen = true;
  }

  /**
   * Called before each step. Every rank must call it.
   *
   * @returns the choice, once; otherwise `null`.
   */
  async choose({ slots, buckets }: FlatLayout): Promise<BucketChoice | null> {
    if (this.#isChosen || this.#steps.length < LEFT_OUT + TIMED) return null;
    this.#isChosen = true;
    const timed = this.#steps.slice(LEFT_OUT);
    const medianOf = (pick: (step: BucketTimes[]) => number): number => median(timed.map(pick));
    const own = buckets.flatMap((_, i) => [
      medianOf((step) => step[i]!.readyAt - step[0]!.readyAt),
      medianOf((step) => step[i]!.doneAt - Math.max(step[i]!.readyAt, step[i - 1]?.doneAt ?? 0)),
    ]);
    const all = await this.#group.allGather(Float64Array.from(own));
    const measured = buckets.map(({ start, end }, i) => ({
      bytes: (end - start) * Float32Array.BYTES_PER_ELEMENT,
      readyMs: Math.max(...all.map((row) => row[2 * i]!)),
      // A rank that waits for a slower one measures that as communication, so the shortest time
      // counts.
      carriedMs: Math.max(0, Math.min(...all.map((row) => row[2 * i + 1]!))),
    }));
    const parameterBytes = slots.map(({ size }) => size * Float32Array.BYTES_PER_ELEMENT);
    return chooseBucketCap(parameterBytes, measured, ringStepCount(this.#group.worldSize) * USUAL_COSTS.hopMs);
  }
}
