/** Opens a job from a file, and saves the current job as a file. */
import { useSignal } from '@preact/signals';
import { jobDisplayName, type JobSpec } from '../../spec/job.ts';
import { errorMessageOf } from '../../util/errors.ts';
import { downloadFile } from '../../util/download.ts';
import { uiMessages } from '../locales/index.ts';
import { DropZone } from '../components/DropZone.tsx';
import { ErrorText } from '../components/ErrorText.tsx';

/**
 * The code for job files is loaded when the first file is opened, because most visitors never open
 * one.
 */
const jobFiles = () => import('../../spec/jobFile.ts');

export function JobFileField({ job, onjob }: { job: JobSpec; onjob: (job: JobSpec) => void }) {
  const { jobFile: labels } = uiMessages.value.join;
  const opened = useSignal<string | null>(null);
  const problem = useSignal<string | null>(null);
  const open = async ([file]: File[]): Promise<void> => {
    opened.value = problem.value = null;
    try {
      const { MAX_JOB_FILE_LENGTH, readJobFile } = await jobFiles();
      // A file that is longer than the limit is not a job file. One byte more than the limit is
      // enough to see that.
      const text = await file!.slice(0, MAX_JOB_FILE_LENGTH + 1).text();
      onjob(readJobFile(file!.name, text).job);
      opened.value = file!.name;
    } catch (error) {
      problem.value = errorMessageOf(error);
    }
  };
  const save = async (): Promise<void> => {
    try {
      const { writeJobFile } = await jobFiles();
      downloadFile(`peergrad-${jobDisplayName(job).replace('/', '-')}.json`, writeJobFile(job), 'application/json');
    } catch (error) {
      problem.value = errorMessageOf(error);
    }
  };
  return (
    <details class="fold">
      <summary>{labels.title}</summary>
      <DropZone
        choose={labels.open}
        hint={labels.hint}
        accept=".json,application/json"
        onfiles={(files) => void open(files)}
      >
        {opened.value !== null && (
          <p class="small" role="status">
            {labels.opened(opened.value)}
          </p>
        )}
        <ErrorText of={problem.value} />
        <p>
          <button type="button" class="quiet" onClick={() => void save()}>
            {labels.save}
          </button>
        </p>
      </DropZone>
    </details>
  );
}
