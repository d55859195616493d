/** The page for opening a room: a name, the job, and the checks. */
import { useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { MAX_WORLD_SIZE } from '../../protocol/scalars.ts';
import { isElasticJob, type JobSpec } from '../../spec/job.ts';
import { RunOriginField, type ChosenRunOrigin } from '../modelFiles/RunOriginField.tsx';
import { DismissibleFailureBanner } from '../components/FailureBanner.tsx';
import { CopyButton } from '../components/CopyButton.tsx';
import { NameField, NumberField } from '../components/Fields.tsx';
import { JobFileField } from '../jobForm/JobFileField.tsx';
import { JobForm } from '../jobForm/JobForm.tsx';
import { Preflight } from '../components/Preflight.tsx';
import { detectServerData } from '../browser/serverData.ts';
import { algorithmProblem } from '../state/algorithm.ts';
import { fitsJobLink, parseJobLink, addressSettingsOfJob } from '../state/jobLink.ts';
import { writeSettingsToAddress, pageRoute } from '../state/address.ts';
import { createRoom, isEnteringRoom, ownMemberName } from '../state/store.ts';
import type { FailureView } from '../state/view.ts';
import { uiMessages } from '../locales/index.ts';

export function NewRoom({ failure }: { failure: FailureView | null }) {
  const { join: labels } = uiMessages.value;
  const { job: asked, problem, unknown } = useMemo(() => parseJobLink(pageRoute.peek().query), []);
  const job = useSignal<JobSpec>(asked);
  /**
   * The number of job files opened so far. The form is created again for each file, so that
   * half-typed values are discarded.
   */
  const opened = useSignal(0);
  const startAt = useSignal<number | null>(null);
  const origin = useSignal<ChosenRunOrigin | null>(null);
  const blocked = useSignal(false);
  useEffect(() => void detectServerData(), []);
  const nameless = ownMemberName.value.trim() === '';
  const { checkpoint = null } = origin.value ?? {};
  /** Why the job's algorithm cannot run on the number of tabs at which the run starts by itself. */
  const why = checkpoint === null ? algorithmProblem(job.value, startAt.value ?? 1) : null;
  const take = (next: JobSpec): void => {
    job.value = next;
    writeSettingsToAddress(addressSettingsOfJob(next));
  };
  const open = (isSpectator: boolean): void => {
    const chosen = origin.peek();
    const options = chosen === null || isSpectator ? { isSpectator } : { origin: chosen.file };
    const resumed = chosen?.checkpoint?.job;
    // With a checkpoint, the form is hidden, so its setting for an automatic start is ignored.
    createRoom(resumed ?? job.value, resumed === undefined ? startAt.value : null, options);
  };
  return (
    <main class="narrow wrap">
      <h1 class="page-title">{labels.newTitle}</h1>
      <DismissibleFailureBanner failure={failure} />
      {problem !== null && (
        <p class="wait small" role="alert">
          {labels.wrongLink(problem)}
        </p>
      )}
      {unknown.length > 0 && (
        <p class="wait small" role="alert">
          {labels.unknownInLink(unknown.join(', '))}
        </p>
      )}
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          open(blocked.value);
        }}
      >
        <NameField value={ownMemberName.value} oninput={(text) => (ownMemberName.value = text)} />
        {/* A checkpoint contains its own job, so the form is hidden. */}
        {checkpoint === null && (
          <JobForm key={opened.value} job={job.value} onjob={take}>
            <NumberField
              label={labels.startAt}
              value={startAt.value}
              empty={labels.startAtNone}
              onpick={(value, isSettled) => {
                const possible = value === null || (Number.isInteger(value) && value >= 1 && value <= MAX_WORLD_SIZE);
                if (possible && isSettled) startAt.value = value;
                return possible ? null : labels.startAtWrong(MAX_WORLD_SIZE);
              }}
            />
          </JobForm>
        )}
        {why !== null && (
          <p class="wait small" role="alert">
            {why}
          </p>
        )}
        {checkpoint === null && (
          <JobFileField
            job={job.value}
            onjob={(next) => {
              opened.value += 1;
              take(next);
            }}
          />
        )}
        {((isElasticJob(job.value) && job.value.job !== 'lesson' && !blocked.value) || origin.value !== null) && (
          <RunOriginField origin={origin.value} onorigin={(next) => (origin.value = next)} />
        )}
        <Preflight blocked={blocked} />
        <div class="row">
          <button type="submit" class="primary grow" disabled={nameless || isEnteringRoom.value || why !== null}>
            {isEnteringRoom.value ? labels.opening : blocked.value ? labels.openToWatch : labels.open}
          </button>
          {/*
           * A host may watch without training, for example on a projector. The host of a lesson
           * must take part.
           */}
          {!blocked.value && job.value.job !== 'lesson' && origin.value === null && (
            <button
              type="button"
              class="quiet"
              title={labels.openToWatchAbout}
              disabled={nameless || isEnteringRoom.value || why !== null}
              onClick={() => open(true)}
            >
              {labels.openToWatch}
            </button>
          )}
          <a class="button quiet" href="#">
            {labels.back}
          </a>
        </div>
        {checkpoint === null && (
          <p class="small">
            {fitsJobLink(job.value) ? (
              <CopyButton text={() => location.href} class="quiet flush">
                {labels.copySetup}
              </CopyButton>
            ) : (
              labels.tooLongForLink
            )}
          </p>
        )}
        {nameless && <p class="dim small">{labels.nameFirst}</p>}
      </form>
    </main>
  );
}
