/** What `bench step` makes of the steps that were taken; pure. */
import { median } from '../../src/util/statistics.ts';
import type { BucketTimes, StepModel, StepResult, TakenStep } from './args.ts';
import type { StepTimes } from '../../src/protocol/stepTrace.ts';

export interface Alone {
  model: StepModel;
  parameters: number;
  batch: number;
  /** Median milliseconds of a step: of a plain TensorFlow.js loop, and of a world of one. */
  plainMs: number;
  ms: StepTimes;
  /** The second by the first. */
  ratio: number;
}

export interface Cut {
  /** What a bucket may hold; `null` for one bucket of everything. */
  capBytes: number | null;
  bucketBytes: number[];
  ms: StepTimes;
  /** Medians by bucket. */
  buckets: BucketTimes[];
  /** Of communication, what nothing ran beside. */
  exposedShare: number;
  /** The least that it could be where buckets are ready when they were: {@link leastExposed}. */
  leastShare: number;
}

export interface Together {
  tabs: number;
  model: StepModel;
  parameters: number;
  batch: number;
  /**
   * Lines of so many megabits a second, and what they need for a step's bytes; `null` where they
   * were not capped.
   */
  line: { rateMbit: number; ms: number } | null;
  cuts: Cut[];
}

export interface StepBenchResult {
  adapter: string;
  alone: Alone[];
  together: Together;
}

/**
 * Of communication, the share that would stay exposed if a line carried one bucket after the other
 * without a gap, each from when it is ready on, and all of them in `lineMs`.
 */
export function leastExposed(readyMs: readonly number[], bytes: readonly number[], lineMs: number): number {
  const total = bytes.reduce((sum, one) => sum + one, 0);
  const end = readyMs.reduce((free, ready, i) => Math.max(free, ready) + (lineMs * bytes[i]!) / total, 0);
  return (end - readyMs.at(-1)!) / (end - readyMs[0]!);
}

export function aloneOf(model: StepModel, batch: number, { parameters, kinds }: StepResult): Alone {
  const [plain, ours] = kinds.map(({ steps }) => mediansOf(steps)) as [StepTimes, StepTimes];
  return { model, parameters, batch, plainMs: plain.total, ms: ours, ratio: ours.total / plain.total };
}

/**
 * @param caps by kind; the last one has everything in one bucket.
 * @param lineMs what lines need for all bytes, or `null` where that is not known but by how long it
 *   took in one piece.
 */
export function cutsOf(caps: readonly (number | null)[], { kinds }: StepResult, lineMs: number | null): Cut[] {
  const wholeMs = mediansOf(kinds.at(-1)!.steps).communicate;
  return kinds.map(({ steps, bucketBytes }, i) => {
    const ms = mediansOf(steps);
    const buckets = bucketBytes.map((_, bucket) => ({
      readyMs: median(steps.map((step) => step.buckets[bucket]!.readyMs)),
      doneMs: median(steps.map((step) => step.buckets[bucket]!.doneMs)),
    }));
    const ready = buckets.map(({ readyMs }) => readyMs);
    const leastShare = leastExposed(ready, bucketBytes, lineMs ?? wholeMs);
    return { capBytes: caps[i]!, bucketBytes, ms, buckets, exposedShare: ms.exposed / ms.communicate, leastShare };
  });
}

function mediansOf(steps: readonly TakenStep[]): StepTimes {
  const of = (part: keyof StepTimes): number => median(steps.map(({ ms }) => ms[part]));
  return {
    ...{ total: of('total'), compute: of('compute'), readback: of('readback') },
    ...{ communicate: of('communicate'), exposed: of('exposed'), update: of('update') },
  };
}
