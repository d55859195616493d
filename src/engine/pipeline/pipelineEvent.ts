/** The event that describes a pipeline to pages. */
import type { EventOf } from '../../protocol/events.ts';
import type { JobSpec } from '../../spec/job.ts';
import { STATE_BYTES_PER_WEIGHT } from '../../spec/pipeline.ts';
import type { PipelineGrid } from './pipelineGrid.ts';
import type { PipelineModel } from './pipelineTask.ts';

/** @param cut number of layers of each stage. */
export function pipelineEvent(
  { pipelineSchedule }: Pick<JobSpec, 'pipelineSchedule'>,
  { layers, ring }: Pick<PipelineModel, 'layers' | 'ring'>,
  { stages, replicas, microBatches }: Pick<PipelineGrid, 'stages' | 'replicas' | 'microBatches'>,
  cut: readonly number[],
): EventOf<'pipeline'> {
  return {
    type: 'pipeline',
    ranks: stages,
    replicas,
    microBatches,
    schedule: pipelineSchedule,
    ring,
    layers: layers.map(({ name, size }) => ({ name, bytes: size * STATE_BYTES_PER_WEIGHT })),
    cut: [...cut],
  };
}
