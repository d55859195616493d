/** A part of the lesson's page. It is highlighted while the text explains it. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { reducedMotion } from '../browser/env.ts';
import { pageWidth } from '../browser/theme.ts';
import { isShown, LESSON_PAGES, type LessonPart } from './pages.ts';

interface Props {
  /** The names of the parts inside, which are highlighted together. */
  names: readonly LessonPart[];
  page: number;
  title: string;
  /** Whether the title is visible to everybody, not only to screen readers. */
  titled?: boolean;
  children: ComponentChildren;
}

export function Part({ names, page, title, titled = false, children }: Props) {
  const section = useRef<HTMLElement>(null);
  const lights = LESSON_PAGES[page]!.lights;
  const isLit = lights !== null && names.includes(lights);
  const shown = useRef(page);
  useEffect(() => {
    const isTurned = shown.current !== page;
    shown.current = page;
    // On a narrow page, the highlighted part is placed right after the text, so the page need not
    // scroll to it.
    if (!isLit || !isTurned || pageWidth.peek() === 'narrow') return;
    section.current?.scrollIntoView({ block: 'nearest', behavior: reducedMotion.peek() ? 'auto' : 'smooth' });
  }, [isLit, page]);
  if (!names.some((name) => isShown(name, page))) return null;
  return (
    <section ref={section} class={isLit ? 'lesson-part lit' : 'lesson-part'} data-part={names[0]} aria-label={title}>
      {titled && <h2>{title}</h2>}
      {children}
    </section>
  );
}
