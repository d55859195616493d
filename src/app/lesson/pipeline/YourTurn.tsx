/**
 * A person decides what one stage computes, and then reads whether the decision was possible and
 * good.
 */
import { IndexSelect } from '../../components/IndexSelect.tsx';
import { useSignal } from '@preact/signals';
import { uiMessages } from '../../locales/index.ts';
import { PipelinePlanGrid } from './PipelinePlanGrid.tsx';
import { keptActivationsByStage, lessonPipelinePlan, type LessonPipelineSize } from './board.ts';
import { PipelineLessonLegend } from './PipelineLessonLegend.tsx';
import {
  nextPassOf1F1B,
  applyYourTurnChoice,
  isYourTurnFinished,
  nextPassOfKind,
  startYourTurn,
  maxKeptMicroBatches,
  type YourTurnChoice,
  type YourTurnState,
} from './turn.ts';

export function YourTurn({ size }: { size: LessonPipelineSize }) {
  const { turn: labels, schedules } = uiMessages.value.pipelineLesson;
  const turn = useSignal(startYourTurn(size, 0));
  const { stage, plan } = turn.value;
  const finished = isYourTurnFinished(turn.value);
  const choose = (choice: YourTurnChoice): void => {
    turn.value = applyYourTurnChoice(turn.value, choice);
  };
  return (
    <section class="pipeline-part" aria-label={labels.title}>
      <div class="row">
        <IndexSelect
          class="lesson-ranks"
          label={labels.which}
          options={Array.from({ length: size.stages }, (_, one) => labels.stage(one))}
          index={stage}
          onpick={(index) => (turn.value = startYourTurn(size, index))}
        />
        <button type="button" disabled={plan.ticks === 0} onClick={() => (turn.value = startYourTurn(size, stage))}>
          {labels.again}
        </button>
      </div>
      {!finished && (
        <div class="row" role="group" aria-label={labels.decide(stage, plan.ticks + 1)}>
          <p class="turn-question">{labels.decide(stage, plan.ticks + 1)}</p>
          {(['forward', 'backward'] as const).map((kind) => {
            const pass = nextPassOfKind(turn.value, kind);
            return (
              <button key={kind} type="button" onClick={() => choose(kind)}>
                {labels[kind](pass === null ? null : pass.microBatch + 1)}
              </button>
            );
          })}
          <button type="button" onClick={() => choose('wait')}>
            {labels.wait}
          </button>
          <button type="button" onClick={() => choose(nextPassOf1F1B(turn.value))}>
            {labels.advice}
          </button>
        </div>
      )}
      <VerdictText turn={turn.value} />
      <PipelineLessonLegend />
      <PipelinePlanGrid
        caption={schedules['1f1b']}
        plan={plan}
        columns={Math.max(lessonPipelinePlan('1f1b', size).ticks, plan.ticks + (finished ? 0 : 1))}
        hasKept
        chooses={finished ? null : stage}
      />
      {finished && <Result turn={turn.value} size={size} />}
    </section>
  );
}

/** A word, an icon and a colour for each verdict. */
const TONES = {
  ready: 'dim',
  done: 'wrong',
  impossible: 'wrong',
  forward: 'good',
  backward: 'good',
  full: 'good',
  bubble: 'dim',
  early: 'wait',
  more: 'wait',
  idle: 'wait',
} as const satisfies Record<YourTurnState['verdict']['kind'], string>;
const ICONS = { good: '✓', wait: '!', wrong: '✗', dim: '' } as const;

function VerdictText({ turn }: { turn: YourTurnState }) {
  const tone = TONES[turn.verdict.kind];
  return (
    <p class={`verdict ${tone}`} role="status">
      <span aria-hidden="true">{ICONS[tone]}</span> {textOf(turn)}
    </p>
  );
}

function textOf(turn: YourTurnState): string {
  const { verdicts } = uiMessages.value.pipelineLesson.turn;
  const { verdict, plan, stage } = turn;
  const kept = keptActivationsByStage(plan)[stage]!.now.length;
  switch (verdict.kind) {
    case 'ready':
    case 'bubble':
    case 'idle':
      return verdicts[verdict.kind];
    case 'done':
      return verdicts.done[verdict.of];
    case 'impossible': {
      const { needs, pass } = verdict;
      if (needs.stage === stage) return verdicts.needsOwn(needs.microBatch + 1);
      return (pass.kind === 'forward' ? verdicts.needsForward : verdicts.needsBackward)(
        needs.microBatch + 1,
        needs.stage,
      );
    }
    case 'forward':
    case 'backward':
      return verdicts[verdict.kind](verdict.pass.microBatch + 1, kept);
    case 'early':
    case 'full':
      return verdicts[verdict.kind](kept);
    case 'more':
      return verdicts.more(kept, maxKeptMicroBatches(turn));
    default:
      return verdict satisfies never;
  }
}

/** Compares the finished step with both schedules. */
function Result({ turn: { plan, stage }, size }: { turn: YourTurnState; size: LessonPipelineSize }) {
  const { turn: labels } = uiMessages.value.pipelineLesson;
  const [gpipe, usual] = (['gpipe', '1f1b'] as const).map((schedule) => lessonPipelinePlan(schedule, size));
  const most = (one: typeof plan): number => keptActivationsByStage(one)[stage]!.most;
  return (
    <p role="status">
      <strong>{labels.finished(plan.ticks, most(plan))}</strong>{' '}
      {labels.others(usual!.ticks, most(gpipe!), most(usual!))}
    </p>
  );
}
