/**
 * Plans the memory of tabs before a run: what a model needs in each tab, with and without a
 * pipeline, and how many stages fit; pure. If the costs of the layers are known without measuring
 * them, the planned cut is the cut of the run.
 */
import { gptMultiplicationCounts, gptNetworkMemory, gptNetworkSize } from '../../jobs/gpt/shapes.ts';
import { cutLayers, type LayerCost } from '../../parallel/pipeline/cutLayers.ts';
import { mostMicroBatchesInFlight, stagesOfRank } from '../../parallel/pipeline/schedules.ts';
import type { JobSpec } from '../../spec/job.ts';
import {
  MAX_STAGES,
  microBatchCountOf,
  pipelineWorldFor,
  STATE_BYTES_PER_WEIGHT,
  TAB_MEMORY_BYTES,
} from '../../spec/pipeline.ts';
import { layerRowsOf } from '../../spec/topology.ts';
import { UsageError } from '../../util/errors.ts';
import { elementCountOf } from '../../util/shape.ts';
import { TYPICAL_CHARACTER_COUNT } from '../state/algorithm.ts';
import { layersByStage, type PipelineCut, type PipelineShape } from './shape.ts';

/** Memory of a layer, and its time if it is known. */
interface PlannedLayer extends LayerCost {
  /** Bytes that a forward pass of one sample keeps for the backward pass. */
  kept: number;
  /** Bytes of the output of one sample. */
  output: number;
}

interface PlannedModel {
  layers: readonly PlannedLayer[];
  ring: boolean;
  lossCost: number;
  /** Whether the run measures the layers, so that its cut may differ from the planned one. */
  isMeasured: boolean;
  /** Bytes of the largest matrix. A matrix is stored in one buffer of the GPU. */
  largestMatrix: number;
}

export interface PlannedPipeline extends PipelineShape, PipelineCut {
  /**
   * For each rank of a replica: the bytes that it needs for the state of its layers, and for
   * activations.
   */
  bytes: readonly number[];
  isMeasured: boolean;
  /** Whether a run cannot start, because ranks would need more memory than a run allows. */
  isTooLarge: boolean;
}

const FLOAT = Float32Array.BYTES_PER_ELEMENT;

/**
 * Returns the layers of a job's model; `null` if they depend on people's files, or if the model is
 * too small to need a plan.
 */
export function plannedModelOf({ job, model, gpt }: JobSpec): PlannedModel | null {
  if (job === 'gpt') {
    const size = gptNetworkSize(gpt, gpt.tokens === 'characters' ? TYPICAL_CHARACTER_COUNT : gpt.vocabulary);
    const cost = gptMultiplicationCounts(size);
    const output = size.context * size.width * FLOAT;
    const layers = gptNetworkMemory(size).map(({ name, weights, activations }, i) => ({
      name,
      cost: cost.layers[i]!,
      bytes: weights * STATE_BYTES_PER_WEIGHT,
      kept: activations * FLOAT,
      output,
    }));
    const largestMatrix = size.vocabulary * size.width * FLOAT;
    return { layers, ring: true, lossCost: cost.logits, isMeasured: false, largestMatrix };
  }
  if (typeof model === 'string' || model.class_name === 'Functional') return null;
  const rows = layerRowsOf(model).filter(({ kind }) => kind !== 'InputLayer');
  const layers = rows.map(({ name, shape, parameters }) => {
    const bytes = parameters * STATE_BYTES_PER_WEIGHT;
    const output = elementCountOf(shape) * FLOAT;
    return { name, cost: bytes, bytes, kept: output, output };
  });
  const largestMatrix = Math.max(...layers.map(({ bytes }) => bytes)) / (STATE_BYTES_PER_WEIGHT / FLOAT);
  return { layers, ring: false, lossCost: 0, isMeasured: true, largestMatrix };
}

/** Returns the bytes that a tab with the whole model needs. */
export function wholeModelBytes({ batchSize }: JobSpec, { layers }: PlannedModel): number {
  return layers.reduce((sum, { bytes, kept }) => sum + bytes + kept * batchSize, 0);
}

/** Returns how `tabs` tabs would divide the job's model. */
export function plannedPipelineOf(job: JobSpec, model: PlannedModel, tabs: number): PlannedPipeline {
  const { layers, ring, lossCost, isMeasured } = model;
  const { stages: ranks, replicas } = pipelineWorldFor(tabs, job, layers.length);
  const microBatches = microBatchCountOf(job, ranks);
  const fitting = cutOrNull(layers, ranks, { ring, lossCost, maxBytes: TAB_MEMORY_BYTES });
  const cut = fitting ?? cutLayers(layers, ranks, { ring, lossCost });
  const rows = Math.ceil((job.batchSize * ranks) / microBatches);
  const byStage = layersByStage(layers, cut);
  const bytes = Array.from({ length: ranks }, (_, rank) =>
    stagesOfRank({ ranks, stages: cut.length }, rank).reduce((total, stage) => {
      const own = byStage[stage]!;
      const inFlight = mostMicroBatchesInFlight(
        job.pipelineSchedule,
        { ranks, stages: cut.length, microBatches },
        stage,
      );
      return total + own.reduce((sum, layer) => sum + layer.bytes, 0) + keptBytes(own, job.recompute, rows, inFlight);
    }, 0),
  );
  return {
    ...{ ranks, replicas, microBatches, schedule: job.pipelineSchedule, ring },
    layers: [...layers],
    ...{ cut, bytes, isMeasured, isTooLarge: fitting === null },
  };
}

/** Returns the cut; `null` if every cut exceeds the largest memory of a rank. */
function cutOrNull(...cut: Parameters<typeof cutLayers>): number[] | null {
  try {
    return cutLayers(...cut);
  } catch (error) {
    if (error instanceof UsageError) return null;
    throw error;
  }
}

function keptBytes(layers: readonly PlannedLayer[], recompute: boolean, rows: number, inFlight: number): number {
  const sumOf = (key: 'kept' | 'output'): number => layers.reduce((sum, layer) => sum + layer[key], 0);
  if (!recompute) return sumOf('kept') * rows * inFlight;
  // A backward pass recomputes one layer at a time.
  return (sumOf('output') * inFlight + Math.max(0, ...layers.map(({ kept }) => kept))) * rows;
}

/**
 * The search for a pipeline begins with the smallest possible number of stages. Then it tries at
 * most this many larger numbers.
 */
const MOST_TRIES = 12;

/**
 * Returns the pipeline with the fewest stages whose ranks need at most `budget` bytes; `null` if no
 * such pipeline is found.
 */
export function smallestFittingPipeline(job: JobSpec, model: PlannedModel, budget: number): PlannedPipeline | null {
  const { layers } = model;
  const state = layers.reduce((sum, { bytes }) => sum + bytes, 0);
  const most = Math.min(MAX_STAGES, layers.length);
  const least = Math.max(2, Math.ceil(state / budget));
  for (let stages = least; stages <= Math.min(most, least + MOST_TRIES); stages++) {
    const plan = plannedPipelineOf({ ...job, stages }, model, stages);
    if (Math.max(...plan.bytes) <= budget) return plan;
  }
  return null;
}
