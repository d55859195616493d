/** The title of a part of the panel. */
import type { ComponentChildren } from 'preact';
import { pageWidthClass } from '../browser/theme.ts';

/**
 * On a narrow page the panel is folded and its own title is not a heading. So subtitles are
 * headings of level 2 there, and of level 3 elsewhere.
 */
export function InspectionHeading({ children }: { children: ComponentChildren }) {
  const Heading = pageWidthClass.value === 'narrow' ? 'h2' : 'h3';
  return <Heading class="inspection-title">{children}</Heading>;
}
