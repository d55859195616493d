/** A term with a dotted underline that opens its definition. */
import type { ComponentChildren, TargetedToggleEvent } from 'preact';
import { useId, useRef } from 'preact/hooks';
import type { UiMessages } from '../locales/en/index.ts';
import { uiMessages } from '../locales/index.ts';

export type GlossaryTermName = keyof UiMessages['terms'];

export function GlossaryTerm({ of, children }: { of: GlossaryTermName; children?: ComponentChildren }) {
  const id = useId();
  const term = uiMessages.value.terms[of];
  const button = useRef<HTMLButtonElement>(null);
  const place = (event: TargetedToggleEvent<HTMLElement>): void => {
    const float = event.currentTarget;
    if (event.newState !== 'open' || button.current === null) return;
    const at = button.current.getBoundingClientRect();
    const width = float.offsetWidth;
    const left = Math.min(Math.max(16, at.left - 16), innerWidth - width - 16);
    const below = at.bottom + 8 + float.offsetHeight < innerHeight;
    float.style.left = `${left}px`;
    float.style.top = `${below ? at.bottom + 8 : at.top - 8 - float.offsetHeight}px`;
  };
  return (
    <>
      <button ref={button} type="button" class="term" popovertarget={id} aria-describedby={id}>
        {children ?? term.word}
      </button>
      <span id={id} popover="auto" class="definition" onToggle={place}>
        {term.means}
      </span>
    </>
  );
}
