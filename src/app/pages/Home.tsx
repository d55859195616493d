/** The front page: what this is, in one look, and the two ways in. */
import { useSignal } from '@preact/signals';
import { formatRoomCode, parseRoomCode, ROOM_CODE_LENGTH } from '../../protocol/roomCode.ts';
import { Banner } from '../parts/Banner.tsx';
import { SavedRuns } from '../parts/SavedRuns.tsx';
import { Term } from '../parts/Term.tsx';
import { ExplorableRing } from '../ring/ExplorableRing.tsx';
import { roomHash } from '../route.ts';
import { dismissFailure } from '../store.ts';
import type { Failure } from '../view.ts';

export function Home({ wrongCode, failure }: { wrongCode: string | null; failure: Failure | null }) {
  return (
    <main class="home wrap">
      <div class="home-words">
        {failure !== null && (
          <Banner failure={failure}>
            <button type="button" class="quiet" onClick={dismissFailure}>
              Dismiss
            </button>
          </Banner>
        )}
        <h1>Train one model in many tabs.</h1>
        <p class="lead">
          Open this page on a few machines. Each tab computes on its own share of the data; then the tabs add up what
          they found, by an{' '}
          <span class="nowrap">
            <Term of="all-reduce" />,
          </span>{' '}
          straight from browser to browser.
        </p>
        <div class="home-ways">
          <a class="button primary" href="#new">
            Start a room
          </a>
          <CodeForm wrongCode={wrongCode} />
        </div>
        <SavedRuns />
      </div>
      <ExplorableRing />
    </main>
  );
}

function CodeForm({ wrongCode }: { wrongCode: string | null }) {
  const text = useSignal(wrongCode ?? '');
  const code = parseRoomCode(text.value);
  const problem = useSignal<string | null>(wrongCode === null ? null : problemWith(wrongCode));
  const join = (): void => {
    if (code === null) problem.value = problemWith(text.value);
    else location.hash = roomHash(code);
  };
  return (
    <form
      class="code-form"
      onSubmit={(event) => {
        event.preventDefault();
        join();
      }}
    >
      <div class="row tight">
        <label class="field inline">
          <span>or type a code</span>
          <input
            class="code-input"
            type="text"
            value={text.value}
            placeholder="···-···"
            maxLength={12}
            autocomplete="off"
            autocapitalize="characters"
            spellcheck={false}
            aria-invalid={problem.value !== null}
            onInput={(event) => {
              const typed = event.currentTarget.value.toUpperCase();
              const whole = parseRoomCode(typed);
              text.value = whole === null ? typed : formatRoomCode(whole);
              problem.value = null;
            }}
          />
        </label>
        <button type="submit">Join</button>
      </div>
      <p class="problem small" role="alert">
        {problem.value}
      </p>
    </form>
  );
}

function problemWith(text: string): string {
  const letters = text.replaceAll(/[\s-]/g, '');
  if (letters.length !== ROOM_CODE_LENGTH) return `A code has ${ROOM_CODE_LENGTH} letters and digits, like K7F-3QX.`;
  return 'A code never has 0, O, 1, I or L in it: look again.';
}
