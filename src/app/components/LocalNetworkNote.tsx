/** Explains that this tab may reach no other tab, because the browser blocks the local network. */
import { localNetworkPermission } from '../browser/localNetwork.ts';
import { uiMessages } from '../locales/index.ts';

/**
 * @param hasFailed whether this tab has failed to connect. If so, the note is also shown while the
 *   browser's question is unanswered.
 */
export function LocalNetworkNote({ hasFailed }: { hasFailed: boolean }) {
  const { denied, unanswered, fix } = uiMessages.value.join.checks.localNetwork;
  const state = localNetworkPermission().value;
  const isUnanswered = state === 'prompt' && hasFailed;
  if (state !== 'denied' && !isUnanswered) return null;
  return (
    <p class="small">
      <span class="wait" aria-hidden="true">
        !
      </span>{' '}
      {isUnanswered ? unanswered : `${denied} ${fix}`}
    </p>
  );
}
