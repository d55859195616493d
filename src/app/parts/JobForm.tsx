/** What to train: two choices in front, the rest under "advanced". Says what is wrong instead of sending it. */
import type { ComponentChildren } from 'preact';
import { useSignal } from '@preact/signals';
import { parseJob, type JobSpec } from '../../protocol/job.ts';
import { messageOf } from '../../util/errors.ts';
import { JOBS, MODELS, OPTIMIZERS, withJob, withOptimizer } from '../jobForm.ts';
import { NumberField, Select } from './Fields.tsx';

export function JobForm({
  job,
  onjob,
  children,
}: {
  job: JobSpec;
  onjob: (job: JobSpec) => void;
  /** More rows under "advanced". */
  children?: ComponentChildren;
}) {
  const problem = useSignal<string | null>(null);
  const offer = (next: JobSpec): void => {
    try {
      onjob(parseJob(next));
      problem.value = null;
    } catch (error) {
      problem.value = messageOf(error);
    }
  };
  const set = (change: Partial<JobSpec>): void => offer({ ...job, ...change });
  return (
    <div class="form">
      <div class="fields">
        <Select label="Job" value={job.job} options={JOBS} onpick={(value) => offer(withJob(job, value))} />
        <Select label="Model" value={job.model} options={MODELS} onpick={(model) => set({ model })} />
      </div>
      <details class="fold">
        <summary>Advanced</summary>
        <div class="fields three">
          <Select
            label="Optimizer"
            value={job.optimizer}
            options={OPTIMIZERS}
            onpick={(value) => offer(withOptimizer(job, value))}
          />
          <NumberField
            label="Learning rate"
            value={job.learningRate}
            onpick={(learningRate) => set({ learningRate })}
          />
          <NumberField label="Batch per tab" value={job.batchSize} onpick={(batchSize) => set({ batchSize })} />
          <NumberField label="Passes (epochs)" value={job.epochs} onpick={(epochs) => set({ epochs })} />
          <NumberField
            label="At most, steps"
            value={job.maxSteps}
            empty="no limit"
            onpick={(maxSteps) => set({ maxSteps })}
          />
          <NumberField label="Seed" value={job.seed} onpick={(seed) => set({ seed })} />
          {job.job === 'mnist' && <DataFields job={job} offer={offer} />}
          {children}
        </div>
      </details>
      {problem.value !== null && (
        <p class="problem" role="alert">
          <span aria-hidden="true">✕</span> {problem.value}
        </p>
      )}
    </div>
  );
}

const SOURCES = { files: 'files that every tab picks', url: 'a folder on the web' } as const;

function DataFields({ job, offer }: { job: JobSpec; offer: (job: JobSpec) => void }) {
  const url = job.data.kind === 'url' ? job.data.url : null;
  return (
    <>
      <Select
        label="Data from"
        value={url === null ? 'files' : 'url'}
        options={SOURCES}
        onpick={(kind) =>
          offer({ ...job, data: kind === 'files' ? { kind } : { kind, url: new URL('mnist/', location.href).href } })
        }
      />
      {url !== null && (
        <label class="field wide">
          <span>Folder's address</span>
          <input
            type="url"
            value={url}
            onChange={(event) => offer({ ...job, data: { kind: 'url', url: event.currentTarget.value.trim() } })}
          />
        </label>
      )}
    </>
  );
}
