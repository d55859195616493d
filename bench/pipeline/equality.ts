/**
 * Pipelines against one rank that holds the whole model and computes each step's samples at once.
 * All ranks are in this process, with the engine's training loops.
 */
import { jobOf, type BenchModel, type Schedule } from './jobs.ts';
import { trainInProcess } from './trainInProcess.ts';

export const STEPS = 20;
/** Samples of a step: a multiple of all numbers of ranks and of micro-batches. */
export const STEP_SAMPLES = 24;
export const MICRO_BATCHES = [1, 2, 4, 8] as const;

/** How ranks hold a model. */
export interface Mesh {
  stages: number;
  replicas: number;
}

export const MESHES: readonly Mesh[] = [
  { stages: 2, replicas: 1 },
  { stages: 3, replicas: 1 },
  { stages: 4, replicas: 1 },
  { stages: 2, replicas: 2 },
];

export interface EqualityRow extends Mesh {
  model: BenchModel;
  schedule: Schedule;
  /** Largest relative difference of a step's loss, for each of {@link MICRO_BATCHES}. */
  differences: number[];
}

/** Returns the losses of one rank that holds the whole model. */
export async function lossesAlone(model: BenchModel, steps: number): Promise<readonly number[]> {
  const [result] = await trainInProcess(1, jobOf(model, { ...planOf(steps), batchSize: STEP_SAMPLES }));
  return result!.losses;
}

/** Returns the losses of a pipeline, which are equal on all ranks. */
export async function lossesOf(
  model: BenchModel,
  { stages, replicas }: Mesh,
  schedule: Schedule,
  microBatches: number,
  steps: number,
): Promise<readonly number[]> {
  const ranks = stages * replicas;
  const plan = { ...planOf(steps), batchSize: STEP_SAMPLES / ranks };
  const job = jobOf(model, { ...plan, pipeline: stages, pipelineSchedule: schedule, microBatches });
  const [result] = await trainInProcess(ranks, job);
  return result!.losses;
}

function planOf(maxSteps: number) {
  return { maxSteps, epochs: 1000, hashEvery: 1000 };
}

/** Returns the largest relative difference of two losses of a step. */
export function largestDifference(a: readonly number[], b: readonly number[]): number {
  if (a.length !== b.length) return Infinity;
  return Math.max(...a.map((value, step) => Math.abs(value / b[step]! - 1)));
}
