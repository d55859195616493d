/** Shows the text of a lesson, one page at a time. Buttons and arrow keys turn the pages. */
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { uiMessages } from '../../locales/index.ts';
import type { LessonPageText } from '../../locales/en/lesson.tsx';

/** Elements that use the arrow keys themselves: input fields, grids, and areas that scroll. */
const USES_ARROWS = 'input, select, textarea, dialog, [role="grid"], [role="region"]';

interface Props {
  thought: LessonPageText;
  /** Index of the current page, and the number of pages. */
  page: number;
  pages: number;
  onpage: (page: number) => void;
  /** Shown after the text of the last page. */
  ending: ComponentChildren;
  /** Shown below the buttons. */
  children?: ComponentChildren;
}

export function LessonText({ thought: { title, text, task }, page, pages, onpage, ending, children }: Props) {
  const { lesson } = uiMessages.value;
  // A key may be pressed as soon as the text is visible. So the key handler is added before the
  // page is painted, and reads the latest properties from this ref.
  const shown = useRef({ page, pages, onpage });
  shown.current = { page, pages, onpage };
  useLayoutEffect(() => {
    const onkey = (event: KeyboardEvent): void => {
      const { key, target } = event;
      const turns = key === 'ArrowRight' ? 1 : key === 'ArrowLeft' ? -1 : 0;
      if (turns === 0 || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      if (target instanceof Element && target.closest(USES_ARROWS) !== null) return;
      const next = shown.current.page + turns;
      if (next < 0 || next >= shown.current.pages) return;
      event.preventDefault();
      shown.current.onpage(next);
    };
    addEventListener('keydown', onkey);
    return () => removeEventListener('keydown', onkey);
  }, []);
  const last = pages - 1;
  return (
    <section class="lesson-text" aria-label={lesson.pages}>
      <div class="thought" aria-live="polite">
        <p class="dim small">{lesson.place(page + 1, pages)}</p>
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
      {children}
    </section>
  );
}
