/** A titled section; on a phone folded away until asked for. */
import type { ComponentChildren } from 'preact';
import { narrow } from '../env.ts';

export function Fold({ title, class: name, children }: { title: string; class: string; children: ComponentChildren }) {
  if (narrow.value) {
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
