/**
 * Shows the memory that the model needs in a tab. If tabs have less, offers to train the model as a
 * pipeline.
 */
import { useMemo } from 'preact/hooks';
import { parseJobOrProblem, DEFAULT_JOB, type JobSpec } from '../../spec/job.ts';
import { isPipelineJob } from '../../spec/pipeline.ts';
import { tabMemoryBudget } from '../browser/tabMemoryBudget.ts';
import { formatBytes } from '../locales/format.ts';
import { uiMessages } from '../locales/index.ts';
import { smallestFittingPipeline, plannedModelOf, plannedPipelineOf, wholeModelBytes } from '../pipeline/memoryPlan.ts';
import { withStages, withStrategy } from '../state/jobForm.ts';
import type { OfferJobChange } from './JobFields.tsx';

interface Props {
  job: JobSpec;
  offer: OfferJobChange;
}

/**
 * Compares the memory that the model needs with the memory of a tab, and offers a number of stages
 * that fits. For small models, nothing is shown.
 */
export function MemoryOffer({ job, offer }: Props) {
  const { pipeline: labels } = uiMessages.value;
  const { bytes: budget, isReported, maxBufferBytes } = tabMemoryBudget().value;
  const isDivided = isPipelineJob(job);
  const { model, needs, fitting } = useMemo(() => {
    const known = plannedModelOf(job);
    if (known === null) return { model: null, needs: null, fitting: null };
    const most = isDivided ? Math.max(...plannedPipelineOf(job, known, job.stages).bytes) : wholeModelBytes(job, known);
    return { model: known, needs: most, fitting: most > budget ? smallestFittingPipeline(job, known, budget) : null };
  }, [job, isDivided, budget]);
  if (model === null || needs === null) {
    return isDivided ? <p class="dim small">{labels.dividesUnknown(job.stages)}</p> : null;
  }
  const isTooLarge = needs > budget;
  if (!isDivided && !isTooLarge) return null;
  const largest = model.layers.reduce((a, b) => (b.bytes > a.bytes ? b : a));
  const canDivide = 'job' in parseJobOrProblem(withStages(job, 2));
  return (
    <div class="memory-offer">
      <p class={isTooLarge ? 'small wait' : 'small dim'}>
        {isTooLarge && <span aria-hidden="true">▲ </span>}
        {labels.sentences([
          isDivided ? labels.divides(job.stages, formatBytes(needs)) : labels.whole(formatBytes(needs)),
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
        {canDivide && fitting !== null && fitting.ranks !== job.stages && (
          <button type="button" onClick={() => offer(withStages(job, fitting.ranks))}>
            {labels.offer(fitting.ranks, formatBytes(Math.max(...fitting.bytes)))}
          </button>
        )}
        {isDivided && (
          <button type="button" class="quiet" onClick={() => offer(withStrategy(job, DEFAULT_JOB.strategy))}>
            {labels.undo}
          </button>
        )}
      </div>
    </div>
  );
}
