/** A part of the lesson's screen, highlighted while the text is about it. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { reducedMotion } from '../browser/env.ts';
import { pageWidth } from '../browser/theme.ts';
import { isShown, LESSON_PAGES, type LessonPart } from './pages.ts';

interface Props {
  /** The part, or several that are highlighted together. */
  names: readonly LessonPart[];
  page: number;
  title: string;
  /** Visible to all, not only to screen readers. */
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
    // In one column, the highlighted part follows the text.
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
