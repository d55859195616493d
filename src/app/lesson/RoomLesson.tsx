/** The lesson in a room. Its ranks are the tabs of the room, and the page of the host leads. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { isHost, isRunUnderWay } from '../state/derive.ts';
import { describeTabState } from '../state/describeTabState.ts';
import { capitalizeFirst } from '../../util/text.ts';
import { FailureBanner } from '../components/FailureBanner.tsx';
import { ConfirmButton } from '../components/ConfirmButton.tsx';
import { closeEndedRun, sendToEngine } from '../state/store.ts';
import type { RunView } from '../state/run.ts';
import type { LessonOrder } from '../../protocol/lesson.ts';
import type { TabView } from '../state/view.ts';
import { uiMessages } from '../locales/index.ts';
import { RankChangesNote } from './RankChangesNote.tsx';
import { LessonPage } from './LessonPage.tsx';
import { nearestLessonPage } from './pages.ts';

export function RoomLesson({ view, run }: { view: TabView; run: RunView }) {
  const { lesson } = uiMessages.value;
  const state = run.lesson?.state ?? null;
  const led = nearestLessonPage(state?.page ?? 0);
  const page = useSignal(led);
  const at = state?.members.findIndex(({ member }) => member === view.member) ?? -1;
  /** A spectator has no rank. */
  const you = at < 0 ? null : at;
  const isOn = isRunUnderWay(view) && state?.isOver === false;
  const leads = isOn && you === state.leader;
  useEffect(() => {
    // When the leader turns the page, all readers move to that page, even those who were ahead. The
    // leader itself ignores `led`, because its own choice returns to it with a delay.
    if (!leads) page.value = led;
  }, [page, led, leads]);
  if (run.lesson === null || state === null) {
    return (
      <main class="lesson wrap">
        <h1 class="away">{lesson.heading}</h1>
        <Trouble view={view} />
        <p class="dim">{capitalizeFirst(describeTabState(view).text)} …</p>
      </main>
    );
  }
  const { isMoving, waitsFor } = run.lesson;
  return (
    <LessonPage
      controls={{
        state,
        you,
        isSolo: false,
        leads,
        mayDrop: isOn && isHost(view),
        isMoving,
        waitsFor,
        order: lessonOrder,
        drop: null,
      }}
      page={page.value}
      onpage={(next) => {
        page.value = next;
        if (leads) lessonOrder({ type: 'page', page: next });
      }}
      news={
        <>
          <Trouble view={view} />
          {state.isOver ? (
            <div class="banner over">
              <p>
                <strong>{lesson.over.title}</strong> {lesson.over.text}
              </p>
              <button type="button" class="primary" onClick={() => closeEndedRun(run.number)}>
                {lesson.room.lobby}
              </button>
            </div>
          ) : (
            view.failure === null &&
            view.state !== 'RUNNING' && (
              <p class={you === null ? 'dim small' : 'wait'}>{capitalizeFirst(describeTabState(view).text)} …</p>
            )
          )}
          <RankChangesNote state={state} />
        </>
      }
      besideSteps={
        leads && (
          <ConfirmButton
            class="quiet"
            label={lesson.steps.finish}
            question={lesson.steps.finishQuestion}
            yes={lesson.steps.finishYes}
            no={lesson.steps.finishNo}
            onyes={() => lessonOrder({ type: 'finish' })}
          />
        )
      }
    />
  );
}

function lessonOrder(order: LessonOrder): void {
  sendToEngine({ type: 'lesson', order });
}

function Trouble({ view }: { view: TabView }) {
  if (view.failure === null) return null;
  return (
    <FailureBanner failure={view.failure}>
      {!view.failure.fatal && isHost(view) && (
        <button type="button" class="primary" onClick={() => sendToEngine({ type: 'start' })}>
          {uiMessages.value.lesson.room.again}
        </button>
      )}
      <button type="button" onClick={() => closeEndedRun(view.run?.number ?? null)}>
        {view.failure.fatal ? uiMessages.value.lesson.room.join : uiMessages.value.lesson.room.lobby}
      </button>
    </FailureBanner>
  );
}
