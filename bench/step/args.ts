/** What `bench step` asks a rank's worker for, and gets. */

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

/** Milliseconds of one step; all but `total` are 0 in a plain loop. */
export interface StepParts {
  total: number;
  compute: number;
  readback: number;
  communicate: number;
  exposed: number;
  update: number;
}

export interface StepResult {
  backend: string;
  adapter: string;
  parameters: number;
  /** By kind. */
  kinds: { steps: StepParts[]; bucketBytes: number[] }[];
}
