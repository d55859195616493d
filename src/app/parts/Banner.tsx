/** What went wrong, in one sentence, and what to do about it. */
import type { ComponentChildren } from 'preact';
import type { Failure } from '../view.ts';

export function Banner({ failure, children }: { failure: Failure; children?: ComponentChildren }) {
  const advice = ADVICE[failure.name];
  return (
    <div class="banner" role="alert">
      <p>
        <span class="wrong" aria-hidden="true">
          ✕
        </span>{' '}
        <strong>{failure.message}</strong>
        {advice !== undefined && <span class="dim"> {advice}</span>}
      </p>
      {children !== undefined && <div class="row">{children}</div>}
    </div>
  );
}

/** By error class (util/errors.ts): each names the decision its reader has to make. */
const ADVICE: Record<string, string> = {
  UsageError: 'Change the job and start again.',
  TimeoutError: 'The host can start again with the tabs that are left.',
  PeerGoneError: 'The host can start again with the tabs that are left.',
  MismatchError: 'Reload the page in every tab, so that all run the same version.',
  ProtocolError: 'Reload the page in every tab, so that all run the same version.',
  SignalingError: 'Check the address and the code, then try again.',
  DeviceError: 'Reload this page; if it happens again, close other tabs that use the GPU.',
  DataError: 'Choose other files.',
};
