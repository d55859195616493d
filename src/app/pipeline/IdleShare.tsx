/** Shows the share of a step in which ranks waited, and the share that the plan expects. */
import { useMemo } from 'preact/hooks';
import { idleShare } from '../../parallel/pipeline/schedules.ts';
import type { StepLane } from '../../protocol/stepTrace.ts';
import { formatPercent } from '../locales/format.ts';
import { uiMessages } from '../locales/index.ts';
import { pipelinePlanOf, type PipelineShape } from './shape.ts';

export function IdleShare({ pipeline, lanes }: { pipeline: PipelineShape; lanes: readonly (readonly StepLane[])[] }) {
  const { pipeline: labels } = uiMessages.value;
  const plan = useMemo(() => formatPercent(idleShare(pipelinePlanOf(pipeline))), [pipeline]);
  const measured = idleShareOfStep(pipeline, lanes);
  return (
    <p class="small">
      {measured === null ? labels.idleLater(plan) : labels.idle(measured.step + 1, formatPercent(measured.share), plan)}
    </p>
  );
}

/**
 * Returns the newest step that all ranks with a stage have reported, and the share of its time in
 * which these ranks computed no pass. The step ends when the last rank has its gradients. Returns
 * `null` if there is no such step.
 */
export function idleShareOfStep(
  { ranks, replicas }: Pick<PipelineShape, 'ranks' | 'replicas'>,
  lanes: readonly (readonly StepLane[])[],
): { step: number; share: number } | null {
  const rows = Array.from({ length: ranks * replicas }, (_, rank) => lanes[rank] ?? []);
  const step = rows[0]?.findLast((lane) => rows.every((row) => row.some((one) => one.step === lane.step)))?.step;
  if (step === undefined) return null;
  const own = rows.map((row) => row.find((one) => one.step === step)!.segments);
  const busy = own.flat().reduce((sum, { pass, start, end }) => sum + (pass ? end - start : 0), 0);
  const span = Math.max(...own.flat().map(({ pass, kind, end }) => (pass || kind === 'exchange' ? end : 0)));
  return span > 0 ? { step, share: 1 - busy / (span * own.length) } : null;
}
