/** The purpose of a run, its strategy, and the settings of the strategy. */
import { useId } from 'preact/hooks';
import { DEFAULT_JOB, STRATEGIES, type JobSpec, type StrategySetting } from '../../spec/job.ts';
import { SelectField } from '../components/Fields.tsx';
import { uiMessages } from '../locales/index.ts';
import { strategyNamesForForm, withMeasure, withStrategy } from '../state/jobForm.ts';
import { JobNumberField, type OfferJobChange } from './JobFields.tsx';

interface Props {
  job: JobSpec;
  offer: OfferJobChange;
}

export function StrategyFields({ job, offer }: Props) {
  const { strategy, measure } = job;
  const { job: labels } = uiMessages.value;
  const about = useId();
  const { settings } = STRATEGIES[strategy];
  const purpose = (
    <SelectField
      label={labels.purpose}
      value={measure ?? 'train'}
      options={labels.purposes}
      onpick={(value) => offer(withMeasure(job, value === 'train' ? null : value))}
    />
  );
  if (measure !== null) {
    return (
      <div class="strategy">
        {purpose}
        <p class="dim small">{labels.measures[measure]}</p>
      </div>
    );
  }
  return (
    <>
      <div class="fields">{purpose}</div>
      <div class="strategy">
        <SelectField
          label={labels.strategy}
          value={strategy}
          options={strategyNamesForForm()}
          about={about}
          onpick={(value) => offer(withStrategy(job, value))}
        />
        <p id={about} class="dim small">
          {labels.strategies[strategy].does}
        </p>
      </div>
      {settings.length > 0 && (
        // The key makes Preact create the fields again for another strategy, so half-typed values
        // are discarded.
        <div key={strategy} class="fields">
          {settings.map((setting) => (
            <SettingField key={setting} setting={setting} job={job} offer={offer} />
          ))}
        </div>
      )}
    </>
  );
}

function SettingField({ setting, job, offer }: Props & { setting: StrategySetting }) {
  const { settings: labels, allWait, asUsual } = uiMessages.value.job;
  const { schedules, recomputes, automatic } = uiMessages.value.pipeline;
  const { exchanges } = STRATEGIES[job.strategy];
  if (setting === 'pipelineSchedule') {
    return (
      <SelectField
        label={labels[setting]}
        value={job.pipelineSchedule}
        options={schedules}
        onpick={(pipelineSchedule) => offer({ ...job, pipelineSchedule })}
      />
    );
  }
  if (setting === 'recompute') {
    return (
      <SelectField
        label={labels[setting]}
        value={job.recompute ? 'recompute' : 'keep'}
        options={recomputes}
        onpick={(choice) => offer({ ...job, recompute: choice === 'recompute' })}
      />
    );
  }
  return (
    <JobNumberField
      name={setting}
      label={setting === 'syncEvery' && exchanges === 'server' ? allWait : labels[setting]}
      {...(DEFAULT_JOB[setting] === null && { empty: setting === 'microBatches' ? automatic : asUsual })}
      job={job}
      offer={offer}
    />
  );
}
