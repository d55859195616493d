/** What a host may do with the room at any time: lock it, and stop its run. */
import { lockRoom, stopRun } from '../store.ts';
import type { Lobby } from '../view.ts';
import { words } from '../words/index.ts';
import { ConfirmButton } from './ConfirmButton.tsx';

export function HostControls({ lobby }: { lobby: Lobby }) {
  const { isLocked, phase } = lobby;
  const { controls } = words.value.lobby;
  return (
    <>
      <button
        type="button"
        class="quiet"
        title={isLocked ? controls.unlockAbout : controls.lockAbout}
        onClick={() => lockRoom(!isLocked)}
      >
        {isLocked ? controls.unlock : controls.lock}
      </button>
      {phase !== 'FORMING' && (
        <ConfirmButton
          class="quiet"
          label={controls.stop}
          question={controls.stopQuestion}
          yes={controls.stopYes}
          no={controls.stopNo}
          onyes={stopRun}
        />
      )}
    </>
  );
}
