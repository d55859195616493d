/** The title of a part of the panel. */
import type { ComponentChildren } from 'preact';
import { pageWidth } from '../browser/theme.ts';

/** Folded, the panel's own title is no heading: then its parts come right below the page's. */
export function Subtitle({ children }: { children: ComponentChildren }) {
  const Heading = pageWidth.value === 'narrow' ? 'h2' : 'h3';
  return <Heading class="learned-title">{children}</Heading>;
}
