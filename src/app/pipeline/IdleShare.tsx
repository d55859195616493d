/** The share of a step in which ranks waited, as measured and as planned. */
import { useMemo } from 'preact/hooks';
import { idleShare } from '../../parallel/pipeline/schedules.ts';
import type { StepLane } from '../../protocol/stepTrace.ts';
import { formatShare } from '../locales/format.ts';
import { messages } from '../locales/index.ts';
import { idleOf } from './idle.ts';
import { planOf, type PipelineShape } from './shape.ts';

export function IdleShare({ pipeline, lanes }: { pipeline: PipelineShape; lanes: readonly (readonly StepLane[])[] }) {
  const { pipeline: labels } = messages.value;
  const plan = useMemo(() => formatShare(idleShare(planOf(pipeline))), [pipeline]);
  const measured = idleOf(pipeline, lanes);
  return (
    <p class="small">
      {measured === null ? labels.idleLater(plan) : labels.idle(measured.step + 1, formatShare(measured.share), plan)}
    </p>
  );
}
