/**
 * The lesson for one person. All ranks are simulated, and the settings are in the address of the
 * page.
 */
import { NumberSelect } from '../components/IndexSelect.tsx';
import { useEffect, useMemo } from 'preact/hooks';
import { keepInAddress, pageRoute } from '../state/address.ts';
import { integerFromQuery } from '../state/route.ts';
import { uiMessages } from '../locales/index.ts';
import { Change } from './Change.tsx';
import { Lessons } from './common/Lessons.tsx';
import { LessonPage } from './LessonPage.tsx';
import { pageWithin } from './pages.ts';
import { createSimulatedLesson, SOLO_RANKS } from './solo.ts';

const MAX_SEED = 0xffffffff;

export function SoloLesson() {
  const { lesson } = uiMessages.value;
  const { query } = pageRoute.value;
  const seed = integerFromQuery(query, 'seed', [0, 1, MAX_SEED]);
  const solo = useMemo(() => {
    return createSimulatedLesson(
      integerFromQuery(pageRoute.peek().query, 'n', [SOLO_RANKS.min, SOLO_RANKS.usual, SOLO_RANKS.max]),
      seed,
    );
  }, [seed]);
  useEffect(() => () => solo.dispose(), [solo]);
  const state = solo.state.value;
  const page = pageWithin(integerFromQuery(query, 'page', [1, 1, Infinity]) - 1);
  const n = state.members.length;
  const resize = (count: number): void => {
    solo.resize(count);
    keepInAddress({ n: String(count) });
  };
  return (
    <LessonPage
      controls={{
        state,
        you: 0,
        isSolo: true,
        leads: true,
        mayDrop: false,
        waitsFor: null,
        isMoving: solo.isMoving.value,
        order: (order) => solo.order(order),
        drop: (rank) => {
          solo.drop(rank);
          keepInAddress({ n: String(n - 1) });
        },
      }}
      page={page}
      onpage={(next) => keepInAddress({ page: String(next + 1) })}
      news={
        <>
          <Lessons current="lesson" />
          <p class="dim small">{lesson.simulated}</p>
          <Change state={state} />
        </>
      }
      besideSteps={
        <NumberSelect
          label={<span class="dim small">{lesson.solo.ranks}</span>}
          least={SOLO_RANKS.min}
          most={SOLO_RANKS.max}
          value={n}
          onpick={resize}
        />
      }
      besideOwn={
        <p>
          <button
            type="button"
            class="small-button"
            onClick={() => keepInAddress({ seed: String((seed + 1) % MAX_SEED), n: String(n) })}
          >
            {lesson.own.others}
          </button>
        </p>
      }
      ending={
        <div class="row">
          <a class="button primary" href="#new">
            {lesson.solo.startRoom}
          </a>
          <a class="button" href="#new?job=lesson">
            {lesson.solo.lessonRoom}
          </a>
        </div>
      }
    />
  );
}
