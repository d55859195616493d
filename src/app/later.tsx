/** Pages that most people never open, loaded when they are: the front page must be there at once. */
import { signal } from '@preact/signals';
import type { ComponentType } from 'preact';
import { words } from './words/index.ts';

/** A component in place of the one that `load` gives, which is shown as soon as it is here. */
export function later<Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  const loaded = signal<{ Page: ComponentType<Props> } | 'failed' | null>(null);
  let isAsked = false;
  return function Later(props: Props) {
    if (!isAsked) {
      isAsked = true;
      load().then(
        (Page) => (loaded.value = { Page }),
        () => (loaded.value = 'failed'),
      );
    }
    const now = loaded.value;
    if (now === null) return <main />;
    if (now === 'failed') return <main class="wrap">{words.value.shell.notLoaded}</main>;
    return <now.Page {...props} />;
  };
}
