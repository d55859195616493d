/** The numbers of stages and of micro-batches. They are in the address of the page. */
import { NumberSelect } from '../../components/IndexSelect.tsx';
import { uiMessages } from '../../locales/index.ts';
import { writeSettingsToAddress } from '../../state/address.ts';
import { MICRO_BATCH_BOUNDS, STAGE_BOUNDS, type LessonPipelineSize } from './board.ts';

interface Props {
  size: LessonPipelineSize;
  /**
   * Whether the page explains a batch that is not cut. If so, the number of micro-batches is not
   * shown.
   */
  isBatchWhole: boolean;
}

export function PipelineSizeFields({ size: { stages, microBatches }, isBatchWhole }: Props) {
  const { sizes } = uiMessages.value.pipelineLesson;
  return (
    <div class="row pipeline-sizes" role="group" aria-label={sizes.title}>
      <NumberSelect
        label={sizes.stages}
        value={stages}
        least={STAGE_BOUNDS[0]}
        most={STAGE_BOUNDS[2]}
        onpick={(value) => writeSettingsToAddress({ stages: String(value) })}
      />
      {!isBatchWhole && (
        <NumberSelect
          label={sizes.microBatches}
          value={microBatches}
          least={MICRO_BATCH_BOUNDS[0]}
          most={MICRO_BATCH_BOUNDS[2]}
          onpick={(value) => writeSettingsToAddress({ microBatches: String(value) })}
        />
      )}
    </div>
  );
}
