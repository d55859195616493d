/** Shows the text of the lesson, one page at a time, with its navigation. */
import type { ComponentChildren } from 'preact';
import { chunkName } from '../ring/frameAt.ts';
import { messages } from '../locales/index.ts';
import type { ThoughtFacts } from '../locales/en/lesson.tsx';
import type { LessonControls } from './lessonControls.ts';
import { LESSON_PAGES } from './pages.ts';
import { numberText, sumText } from './describeStep.ts';

/** The number of terms of a sum that are written out. Dots replace the other terms. */
const MOST_TERMS = 6;

interface Props {
  controls: LessonControls;
  page: number;
  onpage: (page: number) => void;
  ending: ComponentChildren;
}

export function Text({ controls, page, onpage, ending }: Props) {
  const { lesson } = messages.value;
  const { state, isSolo, leads } = controls;
  const { title, text, task } = lesson.thoughts[LESSON_PAGES[page]!.name](factsOf(controls));
  const last = LESSON_PAGES.length - 1;
  return (
    <section class="lesson-text" aria-label={lesson.pages}>
      <div class="thought" aria-live="polite">
        <p class="dim small">{lesson.place(page + 1, LESSON_PAGES.length)}</p>
        <h2>{title}</h2>
        <p>{text}</p>
        {task !== undefined && <p class="task">{task}</p>}
      </div>
      {page === last && ending}
      <div class="row lesson-nav">
        <button type="button" disabled={page === 0} onClick={() => onpage(page - 1)}>
          {lesson.back}
        </button>
        <button type="button" class="primary" disabled={page === last} onClick={() => onpage(page + 1)}>
          {lesson.next}
        </button>
        <progress class="grow" max={last} value={page} aria-label={lesson.pages} />
      </div>
      {!isSolo && (leads || state.page !== page) && (
        <p class="dim small">
          {leads ? (
            lesson.leading
          ) : (
            <>
              {lesson.hostIsAt(state.page + 1)}{' '}
              <button type="button" class="small-button" onClick={() => onpage(state.page)}>
                {lesson.goThere}
              </button>
            </>
          )}
        </p>
      )}
    </section>
  );
}

function factsOf({ state: { round } }: LessonControls): ThoughtFacts {
  const { n, own } = round;
  const firsts = own.map((list) => list[0]!);
  const sum = firsts.reduce((all, one) => all + one, 0);
  const terms =
    firsts.length <= MOST_TERMS
      ? sumText(firsts)
      : `${sumText(firsts.slice(0, MOST_TERMS - 2))} + … + ${sumText(firsts.slice(-1))}`;
  const chunks = n <= MOST_TERMS ? own.map((_, chunk) => chunkName(chunk)).join(', ') : `A, B, … ${chunkName(n - 1)}`;
  return { n, k: own[0]!.length, firstSum: `${terms} = ${numberText(sum)}`, chunks };
}
