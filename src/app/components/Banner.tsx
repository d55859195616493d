/** Shows an error of the engine: what went wrong and what to do. */
import type { ComponentChildren } from 'preact';
import { messages } from '../locales/index.ts';
import { dismissFailure } from '../state/store.ts';
import type { Failure } from '../state/view.ts';
import { NoticeText } from './NoticeText.tsx';

export function Banner({ failure, children }: { failure: Failure; children?: ComponentChildren }) {
  return (
    <div class="banner" role="alert">
      <p>
        <span class="wrong" aria-hidden="true">
          ✕
        </span>{' '}
        <strong>{messages.value.shell.failure(<NoticeText {...failure} />)}</strong>
      </p>
      {children !== undefined && <div class="row">{children}</div>}
    </div>
  );
}

export function DismissibleBanner({ failure }: { failure: Failure | null }) {
  if (failure === null) return null;
  return (
    <Banner failure={failure}>
      <button type="button" class="quiet" onClick={dismissFailure}>
        {messages.value.shell.dismiss}
      </button>
    </Banner>
  );
}
