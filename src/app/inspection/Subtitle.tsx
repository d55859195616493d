/** The title of a part of the panel. */
import type { ComponentChildren } from 'preact';
import { pageWidth } from '../browser/theme.ts';

/** Heading level: a folded panel has no heading of its own. */
export function Subtitle({ children }: { children: ComponentChildren }) {
  const Heading = pageWidth.value === 'narrow' ? 'h2' : 'h3';
  return <Heading class="inspection-title">{children}</Heading>;
}
