/** The fields of pipelines, and the offer of one if the model does not fit into a tab. */
import { useMemo } from 'preact/hooks';
import { checkJob, type JobSpec } from '../../spec/job.ts';
import { isPipeline } from '../../spec/pipeline.ts';
import { tabMemory } from '../browser/tabMemory.ts';
import { Select } from '../components/Fields.tsx';
import { formatBytes } from '../locales/format.ts';
import { messages } from '../locales/index.ts';
import { fittingPipeline, plannedModel, plannedPipeline, wholeBytes } from '../pipeline/memoryPlan.ts';
import { withPipeline } from '../state/jobForm.ts';
import { JobNumber, type Offer } from './JobFields.tsx';

interface Props {
  job: JobSpec;
  offer: Offer;
}

export function PipelineFields({ job, offer }: Props) {
  const { fields: labels } = messages.value.pipeline;
  const { schedules } = messages.value.pipeline;
  return (
    <>
      <JobNumber
        name="pipeline"
        label={labels.stages}
        job={job}
        offer={(next, isSettled) => offer(withPipeline(next, next.pipeline), isSettled)}
      />
      {isPipeline(job) && (
        <>
          <JobNumber name="microBatches" label={labels.microBatches} empty={labels.automatic} job={job} offer={offer} />
          <Select
            label={labels.schedule}
            value={job.pipelineSchedule}
            options={schedules}
            onpick={(pipelineSchedule) => offer({ ...job, pipelineSchedule })}
          />
          <Select
            label={labels.recompute}
            value={job.recompute ? 'recompute' : 'keep'}
            options={labels.recomputes}
            onpick={(choice) => offer({ ...job, recompute: choice === 'recompute' })}
          />
        </>
      )}
    </>
  );
}

/**
 * Compares the memory that the model needs with the memory of a tab, and offers a number of stages
 * that fits. For small models, nothing is shown.
 */
export function MemoryOffer({ job, offer }: Props) {
  const { pipeline: labels } = messages.value;
  const { bytes: budget, isReported, maxBufferBytes } = tabMemory().value;
  const isDivided = isPipeline(job);
  const { model, needs, fitting } = useMemo(() => {
    const known = plannedModel(job);
    if (known === null) return { model: null, needs: null, fitting: null };
    const most = isDivided ? Math.max(...plannedPipeline(job, known, job.pipeline).bytes) : wholeBytes(job, known);
    return { model: known, needs: most, fitting: most > budget ? fittingPipeline(job, known, budget) : null };
  }, [job, isDivided, budget]);
  if (model === null || needs === null) {
    return isDivided ? <p class="dim small">{labels.dividesUnknown(job.pipeline)}</p> : null;
  }
  const isTooLarge = needs > budget;
  if (!isDivided && !isTooLarge) return null;
  const largest = model.layers.reduce((a, b) => (b.bytes > a.bytes ? b : a));
  const canDivide = 'job' in checkJob(withPipeline(job, 2));
  return (
    <div class="memory-offer">
      <p class={isTooLarge ? 'small wait' : 'small dim'}>
        {isTooLarge && <span aria-hidden="true">▲ </span>}
        {labels.sentences([
          isDivided ? labels.divides(job.pipeline, formatBytes(needs)) : labels.whole(formatBytes(needs)),
          labels.has(formatBytes(budget), isReported),
          ...(isTooLarge ? [labels.tooLarge] : []),
        ])}
      </p>
      {isTooLarge && canDivide && fitting === null && (
        <p class="small wrong">
          {largest.bytes > budget ? labels.noFit(largest.name, formatBytes(largest.bytes)) : labels.noFitAtAll}
        </p>
      )}
      {maxBufferBytes !== null && model.largestMatrix > maxBufferBytes && (
        <p class="small wrong">{labels.buffer(formatBytes(model.largestMatrix), formatBytes(maxBufferBytes))}</p>
      )}
      <div class="row">
        {canDivide && fitting !== null && fitting.ranks !== job.pipeline && (
          <button type="button" onClick={() => offer(withPipeline(job, fitting.ranks))}>
            {labels.offer(fitting.ranks, formatBytes(Math.max(...fitting.bytes)))}
          </button>
        )}
        {isDivided && (
          <button type="button" class="quiet" onClick={() => offer(withPipeline(job, 1))}>
            {labels.undo}
          </button>
        )}
      </div>
    </div>
  );
}
