/**
 * The page of the lesson. The text is on one side, and the ranks and their numbers are on the
 * other.
 */
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { roundAfterSteps } from '../../engine/lesson/lessonRound.ts';
import { uiMessages } from '../locales/index.ts';
import { LinkBytesPanel } from './LinkBytesPanel.tsx';
import { BusiestLinkComparison } from './BusiestLinkComparison.tsx';
import type { LessonControls } from './lessonControls.ts';
import { RemoveRankPanel } from './RemoveRankPanel.tsx';
import { NumbersGrid } from './NumbersGrid.tsx';
import { OwnNumbersFields } from './OwnNumbersFields.tsx';
import { LESSON_PAGES, pageNeedsNewRound, isLessonPartShown, type LessonPartId } from './pages.ts';
import { RoundRing } from './RoundRing.tsx';
import { SlowLinkPanel } from './SlowLinkPanel.tsx';
import { LessonStepControls } from './LessonStepControls.tsx';
import { AllReduceLessonText } from './AllReduceLessonText.tsx';
import { LESSON_ALGORITHMS } from '../../protocol/lesson.ts';
import { reducedMotion } from '../browser/env.ts';
import { pageWidthClass } from '../browser/theme.ts';

interface Props {
  controls: LessonControls;
  page: number;
  onpage: (page: number) => void;
  /** Content above the lesson. */
  news?: ComponentChildren;
  /**
   * Further content at three places: next to the steps, below this tab's numbers, and after the
   * text.
   */
  besideSteps?: ComponentChildren;
  besideOwn?: ComponentChildren;
  ending?: ComponentChildren;
}

export function LessonPage({ controls, page, onpage, news, besideSteps, besideOwn, ending }: Props) {
  const { lesson } = uiMessages.value;
  const { state, leads, isMoving, order } = controls;
  const { round } = state;
  const shown = useSignal(Infinity);
  // The ring shows a step only after its animation. The table and the sentences wait for the ring.
  const watched = { ...controls, state: { ...state, round: roundAfterSteps(round, shown.value) } };
  const begun = useRef<number | null>(null);
  useEffect(() => {
    // If the text of this page needs a new round on the ring, the leader begins one.
    if (!leads || isMoving || begun.current === page) return;
    begun.current = page;
    if (pageNeedsNewRound(page, round)) order({ type: 'begin', mode: 'ring' });
  });
  return (
    <main class="lesson wrap">
      <h1 class="away">{lesson.heading}</h1>
      {news}
      <div class="lesson-columns">
        <AllReduceLessonText controls={controls} page={page} onpage={onpage} ending={ending} />
        <div class={round.n > 8 ? 'lesson-stage crowd' : 'lesson-stage'}>
          <Part names={['steps']} page={page} title={lesson.steps.title}>
            <LessonStepControls controls={controls} watched={watched}>
              {besideSteps}
            </LessonStepControls>
          </Part>
          <Part names={['modes']} page={page} title={lesson.modes.title} titled>
            <Modes controls={controls} />
          </Part>
          <Part names={['ring']} page={page} title={lesson.ring.title}>
            <RoundRing key={`${round.number} ${round.mode} ${round.n}`} controls={controls} shown={shown} />
          </Part>
          {controls.you !== null && (
            <Part names={['own']} page={page} title={lesson.own.title} titled>
              <OwnNumbersFields state={controls.state} you={controls.you} order={controls.order} />
              {besideOwn}
            </Part>
          )}
          <Part names={['grid', 'sums']} page={page} title={lesson.grid.caption}>
            <NumbersGrid controls={watched} litSums={LESSON_PAGES[page]!.lights === 'sums'} />
          </Part>
          <Part names={['bytes']} page={page} title={lesson.bytes.title} titled>
            <LinkBytesPanel controls={controls} />
          </Part>
          <Part names={['compare']} page={page} title={lesson.compare.title} titled>
            <BusiestLinkComparison controls={controls} />
          </Part>
          <Part names={['stall']} page={page} title={lesson.stall.title} titled>
            <SlowLinkPanel controls={controls} />
          </Part>
          <Part names={['drop']} page={page} title={lesson.drop.title} titled>
            <RemoveRankPanel controls={controls} />
          </Part>
        </div>
      </div>
    </main>
  );
}

function Modes({ controls: { state, leads, isMoving, order } }: { controls: LessonControls }) {
  const { modes } = uiMessages.value.lesson;
  const { mode } = state.round;
  if (!leads) return <p>{modes[mode]}</p>;
  return (
    <>
      <div class="row lesson-modes" role="group" aria-label={modes.title}>
        {LESSON_ALGORITHMS.map((one) => (
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

interface PartProps {
  /**
   * The lesson's parts in this section. The section is highlighted if the page's text explains one
   * of them.
   */
  names: readonly LessonPartId[];
  page: number;
  title: string;
  /** Whether the title is visible to everybody, not only to screen readers. */
  titled?: boolean;
  children: ComponentChildren;
}

function Part({ names, page, title, titled = false, children }: PartProps) {
  const section = useRef<HTMLElement>(null);
  const lights = LESSON_PAGES[page]!.lights;
  const isLit = lights !== null && names.includes(lights);
  const shown = useRef(page);
  useEffect(() => {
    const isTurned = shown.current !== page;
    shown.current = page;
    // On a narrow page, the highlighted part is placed right after the text, so the page need not
    // scroll to it.
    if (!isLit || !isTurned || pageWidthClass.peek() === 'narrow') return;
    section.current?.scrollIntoView({ block: 'nearest', behavior: reducedMotion.peek() ? 'auto' : 'smooth' });
  }, [isLit, page]);
  if (!names.some((name) => isLessonPartShown(name, page))) return null;
  return (
    <section ref={section} class={isLit ? 'lesson-part lit' : 'lesson-part'} data-part={names[0]} aria-label={title}>
      {titled && <h2>{title}</h2>}
      {children}
    </section>
  );
}
