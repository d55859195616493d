/**
 * Shows a step in time, as in real tabs: backward passes take twice as long as forward passes, and
 * results need time to travel.
 */
import { useSignal } from '@preact/signals';
import { timePipelinePlan, type StagePass, type TimedStagePass } from '../../../parallel/pipeline/schedules.ts';
import { RankMark } from '../../components/RankMark.tsx';
import { formatPercent } from '../../locales/format.ts';
import { uiMessages } from '../../locales/index.ts';
import { bubbleShare, endOfLastPass, lessonPipelinePlan, waitingTimeShare, type LessonPipelineSize } from './board.ts';
import { PipelineLessonLegend } from './PipelineLessonLegend.tsx';

/** Duration of each kind of pass. The unit is the duration of a forward pass. */
const DURATIONS = { forward: 1, backward: 2 } as const;
const TRAVELS = { most: 2, step: 0.25 } as const;

export function PipelineTimingPanel({ size }: { size: LessonPipelineSize }) {
  const { travel } = uiMessages.value.pipelineLesson;
  const time = useSignal(0);
  const plan = lessonPipelinePlan('1f1b', size);
  const timed = (travels: number): TimedStagePass[][] =>
    timePipelinePlan(
      plan,
      ({ kind }: Pick<StagePass, 'kind'>) => DURATIONS[kind],
      () => travels,
    );
  const lanes = timed(time.value);
  const end = endOfLastPass(lanes);
  const at = (from: number): string => `${((from / end) * 100).toFixed(2)}%`;
  return (
    <section class="pipeline-part" aria-label={travel.title}>
      <h2>{travel.title}</h2>
      <label class="lesson-slider">
        <span>
          {travel.time} <b class="number nowrap">{travel.passes(String(time.value))}</b>
        </span>
        <input
          type="range"
          min={0}
          max={TRAVELS.most}
          step={TRAVELS.step}
          value={time.value}
          aria-valuetext={travel.passes(String(time.value))}
          onInput={(event) => (time.value = event.currentTarget.valueAsNumber)}
        />
      </label>
      <PipelineLessonLegend />
      <ul class="plain pipeline-lanes">
        {lanes.map((own, stage) => (
          <li key={stage}>
            <span class="away">{travel.row(stage, formatPercent(waitingTimeShare([own], end)))}</span>
            <span aria-hidden="true">
              <RankMark rank={stage} />
            </span>
            <span class="pipeline-lane waits" aria-hidden="true">
              {own.map((pass) => (
                <i
                  key={`${pass.kind} ${pass.microBatch}`}
                  class={`square ${pass.kind}`}
                  style={{ left: at(pass.start), width: at(pass.end - pass.start) }}
                >
                  {pass.microBatch + 1}
                </i>
              ))}
            </span>
          </li>
        ))}
      </ul>
      <p aria-live="polite">
        {travel.share(formatPercent(waitingTimeShare(lanes, end)), formatPercent(bubbleShare(size)))}
      </p>
    </section>
  );
}
