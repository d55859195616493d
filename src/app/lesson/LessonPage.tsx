/**
 * The page of the lesson. The text is on one side, and the ranks and their numbers are on the
 * other.
 */
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { roundAfter } from '../../engine/lesson/lessonRound.ts';
import { messages } from '../locales/index.ts';
import { Bytes } from './Bytes.tsx';
import { Compare } from './Compare.tsx';
import type { LessonControls } from './lessonControls.ts';
import { Drop } from './Drop.tsx';
import { Modes } from './Modes.tsx';
import { NumbersGrid } from './NumbersGrid.tsx';
import { OwnNumbers } from './OwnNumbers.tsx';
import { LESSON_PAGES, needsNewRound } from './pages.ts';
import { Part } from './Part.tsx';
import { RoundRing } from './RoundRing.tsx';
import { Stall } from './Stall.tsx';
import { Steps } from './Steps.tsx';
import { Text } from './Text.tsx';

interface Props {
  controls: LessonControls;
  /** Index of the current page. */
  page: number;
  onpage: (page: number) => void;
  /** Content above the lesson. */
  news?: ComponentChildren;
  /** Further content: next to the steps, below this tab's numbers, and after the text. */
  besideSteps?: ComponentChildren;
  besideOwn?: ComponentChildren;
  ending?: ComponentChildren;
}

export function LessonPage({ controls, page, onpage, news, besideSteps, besideOwn, ending }: Props) {
  const { lesson } = messages.value;
  const { state, leads, isMoving, order } = controls;
  const { round } = state;
  const shown = useSignal(Infinity);
  // The table and the sentences show the same step as the ring, which is animated and so arrives
  // later.
  const watched = { ...controls, state: { ...state, round: roundAfter(round, shown.value) } };
  const begun = useRef<number | null>(null);
  useEffect(() => {
    // The text of this page needs a new round on the ring.
    if (!leads || isMoving || begun.current === page) return;
    begun.current = page;
    if (needsNewRound(page, round)) order({ type: 'begin', mode: 'ring' });
  });
  return (
    <main class="lesson wrap">
      <h1 class="away">{lesson.heading}</h1>
      {news}
      <div class="lesson-columns">
        <Text controls={controls} page={page} onpage={onpage} ending={ending} />
        <div class={round.n > 8 ? 'lesson-stage crowd' : 'lesson-stage'}>
          <Part names={['steps']} page={page} title={lesson.steps.title}>
            <Steps controls={controls} watched={watched}>
              {besideSteps}
            </Steps>
          </Part>
          <Part names={['modes']} page={page} title={lesson.modes.title} titled>
            <Modes controls={controls} />
          </Part>
          <Part names={['ring']} page={page} title={lesson.ring.title}>
            <RoundRing key={`${round.number} ${round.mode} ${round.n}`} controls={controls} shown={shown} />
          </Part>
          {controls.you !== null && (
            <Part names={['own']} page={page} title={lesson.own.title} titled>
              <OwnNumbers state={controls.state} you={controls.you} order={controls.order} />
              {besideOwn}
            </Part>
          )}
          <Part names={['grid', 'sums']} page={page} title={lesson.grid.caption}>
            <NumbersGrid controls={watched} litSums={LESSON_PAGES[page]!.lights === 'sums'} />
          </Part>
          <Part names={['bytes']} page={page} title={lesson.bytes.title} titled>
            <Bytes controls={controls} />
          </Part>
          <Part names={['compare']} page={page} title={lesson.compare.title} titled>
            <Compare controls={controls} />
          </Part>
          <Part names={['stall']} page={page} title={lesson.stall.title} titled>
            <Stall controls={controls} />
          </Part>
          <Part names={['drop']} page={page} title={lesson.drop.title} titled>
            <Drop controls={controls} />
          </Part>
        </div>
      </div>
    </main>
  );
}
