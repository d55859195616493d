/**
 * What to train and how to share it: three choices in front, the rest under "advanced". Says what
 * is wrong instead of sending it.
 */
import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import { codecsOf } from '../../spec/plan.ts';
import { kindOfModel, parseJob, takesFiles, type JobSpec, type ModelName, type PlannedCodec } from '../../spec/job.ts';
import { messageOf } from '../../util/errors.ts';
import { withJob, withOptimizer, withSchedule, withStrategy, workerWord } from '../state/jobForm.ts';
import { SERVER_DATA, serverHasData } from '../browser/serverData.ts';
import { SETTINGS } from '../state/strategies.ts';
import { messages } from '../locales/index.ts';
import { DataFields, LossField, PictureFields, TableFields } from './DataFields.tsx';
import { Select } from './Fields.tsx';
import { GptFields, PresetField } from './GptFields.tsx';
import { JobNumber, type Offer } from './JobFields.tsx';
import { LayerTable } from './LayerTable.tsx';

export function JobForm({
  job,
  columns = [],
  onjob,
  children,
}: {
  job: JobSpec;
  /** Of the table that was given, where one was. */
  columns?: readonly string[];
  onjob: (job: JobSpec) => void;
  /** More rows under "advanced". */
  children?: ComponentChildren;
}) {
  const { job: says } = messages.value;
  const offer: Offer = (next, isSettled = true) => {
    try {
      const checked = parseJob(next);
      if (isSettled) onjob(checked);
      return null;
    } catch (error) {
      return messageOf(error);
    }
  };
  const trains = job.job !== 'lesson';
  return (
    <div class="form">
      <div class="fields">
        <Select
          label={says.job}
          value={job.job}
          options={says.jobs}
          onpick={(value) => offer(withJob(job, value, serverHasData.value ? SERVER_DATA : null))}
        />
        {job.job === 'gpt' && <PresetField job={job} offer={offer} />}
        {trains && job.job !== 'gpt' && Object.keys(modelOptions(job)).length > 1 && (
          <Select
            label={says.model}
            value={kindOfModel(job.model)}
            options={modelOptions(job)}
            onpick={(model) => {
              if (model !== 'own') offer({ ...job, model });
            }}
          />
        )}
        {job.job === 'table' && <TableFields job={job} columns={columns} offer={offer} />}
      </div>
      {typeof job.model !== 'string' && <LayerTable model={job.model} />}
      {trains && <StrategyFields job={job} offer={offer} />}
      {(trains || children !== undefined) && (
        <details class="fold">
          <summary>{says.advanced}</summary>
          <div class="fields three">
            {job.job === 'gpt' && <GptFields job={job} offer={offer} />}
            {trains && <TrainingFields job={job} offer={offer} />}
            {job.job === 'table' && job.task !== 'classification' && <LossField job={job} offer={offer} />}
            {job.job === 'images' && <PictureFields job={job} offer={offer} />}
            {takesFiles(job.job) && <DataFields job={job} offer={offer} />}
            {children}
          </div>
        </details>
      )}
    </div>
  );
}

function TrainingFields({ job, offer }: { job: JobSpec; offer: Offer }) {
  const { job: says } = messages.value;
  const set = (change: Partial<JobSpec>): string | null => offer({ ...job, ...change });
  return (
    <>
      <Select
        label={says.optimizer}
        value={job.optimizer}
        options={says.optimizers}
        onpick={(value) => offer(withOptimizer(job, value))}
      />
      <JobNumber name="learningRate" label={says.learningRate} job={job} offer={offer} />
      <JobNumber name="batchSize" label={says.batch[workerWord(job)]} job={job} offer={offer} />
      <JobNumber name="epochs" label={says.epochs} job={job} offer={offer} />
      <JobNumber name="maxSteps" label={says.maxSteps} empty={says.noLimit} job={job} offer={offer} />
      <JobNumber name="maxMinutes" label={says.maxMinutes} empty={says.noLimit} job={job} offer={offer} />
      <JobNumber name="patience" label={says.patience} empty={says.noLimit} job={job} offer={offer} />
      <JobNumber name="seed" label={says.seed} job={job} offer={offer} />
      <Select
        label={says.schedule}
        value={job.schedule}
        options={scheduleOptions(job)}
        onpick={(schedule) => offer(withSchedule(job, schedule))}
      />
      <JobNumber name="warmupSteps" label={says.warmupSteps} job={job} offer={offer} />
      <JobNumber name="clipNorm" label={says.clipNorm} empty={says.noLimit} job={job} offer={offer} />
      <JobNumber name="weightDecay" label={says.weightDecay} empty={says.asUsual} job={job} offer={offer} />
      {job.job !== 'gpt' && job.model === 'mlp' && (
        <JobNumber name="hidden" label={says.hidden} job={job} offer={offer} />
      )}
      {codecsOf(job.strategy).length > 1 && (
        <Select label={says.codec} value={job.codec} options={codecOptions(job)} onpick={(codec) => set({ codec })} />
      )}
      {job.strategy !== 'data-parallel' && (
        <Select
          label={says.transport}
          value={job.transport}
          options={says.transports}
          onpick={(transport) => set({ transport })}
        />
      )}
    </>
  );
}

/** Ours that are for the job's data, and the one that it brings. */
function modelOptions({ job, model }: JobSpec): Record<ModelName | 'own', string> {
  const { cnn, own, ...all } = messages.value.job.models;
  const fitting = { ...all, ...(job !== 'table' && { cnn }), ...(typeof model !== 'string' && { own }) };
  return fitting as Record<ModelName | 'own', string>;
}

/** Those that the job's strategy takes: only the ring looks for a rate. */
function scheduleOptions({ strategy }: JobSpec): Record<JobSpec['schedule'], string> {
  const { 'range-test': search, ...all } = messages.value.job.schedules;
  const fitting = { ...all, ...(strategy === 'ddp' && { 'range-test': search }) };
  return fitting as Record<JobSpec['schedule'], string>;
}

/** The same of codecs. */
function codecOptions({ strategy }: JobSpec): Record<PlannedCodec, string> {
  const { codecs } = messages.value.job;
  return Object.fromEntries(codecsOf(strategy).map((codec) => [codec, codecs[codec]])) as Record<PlannedCodec, string>;
}

function StrategyFields({ job, offer }: { job: JobSpec; offer: Offer }) {
  const { strategy } = job;
  const { job: says } = messages.value;
  const about = useId();
  const has = (setting: (typeof SETTINGS)[typeof strategy][number]): boolean => SETTINGS[strategy].includes(setting);
  return (
    <>
      <div class="strategy">
        <Select
          label={says.strategy}
          value={strategy}
          options={says.strategies}
          about={about}
          onpick={(value) => offer(withStrategy(job, value))}
        />
        <p id={about} class="dim small">
          {says.does[strategy]}
        </p>
      </div>
      {SETTINGS[strategy].length > 0 && (
        <div class="fields">
          {has('replicas') && <JobNumber name="replicas" label={says.workers} job={job} offer={offer} />}
          {has('staleness') && <JobNumber name="staleness" label={says.ahead} job={job} offer={offer} />}
          {has('syncEvery') && (
            <JobNumber
              // Another strategy's is another field: nothing half typed stays.
              key={strategy}
              name="syncEvery"
              label={has('staleness') ? says.allWait : says.exchange}
              empty={says.asUsual}
              job={job}
              offer={offer}
            />
          )}
        </div>
      )}
    </>
  );
}
