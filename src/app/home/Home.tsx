/** The front page: what peergrad is, and the ways into a room. */
import { useSignal } from '@preact/signals';
import { formatRoomCode, parseRoomCode, ROOM_CODE_LENGTH } from '../../protocol/roomCode.ts';
import { DismissibleFailureBanner } from '../components/FailureBanner.tsx';
import { SavedRuns } from './SavedRuns.tsx';
import { GlossaryTerm } from '../components/GlossaryTerm.tsx';
import { ExplorableRing } from '../ring/ExplorableRing.tsx';
import { roomAddressHash } from '../state/route.ts';
import { uiMessages } from '../locales/index.ts';
import type { FailureView } from '../state/view.ts';

export function Home({ wrongCode, failure }: { wrongCode: string | null; failure: FailureView | null }) {
  const { home } = uiMessages.value;
  return (
    <main class="home wrap">
      <div class="home-words">
        <DismissibleFailureBanner failure={failure} />
        <h1>{home.title}</h1>
        <p class="lead">{home.lead(<GlossaryTerm of="all-reduce" />)}</p>
        <div class="home-ways">
          <a class="button primary" href="#new">
            {home.start}
          </a>
          <CodeForm wrongCode={wrongCode} />
        </div>
        <p>
          <a href="#lesson">{home.lesson}</a> <span class="dim">{home.lessonAbout}</span>
          <br />
          <a href="#pipeline">{home.pipeline}</a> <span class="dim">{home.pipelineAbout}</span>
          <br />
          <a href="#network">{home.network}</a> <span class="dim">{home.networkAbout}</span>
        </p>
        <SavedRuns />
      </div>
      <ExplorableRing />
    </main>
  );
}

function CodeForm({ wrongCode }: { wrongCode: string | null }) {
  const { home } = uiMessages.value;
  const text = useSignal(wrongCode ?? '');
  const code = parseRoomCode(text.value);
  const problem = useSignal<string | null>(wrongCode === null ? null : problemWith(wrongCode));
  const join = (): void => {
    if (code === null) problem.value = problemWith(text.value);
    else location.hash = roomAddressHash(code);
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
          <span>{home.code}</span>
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
        <button type="submit">{home.join}</button>
      </div>
      <p class="problem small" role="alert">
        {problem.value}
      </p>
    </form>
  );
}

function problemWith(text: string): string {
  const { home } = uiMessages.value;
  const letters = text.replaceAll(/[\s-]/g, '');
  if (letters.length !== ROOM_CODE_LENGTH) return home.codeLength(ROOM_CODE_LENGTH);
  return home.codeLetters;
}
