/** What to train and how to share it: three choices in front, the rest under "advanced". Says what is wrong instead of sending it. */
import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import { parseJob, type JobSpec } from '../../protocol/job.ts';
import { messageOf } from '../../util/errors.ts';
import { JOBS, MODELS, OPTIMIZERS, withJob, withOptimizer, withStrategy, workerWord } from '../jobForm.ts';
import { SERVER_DATA, serverHasData } from '../serverData.ts';
import { DOES, SETTINGS, STRATEGIES } from '../strategies.ts';
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
  const offer = (next: JobSpec): string | null => {
    try {
      onjob(parseJob(next));
      return null;
    } catch (error) {
      return messageOf(error);
    }
  };
  const set = (change: Partial<JobSpec>): string | null => offer({ ...job, ...change });
  return (
    <div class="form">
      <div class="fields">
        <Select
          label="Job"
          value={job.job}
          options={JOBS}
          onpick={(value) => offer(withJob(job, value, serverHasData.value ? SERVER_DATA : null))}
        />
        <Select label="Model" value={job.model} options={MODELS} onpick={(model) => set({ model })} />
      </div>
      <StrategyFields job={job} offer={offer} />
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
          <NumberField
            label={`Batch per ${workerWord(job)}`}
            value={job.batchSize}
            onpick={(batchSize) => set({ batchSize })}
          />
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
    </div>
  );
}

function StrategyFields({ job, offer }: { job: JobSpec; offer: (job: JobSpec) => string | null }) {
  const { strategy } = job;
  const about = useId();
  const has = (setting: (typeof SETTINGS)[typeof strategy][number]): boolean => SETTINGS[strategy].includes(setting);
  return (
    <>
      <div class="strategy">
        <Select
          label="Strategy"
          value={strategy}
          options={STRATEGIES}
          about={about}
          onpick={(value) => offer(withStrategy(job, value))}
        />
        <p id={about} class="dim small">
          {DOES[strategy]}
        </p>
      </div>
      {SETTINGS[strategy].length > 0 && (
        <div class="fields">
          {has('replicas') && (
            <NumberField label="Workers" value={job.replicas} onpick={(replicas) => offer({ ...job, replicas })} />
          )}
          {has('staleness') && (
            <NumberField
              label="Steps ahead, at most"
              value={job.staleness}
              onpick={(staleness) => offer({ ...job, staleness })}
            />
          )}
          {has('syncEvery') && (
            <NumberField
              // Another strategy's is another field: nothing half typed stays.
              key={strategy}
              label={has('staleness') ? 'All wait every … steps' : 'Exchange every … steps'}
              value={job.syncEvery}
              empty="as usual"
              onpick={(syncEvery) => offer({ ...job, syncEvery })}
            />
          )}
        </div>
      )}
    </>
  );
}

const SOURCES = { files: 'files each tab picks', url: 'a web folder' } as const;

function DataFields({ job, offer }: { job: JobSpec; offer: (job: JobSpec) => string | null }) {
  const folder = job.data.kind === 'url' ? job.data.url : null;
  return (
    <>
      <Select
        label="Data from"
        value={folder === null ? 'files' : 'url'}
        options={SOURCES}
        onpick={(kind) => offer({ ...job, data: kind === 'files' ? { kind } : { kind, url: SERVER_DATA } })}
      />
      {folder !== null && (
        <label class="field wide">
          <span>Folder's address</span>
          <input
            type="text"
            inputMode="url"
            value={folder}
            onChange={(event) => {
              const url = event.currentTarget.value.trim();
              event.currentTarget.setCustomValidity(offer({ ...job, data: { kind: 'url', url } }) ?? '');
            }}
          />
        </label>
      )}
    </>
  );
}
