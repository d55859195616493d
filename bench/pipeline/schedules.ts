/** The schedules of pipelines by name. */
import { gpipe, oneForwardOneBackward } from '../../src/parallel/pipeline/schedules.ts';
import type { PIPELINE_SCHEDULES } from '../../src/spec/pipeline.ts';

export type Schedule = (typeof PIPELINE_SCHEDULES)[number];
export const SCHEDULES = { gpipe, '1f1b': oneForwardOneBackward } as const satisfies Record<Schedule, unknown>;
