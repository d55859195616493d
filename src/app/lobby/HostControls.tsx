/** The actions of a host: lock the room, and pause or stop its run. */
import { isElasticRoom } from '../state/derive.ts';
import { sendToEngine } from '../state/store.ts';
import type { LobbyView } from '../state/room.ts';
import { uiMessages } from '../locales/index.ts';
import { ConfirmButton } from '../components/ConfirmButton.tsx';

export function HostControls({ lobby }: { lobby: LobbyView }) {
  const { isLocked, isPausedByHost, phase } = lobby;
  const { controls } = uiMessages.value.lobby;
  return (
    <>
      <button
        type="button"
        class="quiet"
        title={isLocked ? controls.unlockAbout : controls.lockAbout}
        onClick={() => sendToEngine({ type: 'lock', isLocked: !isLocked })}
      >
        {isLocked ? controls.unlock : controls.lock}
      </button>
      {phase !== 'FORMING' && isElasticRoom(lobby) && (
        <button
          type="button"
          class={isPausedByHost ? 'primary' : 'quiet'}
          title={isPausedByHost ? controls.resumeAbout : controls.pauseAbout}
          onClick={() => sendToEngine({ type: isPausedByHost ? 'resume' : 'pause' })}
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
          onyes={() => sendToEngine({ type: 'stop' })}
        />
      )}
    </>
  );
}
