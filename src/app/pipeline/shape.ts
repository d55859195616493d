/** The parts of a pipeline: its plan, and the stages and layers of each rank; pure. */
import { gpipe, oneForwardOneBackward, stagesOfRank, type PipelinePlan } from '../../parallel/pipeline/schedules.ts';
import type { PipelineView } from '../state/runTelemetry.ts';

/**
 * The values that determine the plan of a pipeline, and the number of replicas that follow this
 * plan.
 */
export type PipelineShape = Pick<PipelineView, 'ranks' | 'replicas' | 'microBatches' | 'schedule' | 'ring'>;

/** The layers of a model, and the number of layers of each stage. */
export type PipelineCut = Pick<PipelineView, 'ranks' | 'layers' | 'cut'>;

/** The stages that a rank of a replica holds. */
export interface RankStages {
  stages: number[];
  layers: string[];
  /** Bytes of the weights, their gradients and the optimizer's averages. */
  bytes: number;
}

export function pipelinePlanOf({ ranks, microBatches, schedule, ring }: PipelineShape): PipelinePlan {
  return (schedule === 'gpipe' ? gpipe : oneForwardOneBackward)(ranks, microBatches, { ring });
}

/** Divides layers into stages with these numbers of layers. */
export function layersByStage<Layer>(layers: readonly Layer[], cut: readonly number[]): Layer[][] {
  let at = 0;
  return cut.map((count) => layers.slice(at, (at += count)));
}

export function stagesByRank({ ranks, layers, cut }: PipelineCut): RankStages[] {
  const byStage = layersByStage(layers, cut);
  return Array.from({ length: ranks }, (_, rank) => {
    const stages = stagesOfRank({ ranks, stages: cut.length }, rank);
    const own = stages.flatMap((stage) => byStage[stage]!);
    return { stages, layers: own.map(({ name }) => name), bytes: own.reduce((sum, { bytes }) => sum + bytes, 0) };
  });
}

/**
 * Returns the place of a rank of the world in its replica; `null` if the rank has no stage, because
 * the ranks cannot be divided evenly.
 */
export function placeInReplica(
  { ranks, replicas }: Pick<PipelineShape, 'ranks' | 'replicas'>,
  rank: number,
): number | null {
  return rank < ranks * replicas ? rank % ranks : null;
}
