/** The page for joining a room: the code, a name, the checks, and one button. */
import { useSignal } from '@preact/signals';
import { formatRoomCode } from '../../protocol/roomCode.ts';
import { FailureBanner } from '../components/FailureBanner.tsx';
import { NameField } from '../components/Fields.tsx';
import { Preflight } from '../components/Preflight.tsx';
import { isTabRemoved } from '../state/derive.ts';
import { isEnteringRoom, joinRoomInThisTab, leaveRoom, ownMemberName } from '../state/store.ts';
import type { FailureView } from '../state/view.ts';
import { uiMessages } from '../locales/index.ts';

export function Join({ room, failure }: { room: string; failure: FailureView | null }) {
  const { join: labels } = uiMessages.value;
  const blocked = useSignal(false);
  const removed = isTabRemoved(failure);
  const nameless = ownMemberName.value.trim() === '';
  return (
    <main class="narrow wrap">
      <p class="dim">{labels.joining}</p>
      <h1 class="code">{formatRoomCode(room)}</h1>
      {failure !== null && (
        <FailureBanner failure={failure}>
          {removed && (
            <button type="button" onClick={leaveRoom}>
              {uiMessages.value.run.frontPage}
            </button>
          )}
        </FailureBanner>
      )}
      <form
        class="stack"
        // The form is hidden if the host has removed this tab, because the tab must not return.
        hidden={removed}
        onSubmit={(event) => {
          event.preventDefault();
          joinRoomInThisTab(room, { isSpectator: blocked.value });
        }}
      >
        <NameField value={ownMemberName.value} oninput={(text) => (ownMemberName.value = text)} />
        <Preflight blocked={blocked} />
        <div class="row">
          <button type="submit" class="primary grow" disabled={nameless || isEnteringRoom.value}>
            {isEnteringRoom.value
              ? labels.joiningNow
              : blocked.value
                ? labels.watch
                : failure === null
                  ? labels.join
                  : labels.again}
          </button>
          {/* Any device can watch a run. */}
          {!blocked.value && (
            <button
              type="button"
              class="quiet"
              title={labels.watchAbout}
              disabled={nameless || isEnteringRoom.value}
              onClick={() => joinRoomInThisTab(room, { isSpectator: true })}
            >
              {labels.watch}
            </button>
          )}
        </div>
        <p class="dim small">{nameless ? labels.nameFirst : blocked.value ? labels.onlyWatches : labels.whatFollows}</p>
      </form>
    </main>
  );
}
