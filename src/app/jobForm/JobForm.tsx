/**
 * The form of a job. Three choices are visible, and the others are under "Advanced". The form shows
 * errors and does not send an invalid job.
 */
import type { ComponentChildren } from 'preact';
import {
  modelNameOrOwn,
  learnsPictures,
  parseJob,
  STRATEGIES,
  strategySupportsFeature,
  jobCanUseFiles,
  type JobSpec,
  type BuiltInModelName,
} from '../../spec/job.ts';
import { isPipelineJob } from '../../spec/pipeline.ts';
import { errorMessageOf } from '../../util/errors.ts';
import { algorithmNamesForForm, algorithmProblem } from '../state/algorithm.ts';
import { codecNamesForForm, withJob, withOptimizer } from '../state/jobForm.ts';
import { SERVER_DATA_PATH, serverHasData } from '../browser/serverData.ts';
import { uiMessages } from '../locales/index.ts';
import { AugmentField, DataFields, LossField, PictureFields, TableFields } from './DataFields.tsx';
import { SelectField } from '../components/Fields.tsx';
import { GptFields, GptPresetField } from './GptFields.tsx';
import { JobNumberField, type OfferJobChange } from './JobFields.tsx';
import { LayerTable } from './LayerTable.tsx';
import { MemoryOffer } from './MemoryOffer.tsx';
import { StrategyFields } from './StrategyFields.tsx';

export function JobForm({
  job,
  columns = [],
  onjob,
  children,
}: {
  job: JobSpec;
  /** The columns of the table, if the user has chosen a table. */
  columns?: readonly string[];
  onjob: (job: JobSpec) => void;
  /** More rows under "Advanced". */
  children?: ComponentChildren;
}) {
  const { job: labels } = uiMessages.value;
  const offer: OfferJobChange = (next, isSettled = true) => {
    try {
      const checked = parseJob(next);
      if (isSettled) onjob(checked);
      return null;
    } catch (error) {
      return errorMessageOf(error);
    }
  };
  const trains = job.job !== 'lesson';
  return (
    <div class="form">
      <div class="fields">
        <SelectField
          label={labels.job}
          value={job.job}
          options={labels.jobs}
          onpick={(value) => offer(withJob(job, value, serverHasData.value ? SERVER_DATA_PATH : null))}
        />
        {job.job === 'gpt' && <GptPresetField job={job} offer={offer} />}
        {trains && job.job !== 'gpt' && Object.keys(modelOptions(job)).length > 1 && (
          <SelectField
            label={labels.model}
            value={modelNameOrOwn(job.model)}
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
      {trains && <MemoryOffer job={job} offer={offer} />}
      {(trains || children !== undefined) && (
        <details class="fold">
          <summary>{labels.advanced}</summary>
          <div class="fields three">
            {job.job === 'gpt' && <GptFields job={job} offer={offer} />}
            {trains && <TrainingFields job={job} offer={offer} />}
            {job.job === 'table' && job.task !== 'classification' && <LossField job={job} offer={offer} />}
            {job.job === 'images' && <PictureFields job={job} offer={offer} />}
            {jobCanUseFiles(job.job) && <DataFields job={job} offer={offer} />}
            {learnsPictures(job.job) && <AugmentField job={job} offer={offer} />}
            {children}
          </div>
        </details>
      )}
    </div>
  );
}

function TrainingFields({ job, offer }: { job: JobSpec; offer: OfferJobChange }) {
  const { job: labels } = uiMessages.value;
  const set = (change: Partial<JobSpec>): string | null => offer({ ...job, ...change });
  return (
    <>
      <SelectField
        label={labels.optimizer}
        value={job.optimizer}
        options={labels.optimizers}
        onpick={(value) => offer(withOptimizer(job, value))}
      />
      <JobNumberField name="learningRate" label={labels.learningRate} job={job} offer={offer} />
      <JobNumberField name="batchSize" label={labels.batch} job={job} offer={offer} />
      <JobNumberField name="epochs" label={labels.epochs} job={job} offer={offer} />
      <JobNumberField name="maxSteps" label={labels.maxSteps} empty={labels.noLimit} job={job} offer={offer} />
      <JobNumberField name="maxMinutes" label={labels.maxMinutes} empty={labels.noLimit} job={job} offer={offer} />
      <JobNumberField name="patience" label={labels.patience} empty={labels.noLimit} job={job} offer={offer} />
      <JobNumberField name="seed" label={labels.seed} job={job} offer={offer} />
      <SelectField
        label={labels.schedule}
        value={job.schedule}
        options={labels.schedules}
        onpick={(schedule) => offer({ ...job, schedule })}
      />
      <JobNumberField name="warmupSteps" label={labels.warmupSteps} job={job} offer={offer} />
      <JobNumberField name="clipNorm" label={labels.clipNorm} empty={labels.noLimit} job={job} offer={offer} />
      <JobNumberField name="weightDecay" label={labels.weightDecay} empty={labels.asUsual} job={job} offer={offer} />
      {job.job !== 'gpt' && job.model === 'mlp' && (
        <JobNumberField name="hidden" label={labels.hidden} job={job} offer={offer} />
      )}
      {strategySupportsFeature(job.strategy, 'shardOptimizer') && (
        <SelectField
          label={labels.averages}
          value={job.shardOptimizer ? 'sharded' : 'whole'}
          options={labels.averagesIn}
          onpick={(value) => set({ shardOptimizer: value === 'sharded' })}
        />
      )}
      {STRATEGIES[job.strategy].codecs.length > 1 && (
        <SelectField
          label={isPipelineJob(job) ? labels.codecOfValues : labels.codec}
          value={job.codec}
          options={codecNamesForForm(job)}
          onpick={(codec) => algorithmProblem({ ...job, codec }, 1) ?? set({ codec })}
        />
      )}
      {STRATEGIES[job.strategy].hasAllReduces && (
        <SelectField
          label={labels.algorithm}
          value={job.algorithm}
          options={algorithmNamesForForm()}
          onpick={(algorithm) => algorithmProblem({ ...job, algorithm }, 1) ?? set({ algorithm })}
        />
      )}
      <SelectField
        label={labels.transport}
        value={job.transport}
        options={labels.transports}
        onpick={(transport) => set({ transport })}
      />
    </>
  );
}

/**
 * Returns the models that suit the data of the job, and the custom model of the job, if it has one.
 */
function modelOptions({ job, model }: JobSpec): Record<BuiltInModelName | 'own', string> {
  const { cnn, own, ...all } = uiMessages.value.job.models;
  const fitting = { ...all, ...(job !== 'table' && { cnn }), ...(typeof model !== 'string' && { own }) };
  return fitting as Record<BuiltInModelName | 'own', string>;
}
