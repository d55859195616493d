/** Runs that can go on, and checkpoints that cannot be read; nothing where there are none. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { formatRoomCode } from '../../protocol/roomCode.ts';
import { formatAgo } from '../format.ts';
import { roomHash } from '../route.ts';
import { latestWhole, lookForRuns, removeCheckpoints, savedRuns, type SavedRun } from '../savedRuns.ts';
import { createRoom, entering } from '../store.ts';
import { ConfirmButton } from './ConfirmButton.tsx';

export function SavedRuns() {
  useEffect(() => void lookForRuns(), []);
  const { runs, damaged, problem } = savedRuns.value;
  if (runs.length + damaged.length === 0) return null;
  return (
    <section class="saved" aria-labelledby="saved">
      <h2 id="saved">Go on where you were</h2>
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
              Delete
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

function Saved({ run }: { run: SavedRun }) {
  const [{ job, step, savedAt, room }] = run;
  const checking = useSignal(false);
  const goOn = async (): Promise<void> => {
    checking.value = true;
    const whole = await latestWhole(run);
    if (whole) createRoom(whole.job, null, { resume: whole.id });
    checking.value = false;
  };
  const name = `${job.job}/${job.model}`;
  return (
    <li>
      <p>
        <strong>{name}</strong>, step {step}
        <span class="dim small saved-when">
          saved {formatAgo(Date.now() - savedAt)} in room{' '}
          <a href={roomHash(room)} title="Join the room, if it is still there">
            {formatRoomCode(room)}
          </a>
        </span>
      </p>
      <span class="row">
        <button
          type="button"
          aria-label={`Go on with ${name} from step ${step}`}
          disabled={checking.value || entering.value}
          onClick={() => void goOn()}
        >
          Go on
        </button>
        <ConfirmButton
          class="quiet"
          label="Delete"
          name={`Delete ${name}, step ${step}`}
          question="Delete it?"
          yes="Delete"
          no="Keep"
          onyes={() => void removeCheckpoints(run.map(({ id }) => id))}
        />
      </span>
    </li>
  );
}
