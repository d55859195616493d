/** The actions of a host: lock the room, and pause or stop its run. */
import { isOpen } from '../state/derive.ts';
import { send } from '../state/store.ts';
import type { Lobby } from '../state/room.ts';
import { messages } from '../locales/index.ts';
import { ConfirmButton } from '../components/ConfirmButton.tsx';

export function HostControls({ lobby }: { lobby: Lobby }) {
  const { isLocked, isPausedByHost, phase } = lobby;
  const { controls } = messages.value.lobby;
  return (
    <>
      <button
        type="button"
        class="quiet"
        title={isLocked ? controls.unlockAbout : controls.lockAbout}
        onClick={() => send({ type: 'lock', isLocked: !isLocked })}
      >
        {isLocked ? controls.unlock : controls.lock}
      </button>
      {phase !== 'FORMING' && isOpen(lobby) && (
        <button
          type="button"
          class={isPausedByHost ? 'primary' : 'quiet'}
          title={isPausedByHost ? controls.resumeAbout : controls.pauseAbout}
          onClick={() => send({ type: isPausedByHost ? 'resume' : 'pause' })}
        >
          {isPausedByHost ? controls.resume : controls.pause}
        </button>
      )}
      {phase !== 'FORMING' && (
        <ConfirmButton
          class="quiet"
          label={controls.stop}
          question={controls.stopQuestion}
          yes={controls.stopYes}
          no={controls.stopNo}
          onyes={() => send({ type: 'stop' })}
        />
      )}
    </>
  );
}
