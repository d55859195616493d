/** Joining, on a phone first: the code, your name, what this tab can do, one button. */
import { useSignal } from '@preact/signals';
import { formatRoomCode } from '../../protocol/roomCode.ts';
import { Banner } from '../parts/Banner.tsx';
import { NameField } from '../parts/Fields.tsx';
import { Preflight } from '../parts/Preflight.tsx';
import { entering, joinRoom, name } from '../store.ts';
import { words } from '../words/index.ts';
import type { Failure } from '../view.ts';

export function Join({ room, failure }: { room: string; failure: Failure | null }) {
  const blocked = useSignal(false);
  const { watch, watchTitle, onlyWatches } = words.value.join;
  const nameless = name.value.trim() === '';
  return (
    <main class="narrow wrap">
      <p class="dim">You are joining</p>
      <h1 class="code">{formatRoomCode(room)}</h1>
      {failure !== null && <Banner failure={failure} />}
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          joinRoom(room, blocked.value);
        }}
      >
        <NameField value={name.value} oninput={(text) => (name.value = text)} />
        <Preflight blocked={blocked} />
        <div class="row">
          <button type="submit" class="primary grow" disabled={nameless || entering.value}>
            {entering.value ? 'Joining …' : blocked.value ? watch : failure === null ? 'Join' : 'Try again'}
          </button>
          {/* Whatever this device lacks, its user can look on. */}
          {!blocked.value && (
            <button
              type="button"
              class="quiet"
              title={watchTitle}
              disabled={nameless || entering.value}
              onClick={() => joinRoom(room, true)}
            >
              {watch}
            </button>
          )}
        </div>
        <p class="dim small">
          {nameless
            ? 'Say who you are first: the others see your name.'
            : blocked.value
              ? onlyWatches
              : 'This tab will train a model together with the others in the room, for as long as it is open.'}
        </p>
      </form>
    </main>
  );
}
