/** Arguments and results of `bench step` in a rank's worker. */

import type { StepTimes } from '../../src/protocol/stepTrace.ts';

/** Bucket sizes of DistributedDataParallel. */
export interface StepKind {
  firstBucketBytes: number;
  bucketCapBytes: number;
}

export interface StepArgs {
  batch: number;
  /** Kinds of loops, which are measured in turn. Each has its own model. */
  kinds: readonly StepKind[];
  /**
   * Number of turns of each kind, and of measured steps in a turn. Warm-up steps come before the
   * first turn.
   */
  turns: number;
  steps: number;
}

/**
 * Times of a bucket in milliseconds since the step began: when its gradients had been read
 * (`readyMs`), and when its sum had arrived (`doneMs`).
 */
export interface BucketTimes {
  readyMs: number;
  doneMs: number;
}

export interface TakenStep {
  /** Parts of the step time. */
  ms: StepTimes;
  /** Buckets in the order of their all-reduces; empty with one rank. */
  buckets: BucketTimes[];
}

export interface StepResult {
  backend: string;
  adapter: string;
  parameters: number;
  /** By kind. */
  kinds: { steps: TakenStep[]; bucketBytes: number[] }[];
}
