import type { LoadProgress } from '../../protocol/events.ts';
import { uiMessages } from '../locales/index.ts';

/** Shows how much of the data is loaded. */
export function Loading(progress: LoadProgress) {
  const { done, total } = progress;
  const { loading, loadedOf } = uiMessages.value.lobby;
  return (
    <p class="row dim small note">
      <progress class="grow" aria-label={loading} value={done} max={total} />
      <span class="number">{loadedOf(progress)}</span>
    </p>
  );
}
