/** A section with a title. On a phone, it is folded at first. */
import type { ComponentChildren } from 'preact';
import { pageWidthClass } from '../browser/theme.ts';

export function CollapsedSection({
  title,
  class: name,
  children,
}: {
  title: string;
  class: string;
  children: ComponentChildren;
}) {
  if (pageWidthClass.value === 'narrow') {
    return (
      <details class={`fold panel ${name}`}>
        <summary>{title}</summary>
        {children}
      </details>
    );
  }
  return (
    <section class={`panel ${name}`} aria-label={title}>
      <h2 class="panel-title">{title}</h2>
      {children}
    </section>
  );
}
