import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { PipelineGrid } from './pipelineGrid.ts';
import type { PipelineModelStage } from './pipelineModelStage.ts';

/** The ranks of a generation, and this rank's part of the model. */
export interface StagedWorld {
  group: ProcessGroup;
  grid: PipelineGrid;
  /** `null` on a rank without a stage. */
  stage: PipelineModelStage | null;
}
