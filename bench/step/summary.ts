/** What `bench step` makes of the steps that were taken; pure. */
import { median } from '../../src/telemetry/statistics.ts';
import type { StepModel, StepResult } from './args.ts';
import type { StepTimes } from '../../src/protocol/events.ts';

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
  /** Of communication, what nothing ran beside. */
  exposedShare: number;
}

export interface StepBenchResult {
  adapter: string;
  alone: Alone[];
  /** Over lines of `rate`, if there were any. */
  together: { tabs: number; rate: string | null; model: StepModel; parameters: number; batch: number; cuts: Cut[] };
}

export function aloneOf(model: StepModel, batch: number, { parameters, kinds }: StepResult): Alone {
  const [plain, ours] = kinds.map(({ steps }) => mediansOf(steps)) as [StepTimes, StepTimes];
  return { model, parameters, batch, plainMs: plain.total, ms: ours, ratio: ours.total / plain.total };
}

/** @param caps by kind. */
export function cutsOf(caps: readonly (number | null)[], { kinds }: StepResult): Cut[] {
  return kinds.map(({ steps, bucketBytes }, i) => {
    const ms = mediansOf(steps);
    return { capBytes: caps[i]!, bucketBytes, ms, exposedShare: ms.exposed / ms.communicate };
  });
}

function mediansOf(steps: readonly StepTimes[]): StepTimes {
  const of = (part: keyof StepTimes): number => median(steps.map((step) => step[part]));
  return {
    ...{ total: of('total'), compute: of('compute'), readback: of('readback') },
    ...{ communicate: of('communicate'), exposed: of('exposed'), update: of('update') },
  };
}
