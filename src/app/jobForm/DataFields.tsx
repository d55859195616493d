/** The fields of the job form that describe its data. */
import { jobAcceptsData, jobReadsText, type JobSpec, type TextEncodingName } from '../../spec/job.ts';
import { AUGMENT_NAMES } from '../../spec/names.ts';
import { REGRESSION_LOSS_NAMES, type RegressionLossName, type TaskName } from '../../spec/measures.ts';
import { withDataSource, type DataSourceName } from '../state/jobForm.ts';
import { SERVER_DATA_PATH } from '../browser/serverData.ts';
import { uiMessages } from '../locales/index.ts';
import { SelectField } from '../components/Fields.tsx';
import { JobNumberField, type OfferJobChange } from './JobFields.tsx';

/** The column to predict: a select if the columns are known, otherwise a text field. */
export function TableFields({
  job,
  columns,
  offer,
}: {
  job: JobSpec;
  columns: readonly string[];
  offer: OfferJobChange;
}) {
  const { job: labels } = uiMessages.value;
  const named = Object.fromEntries(columns.map((column) => [column, column]));
  // Task, loss and metrics are reset, because those of one column may be wrong for another.
  const set = (target: string | null) => offer({ ...job, target, task: null, loss: null, metrics: null });
  // The table may lack the column that the job names. The select still offers and shows the name,
  // next to the error.
  const target = job.target ?? columns.at(-1) ?? '';
  return (
    <>
      {columns.length > 0 ? (
        <SelectField label={labels.target} value={target} options={{ ...named, [target]: target }} onpick={set} />
      ) : (
        <label class="field">
          <span>{labels.target}</span>
          <input
            type="text"
            value={job.target ?? ''}
            placeholder={labels.lastColumn}
            onChange={({ currentTarget }) => {
              currentTarget.setCustomValidity(set(currentTarget.value.trim() || null) ?? '');
            }}
          />
        </label>
      )}
      <SelectField
        label={labels.task}
        value={job.task ?? 'none'}
        options={labels.tasks}
        onpick={(task: TaskName | 'none') =>
          offer({ ...job, task: task === 'none' ? null : task, loss: null, metrics: null })
        }
      />
    </>
  );
}

/** The loss of a job that predicts an amount. */
export function LossField({ job, offer }: { job: JobSpec; offer: OfferJobChange }) {
  const { job: labels } = uiMessages.value;
  const [usual] = REGRESSION_LOSS_NAMES;
  return (
    <SelectField
      label={labels.loss}
      value={job.loss === null || job.loss === 'cross-entropy' ? usual : job.loss}
      options={labels.losses}
      onpick={(loss: RegressionLossName) => offer({ ...job, loss: loss === usual ? null : loss })}
    />
  );
}

/** The size and the colours that pictures are converted to. */
export function PictureFields({ job, offer }: { job: JobSpec; offer: OfferJobChange }) {
  const { job: labels } = uiMessages.value;
  return (
    <>
      <JobNumberField name="side" label={labels.side} job={job} offer={offer} />
      <SelectField
        label={labels.channels}
        value={job.channels === 1 ? '1' : '3'}
        options={labels.colours}
        onpick={(channels: '1' | '3') => offer({ ...job, channels: channels === '1' ? 1 : 3 })}
      />
    </>
  );
}

/** The random changes of training pictures. */
export function AugmentField({ job, offer }: { job: JobSpec; offer: OfferJobChange }) {
  const { job: labels } = uiMessages.value;
  const chosen = new Set(job.augment);
  return (
    <fieldset class="check-grid">
      <legend class="dim small">{labels.augment}</legend>
      {AUGMENT_NAMES.map((name) => (
        <label key={name} class="check">
          <input
            type="checkbox"
            checked={chosen.has(name)}
            onChange={({ currentTarget: { checked } }) => {
              const augment = AUGMENT_NAMES.filter((one) => (one === name ? checked : chosen.has(one)));
              offer({ ...job, augment: augment.length === 0 ? null : augment });
            }}
          />
          {labels.augments[name]}
        </label>
      ))}
    </fieldset>
  );
}

function sourceOptions(job: JobSpec): Record<DataSourceName, string> {
  const options = Object.entries(uiMessages.value.job.sources).filter(([kind]) => jobAcceptsData(job, kind));
  return Object.fromEntries(options) as Record<DataSourceName, string>;
}

function addressLabel({ job }: JobSpec): string {
  const { folder, textAddress, fileAddress } = uiMessages.value.job;
  if (job === 'mnist') return folder;
  return job === 'gpt' ? textAddress : fileAddress;
}

export function DataFields({ job, offer }: { job: JobSpec; offer: OfferJobChange }) {
  const { job: labels } = uiMessages.value;
  const folder = job.data.kind === 'url' ? job.data.url : null;
  return (
    <>
      <SelectField
        label={labels.data}
        value={job.data.kind as DataSourceName}
        options={sourceOptions(job)}
        onpick={(kind) => offer(withDataSource(job, kind, SERVER_DATA_PATH))}
      />
      {folder !== null && (
        <label class="field wide">
          <span>{addressLabel(job)}</span>
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
      {jobReadsText(job) && (
        <SelectField
          label={labels.encoding}
          value={job.encoding}
          options={labels.encodings}
          onpick={(encoding: TextEncodingName) => offer({ ...job, encoding })}
        />
      )}
    </>
  );
}
