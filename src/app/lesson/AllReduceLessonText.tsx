/** Shows the text of the lesson. In a room, it tells which page the class sees. */
import type { ComponentChildren } from 'preact';
import { chunkName } from '../ring/frameAt.ts';
import { uiMessages } from '../locales/index.ts';
import { LessonText } from './common/LessonText.tsx';
import type { LessonPageFacts } from '../locales/en/lesson.tsx';
import type { LessonControls } from './lessonControls.ts';
import { LESSON_PAGES } from './pages.ts';
import { formatLessonNumber, formatSum } from './describeLessonStep.ts';

/** If a sum has more terms than this, dots replace the terms in its middle. */
const MOST_TERMS = 6;

interface Props {
  controls: LessonControls;
  page: number;
  onpage: (page: number) => void;
  ending: ComponentChildren;
}

export function AllReduceLessonText({ controls, page, onpage, ending }: Props) {
  const { lesson } = uiMessages.value;
  const { state, isSolo, leads } = controls;
  return (
    <LessonText
      thought={lesson.thoughts[LESSON_PAGES[page]!.name](factsOf(controls))}
      page={page}
      pages={LESSON_PAGES.length}
      onpage={onpage}
      ending={ending}
    >
      {!isSolo && (leads || state.page !== page) && (
        <p class="dim small">
          {leads ? (
            lesson.leading
          ) : (
            <>
              {lesson.classIsAt(state.page + 1)}{' '}
              <button type="button" class="small-button" onClick={() => onpage(state.page)}>
                {lesson.goThere}
              </button>
            </>
          )}
        </p>
      )}
    </LessonText>
  );
}

function factsOf({ state: { round } }: LessonControls): LessonPageFacts {
  const { n, own } = round;
  const firsts = own.map((list) => list[0]!);
  const sum = firsts.reduce((all, one) => all + one, 0);
  const terms =
    firsts.length <= MOST_TERMS
      ? formatSum(firsts)
      : `${formatSum(firsts.slice(0, MOST_TERMS - 2))} + … + ${formatSum(firsts.slice(-1))}`;
  const chunks = n <= MOST_TERMS ? own.map((_, chunk) => chunkName(chunk)).join(', ') : `A, B, … ${chunkName(n - 1)}`;
  return { n, k: own[0]!.length, firstSum: `${terms} = ${formatLessonNumber(sum)}`, chunks };
}
