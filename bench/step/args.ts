/** Arguments and results of `bench step` in a rank's worker. */

import type { StepTimes } from '../../src/protocol/stepTrace.ts';

/** See models.ts. */
export const STEP_MODELS = ['mlp', 'cnn', 'deep'] as const;
export type StepModel = (typeof STEP_MODELS)[number];

/** A plain TensorFlow.js loop, or DistributedDataParallel with buckets of this many bytes. */
export type StepKind = 'plain' | { firstBucketBytes: number; bucketCapBytes: number };

export interface StepArgs {
  model: StepModel;
  batch: number;
  /** Kinds, which alternate; each has its own model. */
  kinds: readonly StepKind[];
  /** Turns of each kind, and measured steps of a turn; warm-up steps come before them. */
  turns: number;
  steps: number;
}

/** When a bucket was read, and when its sum arrived, in milliseconds since its step began. */
export interface BucketTimes {
  readyMs: number;
  doneMs: number;
}

export interface TakenStep {
  /** For a plain loop all except `total` are 0. */
  ms: StepTimes;
  /** In their order; empty with one rank. */
  buckets: BucketTimes[];
}

export interface StepResult {
  backend: string;
  adapter: string;
  parameters: number;
  /** By kind. */
  kinds: { steps: TakenStep[]; bucketBytes: number[] }[];
}
