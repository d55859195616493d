/**
 * Cells of a rank's row, if a model is divided: the part of the model that the rank holds, and its
 * memory.
 */
import { formatBytes } from '../locales/format.ts';
import { uiMessages } from '../locales/index.ts';
import { placeInReplica, type PipelineShape, type RankStages } from './shape.ts';

interface Props {
  pipeline: Pick<PipelineShape, 'ranks' | 'replicas'>;
  /** The stages of each rank of a replica. */
  stages: readonly RankStages[];
  rank: number;
  /** The memory that the rank has reported; `null` before its first report. */
  bytes: number | null;
}

export function StageCells({ pipeline, stages, rank, bytes }: Props) {
  const { pipeline: labels } = uiMessages.value;
  const place = placeInReplica(pipeline, rank);
  const own = place === null ? null : stages[place]!;
  return (
    <>
      <td data-label={labels.stage} title={own?.layers.join(', ')}>
        {own === null ? (
          <span class="dim">{labels.noStage}</span>
        ) : (
          <>
            <span class="number">{own.stages.join(' + ')}</span>{' '}
            <span class="dim">{labels.layers(own.layers.length)}</span>
          </>
        )}
      </td>
      <td class="right number" data-label={labels.memory}>
        {bytes === null ? '–' : formatBytes(bytes)}
      </td>
    </>
  );
}
