/** Opening a room: who you are, what to train, and whether this tab can take part. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { MAX_WORLD_SIZE } from '../../protocol/control.ts';
import { DEFAULT_JOB, type JobSpec } from '../../protocol/job.ts';
import { Banner } from '../parts/Banner.tsx';
import { NameField, NumberField } from '../parts/Fields.tsx';
import { JobForm } from '../parts/JobForm.tsx';
import { Preflight } from '../parts/Preflight.tsx';
import { askForServerData } from '../serverData.ts';
import { createRoom, dismissFailure, entering, name } from '../store.ts';
import { words } from '../words/index.ts';
import type { Failure } from '../view.ts';

export function NewRoom({ failure }: { failure: Failure | null }) {
  const job = useSignal<JobSpec>(DEFAULT_JOB);
  const startAt = useSignal<number | null>(null);
  const blocked = useSignal(false);
  const { openToWatch, openToWatchTitle } = words.value.join;
  useEffect(() => void askForServerData(), []);
  const nameless = name.value.trim() === '';
  return (
    <main class="narrow wrap">
      <h1 class="page-title">Start a room</h1>
      {failure !== null && (
        <Banner failure={failure}>
          <button type="button" class="quiet" onClick={dismissFailure}>
            Dismiss
          </button>
        </Banner>
      )}
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          createRoom(job.value, startAt.value, { watches: blocked.value });
        }}
      >
        <NameField value={name.value} oninput={(text) => (name.value = text)} />
        <JobForm job={job.value} onjob={(next) => (job.value = next)}>
          <NumberField
            label="Start by itself at … tabs"
            value={startAt.value}
            empty="when you say so"
            onpick={(value) => {
              const possible = value === null || (Number.isInteger(value) && value >= 1 && value <= MAX_WORLD_SIZE);
              if (possible) startAt.value = value;
              return possible ? null : `From 1 to ${MAX_WORLD_SIZE} tabs.`;
            }}
          />
        </JobForm>
        <Preflight blocked={blocked} />
        <div class="row">
          <button type="submit" class="primary grow" disabled={nameless || entering.value}>
            {entering.value ? 'Opening …' : blocked.value ? openToWatch : 'Open the room'}
          </button>
          {/* A projector that leads, and leaves the training to others. */}
          {!blocked.value && (
            <button
              type="button"
              class="quiet"
              title={openToWatchTitle}
              disabled={nameless || entering.value}
              onClick={() => createRoom(job.value, startAt.value, { watches: true })}
            >
              {openToWatch}
            </button>
          )}
          <a class="button quiet" href="#">
            Back
          </a>
        </div>
        {nameless && <p class="dim small">Say who you are first: the others see your name.</p>}
      </form>
    </main>
  );
}
