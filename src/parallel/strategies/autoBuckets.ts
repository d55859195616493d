/**
 * The cap of a ring's buckets where it finds its own codec: once that is chosen, buckets are as
 * usual for some steps and are timed, then all ranks choose, once.
 */
import { USUAL_COSTS } from '../../collectives/plans/costModel.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { ringStepCount } from '../../collectives/plans/ringPlan.ts';
import type { BucketChoice } from '../../protocol/runResult.ts';
import { median } from '../../util/statistics.ts';
import { chooseBucketCap } from './bucketChoice.ts';
import type { FlatLayout } from '../ddp/buckets.ts';
import type { StepReport } from './strategy.ts';

/** The first step by another codec may wait for what that sets up. */
const LEFT_OUT = 1;
/** Steps that are timed after it: their median bears one that was disturbed. */
const TIMED = 3;

/** When a bucket was read here, and when its sum was; milliseconds of this rank's clock. */
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

  /** Each step from then on, on all ranks the same. */
  took({ traces }: StepReport): void {
    if (this.#isChosen) return;
    const times = traces.flatMap((trace) => {
      const doneAt = Math.max(-Infinity, ...(trace?.hops ?? []).map(({ receivedAt }) => receivedAt ?? -Infinity));
      return trace && doneAt > -Infinity ? [{ readyAt: trace.startedAt, doneAt }] : [];
    });
    this.#steps.push(times);
    // What goes no ring is not timed.
    if (times.length < traces.length) this.#isChosen = true;
  }

  /** Before a step. Every rank must call it. @returns what was chosen now. */
  async choose({ slots, buckets }: FlatLayout): Promise<BucketChoice | null> {
    if (this.#isChosen || this.#steps.length < LEFT_OUT + TIMED) return null;
    this.#isChosen = true;
    const timed = this.#steps.slice(LEFT_OUT);
    const medianOf = (of: (step: BucketTimes[]) => number): number => median(timed.map(of));
    const own = buckets.flatMap((_, i) => [
      medianOf((step) => step[i]!.readyAt - step[0]!.readyAt),
      medianOf((step) => step[i]!.doneAt - Math.max(step[i]!.readyAt, step[i - 1]?.doneAt ?? 0)),
    ]);
    const all = await this.#group.allGather(Float64Array.from(own));
    const measured = buckets.map(({ start, end }, i) => ({
      bytes: (end - start) * Float32Array.BYTES_PER_ELEMENT,
      readyMs: Math.max(...all.map((row) => row[2 * i]!)),
      // Who waits for a slower rank takes that for communication: the one that waits least knows.
      carriedMs: Math.max(0, Math.min(...all.map((row) => row[2 * i + 1]!))),
    }));
    const parameterBytes = slots.map(({ size }) => size * Float32Array.BYTES_PER_ELEMENT);
    return chooseBucketCap(parameterBytes, measured, ringStepCount(this.#group.worldSize) * USUAL_COSTS.hopMs);
  }
}
