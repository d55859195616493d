/** What a host may do with the room at any time: lock it, and pause and stop its run. */
import { isOpen } from '../derive.ts';
import { lockRoom, pauseRun, resumeRun, stopRun } from '../store.ts';
import type { Lobby } from '../view.ts';
import { words } from '../words/index.ts';
import { ConfirmButton } from './ConfirmButton.tsx';

export function HostControls({ lobby }: { lobby: Lobby }) {
  const { isLocked, isHeld, phase } = lobby;
  const { controls } = words.value.lobby;
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
      {phase !== 'FORMING' && isOpen(lobby) && (
        <button
          type="button"
          class={isHeld ? 'primary' : 'quiet'}
          title={isHeld ? controls.resumeTitle : controls.pauseTitle}
          onClick={isHeld ? resumeRun : pauseRun}
        >
          {isHeld ? controls.resume : controls.pause}
        </button>
      )}
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
