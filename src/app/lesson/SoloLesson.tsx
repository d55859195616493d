/**
 * The lesson for one person. All ranks are simulated, and the settings are in the address of the
 * page.
 */
import { NumberSelect } from '../components/IndexSelect.tsx';
import { useEffect, useMemo } from 'preact/hooks';
import { writeSettingsToAddress, pageRoute } from '../state/address.ts';
import { integerFromQuery } from '../state/route.ts';
import { uiMessages } from '../locales/index.ts';
import { RankChangesNote } from './RankChangesNote.tsx';
import { LessonLinks } from './common/LessonLinks.tsx';
import { LessonPage } from './LessonPage.tsx';
import { nearestLessonPage } from './pages.ts';
import { createSimulatedLesson, SOLO_RANK_COUNTS } from './solo.ts';

const MAX_SEED = 0xffffffff;

export function SoloLesson() {
  const { lesson } = uiMessages.value;
  const { query } = pageRoute.value;
  const seed = integerFromQuery(query, 'seed', [0, 1, MAX_SEED]);
  const solo = useMemo(() => {
    return createSimulatedLesson(
      integerFromQuery(pageRoute.peek().query, 'n', [
        SOLO_RANK_COUNTS.min,
        SOLO_RANK_COUNTS.usual,
        SOLO_RANK_COUNTS.max,
      ]),
      seed,
    );
  }, [seed]);
  useEffect(() => () => solo.dispose(), [solo]);
  const state = solo.state.value;
  const page = nearestLessonPage(integerFromQuery(query, 'page', [1, 1, Infinity]) - 1);
  const n = state.members.length;
  const resize = (count: number): void => {
    solo.resize(count);
    writeSettingsToAddress({ n: String(count) });
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
          writeSettingsToAddress({ n: String(n - 1) });
        },
      }}
      page={page}
      onpage={(next) => writeSettingsToAddress({ page: String(next + 1) })}
      news={
        <>
          <LessonLinks current="lesson" />
          <p class="dim small">{lesson.simulated}</p>
          <RankChangesNote state={state} />
        </>
      }
      besideSteps={
        <NumberSelect
          label={<span class="dim small">{lesson.solo.ranks}</span>}
          least={SOLO_RANK_COUNTS.min}
          most={SOLO_RANK_COUNTS.max}
          value={n}
          onpick={resize}
        />
      }
      besideOwn={
        <p>
          <button
            type="button"
            class="small-button"
            onClick={() => writeSettingsToAddress({ seed: String((seed + 1) % MAX_SEED), n: String(n) })}
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
