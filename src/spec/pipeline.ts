/** The settings of pipelines: models whose layers are on several ranks. */
import * as v from 'valibot';
import { field } from './fields.ts';
import { positiveIntegerSchema } from './plan.ts';
import { isReplicaStrategyName, listStrategiesWithSetting, type StrategyName } from './strategies.ts';

/** Schedules of a pipeline; see `src/parallel/pipeline/schedules.ts`. */
export const PIPELINE_SCHEDULE_NAMES = ['1f1b', 'gpipe'] as const;

/** The largest number of stages, and of micro-batches of a step. */
export const MAX_STAGES = 64;
const MAX_MICRO_BATCHES = 256;
/**
 * Micro-batches per stage by default. With this number, ranks wait for about a fifth of the time.
 */
const MICRO_BATCHES_PER_STAGE = 4;

/**
 * The memory of a tab for weights, gradients and averages. WebAssembly and many phones give a tab 2
 * to 4 GB, and activations need memory, too.
 */
export const TAB_MEMORY_BYTES = 1.5e9;

export const PIPELINE_FIELDS = {
  /** Number of stages of a replica of the model; 1 if every rank has the whole model. */
  stages: field(positiveIntegerSchema(MAX_STAGES), 1, {
    value: 'n',
    help: `cut the model into this many stages, one for each tab (${listStrategiesWithSetting('stages')}; default: 2)`,
  }),
  /** Micro-batches of a step of one replica; `null`: see {@link microBatchCountOf}. */
  microBatches: field(v.nullable(positiveIntegerSchema(MAX_MICRO_BATCHES)), null, {
    value: 'n',
    help: `micro-batches of a step (${listStrategiesWithSetting('microBatches')}; default: 4 for each stage)`,
  }),
  pipelineSchedule: field(v.picklist(PIPELINE_SCHEDULE_NAMES), '1f1b', {
    value: 'name',
    help: `schedule of the stages (${listStrategiesWithSetting('pipelineSchedule')})`,
  }),
  /** Activation checkpointing. */
  recompute: field(v.boolean(), false, {
    value: 'on|off',
    help: `compute activations again in the backward pass, to save memory (${listStrategiesWithSetting('recompute')})`,
  }),
};

/** Bytes of a weight in a tab: its value, its gradient and the optimizer's two averages. */
export const STATE_BYTES_PER_WEIGHT = 4 * Float32Array.BYTES_PER_ELEMENT;

/** The part of a job that this file is about. */
export interface PipelineJobFields {
  stages: number;
  microBatches: number | null;
  batchSize: number;
}

/** Returns whether ranks hold stages of the model. */
export function isPipelineJob({ strategy }: { strategy: StrategyName }): boolean {
  return !isReplicaStrategyName(strategy);
}

/** The pipelines that the ranks of a world form. */
export interface PipelineWorld {
  /** Number of ranks that hold one replica of the model. */
  stages: number;
  replicas: number;
}

/**
 * Returns how `worldSize` ranks form pipelines. There are as many replicas of `job.stages` ranks
 * as fit. If none fits, all ranks form one replica. Ranks that remain make all pipelines longer, by
 * the same number of stages. The last ranks have no stage if they are too few for all replicas, or
 * if the model has too few layers.
 *
 * @param layers number of layers of the model: the largest number of stages.
 */
export function pipelineWorldFor(
  worldSize: number,
  job: Pick<PipelineJobFields, 'stages'>,
  layers: number,
): PipelineWorld {
  const replicas = Math.max(1, Math.floor(worldSize / job.stages));
  const stages = Math.min(layers, Math.floor(worldSize / replicas));
  return { stages, replicas };
}

/** Returns the number of micro-batches of a step in pipelines of `stages` stages. */
export function microBatchCountOf({ microBatches, batchSize }: PipelineJobFields, stages: number): number {
  return Math.min(microBatches ?? MICRO_BATCHES_PER_STAGE * stages, batchSize * stages);
}
