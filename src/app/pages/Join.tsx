/** Joining, on a phone first: the code, your name, what this tab can do, one button. */
import { useSignal } from '@preact/signals';
import { formatRoomCode } from '../../protocol/roomCode.ts';
import { Banner } from '../parts/Banner.tsx';
import { NameField } from '../parts/Fields.tsx';
import { Preflight } from '../parts/Preflight.tsx';
import { entering, joinRoom, name } from '../store.ts';
import type { Failure } from '../view.ts';
import { words } from '../words/index.ts';

export function Join({ room, failure }: { room: string; failure: Failure | null }) {
  const { join: says } = words.value;
  const blocked = useSignal(false);
  const nameless = name.value.trim() === '';
  return (
    <main class="narrow wrap">
      <p class="dim">{says.joining}</p>
      <h1 class="code">{formatRoomCode(room)}</h1>
      {failure !== null && <Banner failure={failure} />}
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          joinRoom(room);
        }}
      >
        <NameField value={name.value} oninput={(text) => (name.value = text)} />
        <Preflight blocked={blocked} />
        <button type="submit" class="primary" disabled={nameless || blocked.value || entering.value}>
          {entering.value ? says.joiningNow : failure === null ? says.join : says.again}
        </button>
        <p class="dim small">{nameless ? says.nameFirst : says.whatFollows}</p>
      </form>
    </main>
  );
}
