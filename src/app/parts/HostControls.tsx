/** What a host may do with the room at any time: lock it, and stop its run. */
import { lockRoom, stopRun } from '../store.ts';
import type { Lobby } from '../view.ts';
import { ConfirmButton } from './ConfirmButton.tsx';

export function HostControls({ lobby }: { lobby: Lobby }) {
  const { isLocked, phase } = lobby;
  return (
    <>
      <button
        type="button"
        class="quiet"
        title={isLocked ? 'Let others join again' : 'Nobody else can join then; who loses the connection may return'}
        onClick={() => lockRoom(!isLocked)}
      >
        {isLocked ? 'Unlock the room' : 'Lock the room'}
      </button>
      {phase !== 'FORMING' && (
        <ConfirmButton
          class="quiet"
          label="Stop the run"
          question="Stop it for all?"
          yes="Stop"
          no="Go on"
          onyes={stopRun}
        />
      )}
    </>
  );
}
