/** Lets the user save the model as weights or, during a run, as a checkpoint. */
import { signal } from '@preact/signals';
import { useId } from 'preact/hooks';
import { canJobSaveCheckpoints, type JobSpec } from '../../spec/job.ts';
import {
  WEIGHTS_FORMATS,
  weightsFormatsOfJob,
  type ModelFileFormat,
  type ExportedModelState,
  type WeightsFormat,
} from '../../spec/modelFile.ts';
import { isPipelineJob } from '../../spec/pipeline.ts';
import { SelectField } from '../components/Fields.tsx';
import { sendToEngine } from '../state/store.ts';
import { uiMessages } from '../locales/index.ts';
import { beginModelExport, modelExportState } from '../state/modelExport.ts';
import { ErrorText } from '../components/ErrorText.tsx';

/** The choices of the user. They stay when the panel moves at the end of a run. */
const chosen = signal<WeightsFormat>('safetensors');
const which = signal<ExportedModelState>('best');

const keep = (format: ModelFileFormat): void =>
  sendToEngine({ type: 'export', id: beginModelExport(format, which.peek()), format, which: which.peek() });

/**
 * @param isOn whether the run is in progress. Only then can a checkpoint be saved.
 * @param bestStep the step of the best evaluation, once the run has ended.
 */
export function SaveModel({ job, isOn, bestStep }: { job: JobSpec; isOn: boolean; bestStep: number | null }) {
  const { keep: labels } = uiMessages.value.run;
  const about = useId();
  const offered = weightsFormatsOfJob(job);
  const format = offered.find((one) => one === chosen.value) ?? offered[0]!;
  const { format: pending, problem, bestStep: saved } = modelExportState.value;
  const options = Object.fromEntries(offered.map((one) => [one, labels.formats[one]])) as Record<WeightsFormat, string>;
  return (
    <section class="keep" aria-label={labels.title}>
      <div class="row">
        <SelectField
          label={labels.as}
          value={format}
          options={options}
          about={about}
          onpick={(value) => (chosen.value = value)}
        />
        {job.patience !== null && !isPipelineJob(job) && (
          <SelectField
            label={labels.which}
            value={which.value}
            options={labels.whichOf}
            onpick={(value) => (which.value = value)}
          />
        )}
        <button type="button" disabled={pending !== null} onClick={() => keep(format)}>
          {pending !== null && pending !== 'checkpoint' ? labels.saving : labels.save}
        </button>
        {isOn && canJobSaveCheckpoints(job) && (
          <button
            type="button"
            class="quiet"
            title={labels.checkpointAbout}
            disabled={pending !== null}
            onClick={() => keep('checkpoint')}
          >
            {pending === 'checkpoint' ? labels.saving : labels.checkpoint}
          </button>
        )}
      </div>
      <p id={about} class="dim small">
        {labels.about[format]}
        {offered.length < WEIGHTS_FORMATS.length && ` ${isPipelineJob(job) ? labels.inStages : labels.noLayers}`}
      </p>
      {saved !== null && bestStep !== null && saved !== bestStep && (
        <p class="wait small" role="status">
          {labels.missedBest(saved, bestStep)}
        </p>
      )}
      <ErrorText of={problem} />
    </section>
  );
}
