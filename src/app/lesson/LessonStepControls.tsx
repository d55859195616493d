/** Shows the state of the round and this rank's latest step, with buttons for the next steps. */
import type { ComponentChildren } from 'preact';
import { isRoundDone, isLessonRoundUnderWay, roundStepCount } from '../../engine/lesson/lessonRound.ts';
import { chunkName } from '../ring/frameAt.ts';
import { uiMessages } from '../locales/index.ts';
import type { UiMessages } from '../locales/en/index.ts';
import type { LessonControls } from './lessonControls.ts';
import { formatLessonNumber, roundPhaseOf, describeLessonStep, formatSum } from './describeLessonStep.ts';

interface Props {
  controls: LessonControls;
  /** Like `controls`, but its round ends at the step that the ring shows. */
  watched: LessonControls;
  children: ComponentChildren;
}

export function LessonStepControls({ controls, watched, children }: Props) {
  const { lesson } = uiMessages.value;
  const { steps } = lesson;
  const { state, leads, isMoving, waitsFor, order, you } = controls;
  const { round, leader, members } = state;
  const shown = watched.state.round;
  const count = roundStepCount(round.mode, round.n);
  const rest = isMoving || isRoundDone(round);
  const isStuck = isMoving && waitsFor !== null && you !== null;
  return (
    <>
      <div class="row spread lesson-steps">
        <p class="lesson-where">
          <strong>{steps.round(round.number)}</strong>{' '}
          <span class="dim">
            {steps.taken(shown.steps.length, count)} · {lesson.phases[roundPhaseOf(shown)]}
          </span>
        </p>
        {leads ? (
          <div class="row">
            <button
              type="button"
              class={isRoundDone(round) ? '' : 'primary'}
              disabled={rest}
              onClick={() => order({ type: 'steps', count: 1 })}
            >
              {steps.next}
            </button>
            <button type="button" disabled={rest} onClick={() => order({ type: 'steps', count })}>
              {steps.all}
            </button>
            <button
              type="button"
              class={isRoundDone(round) && round.n > 1 ? 'primary' : ''}
              disabled={isMoving || (!isLessonRoundUnderWay(round) && round.n === members.length)}
              onClick={() => order({ type: 'begin', mode: round.mode })}
            >
              {steps.again}
            </button>
            {children}
          </div>
        ) : (
          <p class="dim">{steps.leader(lesson.change.rank(leader, members[leader]!.name))}</p>
        )}
      </div>
      <p class="lesson-last-step" aria-live="polite">
        {isStuck ? steps.waitsFor(waitsFor) : isMoving ? steps.moving : lastStepText(lesson, watched)}
      </p>
    </>
  );
}

/** Describes this rank's latest step in a sentence. */
function lastStepText(lesson: UiMessages['lesson'], { state: { round }, you }: LessonControls): string {
  const { lastStep } = lesson;
  if (you === null) return '';
  const step = describeLessonStep(round, you);
  if (step.kind !== 'added' && step.kind !== 'copied') return lastStep[step.kind];
  const { sent, got } = step;
  const named = (chunk: number, numbers: readonly number[]): string =>
    lastStep.chunk(chunkName(chunk), numbers.map(formatLessonNumber).join(', '));
  const out = named(sent.chunk, sent.numbers);
  const into = named(got.chunk, got.numbers);
  if (step.kind === 'copied') return lastStep.copied(out, sent.to, into, got.from);
  const sums = got.sums.map((sum, i) => `${formatSum([got.numbers[i]!, got.own[i]!])} = ${formatLessonNumber(sum)}`);
  return lastStep.added(out, sent.to, into, got.from, sums.join(', '));
}
