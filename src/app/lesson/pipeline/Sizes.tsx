/** The numbers of stages and of micro-batches. They are in the address of the page. */
import { messages } from '../../locales/index.ts';
import { keepInAddress } from '../../state/address.ts';
import { MICRO_BATCHES, STAGES, type PipelineSize } from './board.ts';

interface Props {
  size: PipelineSize;
  /**
   * Whether the page explains a batch that is not cut. The number of micro-batches is then not
   * shown.
   */
  isBatchWhole: boolean;
}

export function Sizes({ size: { stages, microBatches }, isBatchWhole }: Props) {
  const { sizes } = messages.value.pipelineLesson;
  return (
    <div class="row pipeline-sizes" role="group" aria-label={sizes.title}>
      <Choice
        label={sizes.stages}
        value={stages}
        bounds={STAGES}
        onpick={(value) => keepInAddress({ stages: value })}
      />
      {!isBatchWhole && (
        <Choice
          label={sizes.microBatches}
          value={microBatches}
          bounds={MICRO_BATCHES}
          onpick={(value) => keepInAddress({ microBatches: value })}
        />
      )}
    </div>
  );
}

interface ChoiceProps {
  label: string;
  value: number;
  bounds: readonly [number, number, number];
  onpick: (value: string) => void;
}

function Choice({ label, value, bounds: [least, , most], onpick }: ChoiceProps) {
  return (
    <label class="lesson-ranks">
      <span>{label}</span>
      <select value={value} onChange={(event) => onpick(event.currentTarget.value)}>
        {Array.from({ length: most - least + 1 }, (_, i) => (
          <option key={i} value={least + i}>
            {least + i}
          </option>
        ))}
      </select>
    </label>
  );
}
