/** Lets the host choose a file that the first run of a new room starts from. */
import { useSignal } from '@preact/signals';
import { readCheckpointMeta, type CheckpointMeta } from '../../formats/checkpoint.ts';
import { looksLikeStateFile } from '../../formats/stateFile.ts';
import { jobDisplayName } from '../../spec/job.ts';
import { errorMessageOf } from '../../util/errors.ts';
import { describeJob } from '../state/jobForm.ts';
import { DropZone } from '../components/DropZone.tsx';
import { uiMessages } from '../locales/index.ts';
import { ErrorText } from '../components/ErrorText.tsx';

export interface ChosenRunOrigin {
  file: File;
  /** The checkpoint in the file; `null` if the file has only weights. */
  checkpoint: CheckpointMeta | null;
}

/** The number of bytes at the start of a file that distinguish a checkpoint from weights. */
const HEAD_BYTES = 32;
const ACCEPTED = '.peergrad,.safetensors,.zip,.h5,.keras';

export function RunOriginField({
  origin,
  onorigin,
}: {
  origin: ChosenRunOrigin | null;
  onorigin: (origin: ChosenRunOrigin | null) => void;
}) {
  const { origin: labels } = uiMessages.value.join;
  const problem = useSignal<string | null>(null);
  const take = async ([file]: File[]): Promise<void> => {
    try {
      const head = new Uint8Array(await file!.slice(0, HEAD_BYTES).arrayBuffer());
      const checkpoint = looksLikeStateFile(head) ? await readCheckpointMeta(file!.name, file!) : null;
      onorigin({ file: file!, checkpoint });
      problem.value = null;
    } catch (error) {
      problem.value = errorMessageOf(error);
    }
  };
  if (origin !== null) {
    const { file, checkpoint } = origin;
    return (
      <section class="drop" aria-label={labels.title}>
        <p>
          {checkpoint === null
            ? labels.beginsWith(file.name)
            : labels.resumes(file.name, jobDisplayName(checkpoint.job), checkpoint.step)}
        </p>
        {checkpoint !== null && <p class="dim small">{describeJob(checkpoint.job)}.</p>}
        <p>
          <button type="button" class="quiet" onClick={() => onorigin(null)}>
            {labels.without}
          </button>
        </p>
      </section>
    );
  }
  return (
    <details class="fold">
      <summary>{labels.title}</summary>
      <DropZone choose={labels.choose} hint={labels.hint} accept={ACCEPTED} onfiles={(files) => void take(files)}>
        <ErrorText of={problem.value} />
      </DropZone>
    </details>
  );
}
