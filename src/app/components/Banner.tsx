/** Shows an error of the engine: what went wrong and what to do. */
import type { ComponentChildren } from 'preact';
import { messages } from '../locales/index.ts';
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
