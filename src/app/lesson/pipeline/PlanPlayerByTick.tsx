/** Plays plans tick by tick. Several plans play together, so that they can be compared. */
import { useSignal } from '@preact/signals';
import type { PipelinePlan } from '../../../parallel/pipeline/schedules.ts';
import { formatPercent } from '../../locales/format.ts';
import { uiMessages } from '../../locales/index.ts';
import { PipelinePlanGrid } from './PipelinePlanGrid.tsx';
import { passAtTick, pipelinePlanUntil, countPlanSquares, type PipelineScheduleName } from './board.ts';
import { PipelineLessonLegend } from './PipelineLessonLegend.tsx';

export function PlanPlayerByTick({ plans }: { plans: Partial<Record<PipelineScheduleName, PipelinePlan>> }) {
  const { pipelineLesson } = uiMessages.value;
  const { ticks, schedules } = pipelineLesson;
  const shown = Object.entries(plans) as [PipelineScheduleName, PipelinePlan][];
  const isCompared = shown.length > 1;
  const last = Math.max(...shown.map(([, plan]) => plan.ticks));
  const tick = useSignal(0);
  const now = tick.value;
  return (
    <section class="pipeline-part" aria-label={ticks.title}>
      <div class="row">
        <button type="button" class="primary" disabled={now === last} onClick={() => (tick.value = now + 1)}>
          {ticks.next}
        </button>
        <button type="button" disabled={now === last} onClick={() => (tick.value = last)}>
          {ticks.all}
        </button>
        <button type="button" disabled={now === 0} onClick={() => (tick.value = 0)}>
          {ticks.again}
        </button>
      </div>
      <PipelineLessonLegend />
      {shown.map(([schedule, plan]) => {
        const soFar = pipelinePlanUntil(plan, Math.min(now, plan.ticks));
        return (
          <div key={schedule} class="pipeline-plan">
            {isCompared && <h2>{schedules[schedule]}</h2>}
            <PipelinePlanGrid
              caption={schedules[schedule]}
              plan={soFar}
              columns={plan.ticks}
              hasKept={isCompared}
              chooses={null}
            />
            <Count plan={soFar} of={plan.ticks} />
          </div>
        );
      })}
      <p class="away" role="status">
        {shown.map(([schedule, plan]) => `${schedules[schedule]}: ${didIn(plan, now - 1)}`).join(' ')}
      </p>
    </section>
  );

  /** Describes a tick for screen readers. */
  function didIn(plan: PipelinePlan, at: number): string {
    const passes = plan.passes.flatMap((_, stage) => passAtTick(plan, stage, at) ?? []);
    return ticks.did(passes.map(({ stage, kind, microBatch }) => ticks.pass(stage, kind, microBatch + 1)));
  }
}

function Count({ plan, of }: { plan: PipelinePlan; of: number }) {
  const { count } = uiMessages.value.pipelineLesson.board;
  const { all, waiting } = countPlanSquares(plan);
  return <p class="small number">{count(plan.ticks, of, waiting, all, formatPercent(waiting / all))}</p>;
}
