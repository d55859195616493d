/** A value with its name, in a list of facts (`<dl>`). */
import type { ComponentChildren } from 'preact';

export function NamedValue({ name, children }: { name: ComponentChildren; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
