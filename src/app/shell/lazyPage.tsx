/** Pages whose code is loaded when they are first shown. */
import { signal } from '@preact/signals';
import type { ComponentType } from 'preact';
import { useEffect } from 'preact/hooks';
import { uiMessages } from '../locales/index.ts';

interface LazyPage<Props> {
  Page: ComponentType<Props>;
  /** Starts to load the code early, before the page is shown. */
  fetch(this: void): void;
}

export function lazyPage<Props extends object>(load: () => Promise<ComponentType<Props>>): LazyPage<Props> {
  const loaded = signal<ComponentType<Props> | null>(null);
  const hasFailed = signal(false);
  let isUnderWay = false;
  const fetch = (): void => {
    if (isUnderWay || loaded.peek() !== null) return;
    isUnderWay = true;
    load().then(
      (page) => (loaded.value = page),
      () => {
        isUnderWay = false;
        hasFailed.value = true;
      },
    );
  };
  const Page = (props: Props) => {
    useEffect(fetch, []);
    const Loaded = loaded.value;
    if (Loaded !== null) return <Loaded {...props} />;
    return (
      <main class="wrap" aria-busy={!hasFailed.value}>
        {hasFailed.value && <p role="alert">{uiMessages.value.shell.pageMissing}</p>}
      </main>
    );
  };
  return { Page, fetch };
}
