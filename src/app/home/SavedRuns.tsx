/** Shows the runs with checkpoints in this browser, and damaged checkpoints. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { jobDisplayName } from '../../spec/job.ts';
import { formatRoomCode } from '../../protocol/roomCode.ts';
import { formatAgo } from '../locales/format.ts';
import { roomAddressHash } from '../state/route.ts';
import {
  latestUndamagedCheckpoint,
  reloadSavedRuns,
  removeCheckpoints,
  savedRuns,
  type SavedRunCheckpoints,
} from '../state/savedRuns.ts';
import { createRoom, isEnteringRoom } from '../state/store.ts';
import { uiLanguage, uiMessages } from '../locales/index.ts';
import { ConfirmButton } from '../components/ConfirmButton.tsx';

export function SavedRuns() {
  useEffect(() => void reloadSavedRuns(), []);
  const { saved } = uiMessages.value.home;
  const { runs, damaged, problem } = savedRuns.value;
  if (runs.length + damaged.length === 0) return null;
  return (
    <section class="saved" aria-labelledby="saved">
      <h2 id="saved">{saved.title}</h2>
      <ul class="plain">
        {runs.map((run) => (
          <Saved key={run[0].id} run={run} />
        ))}
        {damaged.map(({ id, reason }) => (
          <li key={id}>
            <p class="small">
              <span class="wrong" aria-hidden="true">
                ✕
              </span>{' '}
              {reason}
            </p>
            <button type="button" class="quiet" onClick={() => void removeCheckpoints([id])}>
              {saved.delete}
            </button>
          </li>
        ))}
      </ul>
      {problem !== null && (
        <p class="problem small" role="alert">
          {problem}
        </p>
      )}
    </section>
  );
}

function Saved({ run }: { run: SavedRunCheckpoints }) {
  const [{ job, step, savedAt, room }] = run;
  const { saved } = uiMessages.value.home;
  const checking = useSignal(false);
  const goOn = async (): Promise<void> => {
    checking.value = true;
    const whole = await latestUndamagedCheckpoint(run);
    if (whole) createRoom(whole.job, null, { resume: whole.id });
    checking.value = false;
  };
  const name = jobDisplayName(job);
  return (
    <li>
      <p>
        <strong>{name}</strong>, {saved.step(step)}
        <span class="dim small saved-when">
          {saved.when(
            formatAgo(Date.now() - savedAt, uiLanguage.value),
            <a href={roomAddressHash(room)} title={saved.roomAbout}>
              {formatRoomCode(room)}
            </a>,
          )}
        </span>
      </p>
      <span class="row">
        <button
          type="button"
          aria-label={saved.resumeFrom(name, step)}
          disabled={checking.value || isEnteringRoom.value}
          onClick={() => void goOn()}
        >
          {saved.resume}
        </button>
        <ConfirmButton
          class="quiet"
          label={saved.delete}
          name={saved.deleteWhich(name, step)}
          question={saved.question}
          yes={saved.delete}
          no={saved.keep}
          onyes={() => void removeCheckpoints(run.map(({ id }) => id))}
        />
      </span>
    </li>
  );
}
