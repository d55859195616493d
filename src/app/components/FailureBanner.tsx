/** Shows an error of the engine: what went wrong and what to do. */
import type { ComponentChildren } from 'preact';
import { uiMessages } from '../locales/index.ts';
import { dismissFailure } from '../state/store.ts';
import type { FailureView } from '../state/view.ts';
import { NoticeText } from './NoticeText.tsx';

export function FailureBanner({ failure, children }: { failure: FailureView; children?: ComponentChildren }) {
  return (
    <div class="banner" role="alert">
      <p>
        <span class="wrong" aria-hidden="true">
          ✕
        </span>{' '}
        <strong>{uiMessages.value.shell.failure(<NoticeText {...failure} />)}</strong>
      </p>
      {children !== undefined && <div class="row">{children}</div>}
    </div>
  );
}

export function DismissibleFailureBanner({ failure }: { failure: FailureView | null }) {
  if (failure === null) return null;
  return (
    <FailureBanner failure={failure}>
      <button type="button" class="quiet" onClick={dismissFailure}>
        {uiMessages.value.shell.dismiss}
      </button>
    </FailureBanner>
  );
}
