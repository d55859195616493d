/** What `bench step` asks a rank's worker for, and gets. */

import type { StepTimes } from '../../src/protocol/stepTrace.ts';

/** See models.ts. */
export const STEP_MODELS = ['mlp', 'cnn', 'deep'] as const;
export type StepModel = (typeof STEP_MODELS)[number];

/** A plain TensorFlow.js loop, or DistributedDataParallel with buckets of so many bytes. */
export type StepKind = 'plain' | { firstBucketBytes: number; bucketCapBytes: number };

export interface StepArgs {
  model: StepModel;
  batch: number;
  /** Take turns; each has a model of its own. */
  kinds: readonly StepKind[];
  /** Turns of each, and steps of a turn. What comes before them is not measured. */
  turns: number;
  steps: number;
}

/**
 * When a bucket was read, and when all ranks' sum of it was here; milliseconds since its step
 * began.
 */
export interface BucketTimes {
  readyMs: number;
  doneMs: number;
}

export interface TakenStep {
  /** Of a plain loop all but `total` are 0. */
  ms: StepTimes;
  /** In their order; none in a world of one. */
  buckets: BucketTimes[];
}

export interface StepResult {
  backend: string;
  adapter: string;
  parameters: number;
  /** By kind. */
  kinds: { steps: TakenStep[]; bucketBytes: number[] }[];
}
