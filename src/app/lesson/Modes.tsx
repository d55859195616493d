/** The choice between ring and parameter server. */
import { LESSON_MODES } from '../../protocol/lesson.ts';
import { messages } from '../locales/index.ts';
import type { LessonControls } from './lessonControls.ts';

export function Modes({ controls: { state, leads, isMoving, order } }: { controls: LessonControls }) {
  const { modes } = messages.value.lesson;
  const { mode } = state.round;
  if (!leads) return <p>{modes[mode]}</p>;
  return (
    <>
      <div class="row lesson-modes" role="group" aria-label={modes.title}>
        {LESSON_MODES.map((one) => (
          <button
            key={one}
            type="button"
            class="choice"
            aria-pressed={one === mode}
            disabled={isMoving}
            onClick={() => one !== mode && order({ type: 'begin', mode: one })}
          >
            {modes[one]}
          </button>
        ))}
      </div>
      <p class="dim small">{modes.note}</p>
    </>
  );
}
