/**
 * Shows the end of a run: the result, whether ranks agree, and the bytes sent compared with theory.
 */
import type { ComponentChildren } from 'preact';
import type { RangeTestResult, RunResult } from '../../protocol/runResult.ts';
import { isCollectiveCodec, reducesGradients, STRATEGIES, type JobSpec } from '../../spec/job.ts';
import { metricEntries, metricsWithAccuracy, type MetricName } from '../../spec/measures.ts';
import { dissenters } from '../../util/mostFrequentVote.ts';
import { mean } from '../../util/statistics.ts';
import { theoreticalAllReduceBytes } from '../state/derive.ts';
import {
  formatBytes,
  formatClockDuration,
  formatCount,
  formatLoss,
  formatMetric,
  formatMs,
  formatLearningRate,
  shortHash,
} from '../locales/format.ts';
import { LayersByRank, PipelineFacts } from '../pipeline/PipelineResult.tsx';
import { MethodTable } from '../jobForm/MethodTable.tsx';
import { withMethod, withLearningRate } from '../state/jobForm.ts';
import { NoticeText } from '../components/NoticeText.tsx';
import { NamedValue } from '../components/NamedValue.tsx';
import { GlossaryTerm } from '../components/GlossaryTerm.tsx';
import { closeEndedRun, leaveRoom, sendToEngine } from '../state/store.ts';
import type { RunView } from '../state/run.ts';
import type { FailureView } from '../state/view.ts';
import { uiMessages } from '../locales/index.ts';

interface Props {
  job: JobSpec;
  run: number;
  result: RunResult;
  /**
   * Whether this tab took every step of the run, and all in one generation. Only then can its sent
   * bytes be compared with theory.
   */
  isWhole: boolean;
  host: boolean;
  /** Actions on the model, shown below the result. */
  children: ComponentChildren;
}

export function ResultPanel({ job, run, result, isWhole, host, children }: Props) {
  const { run: labels, charts } = uiMessages.value;
  const { worldSize } = result;
  const metrics = metricEntries(metricsWithAccuracy(result));
  const [value, meaning] = outcome(result, metrics);
  // The main result is the first metric, but for a language model it is the loss.
  const others = result.bigramLoss === undefined ? metrics.slice(1) : metrics;
  const rate = result.rateTest?.suggested ?? null;
  const apart = dissenters(result.stateHash);
  const theory = theoreticalAllReduceBytes(worldSize, result.gradientBytes, result.steps);
  const sent = mean(result.bytesSentPerRank);
  return (
    <section class="result" aria-labelledby="result-title">
      <div class="result-words">
        <h2 id="result-title">{value}</h2>
        <p>{meaning}</p>
      </div>
      <dl class="facts">
        {job.measure === null && <NamedValue name={labels.loss}>{formatLoss(result.loss)}</NamedValue>}
        {others.map(([name, other]) => (
          <NamedValue
            key={name}
            name={result.bigramLoss !== undefined && name === 'accuracy' ? charts.predicted : charts.metrics[name]}
          >
            {formatMetric(name, other)}
          </NamedValue>
        ))}
        {result.best && (
          <NamedValue name={labels.bestTest}>
            {formatLoss(result.best.valLoss)}{' '}
            <span class="dim small">{labels.afterStep(formatCount(result.best.step))}</span>
          </NamedValue>
        )}
        <NamedValue name={labels.stepTook}>
          {formatMs(result.stepMs.median)}{' '}
          <span class="dim small">{labels.ofThatCommunication(formatMs(result.stepMs.communicate))}</span>
        </NamedValue>
        {result.pipeline && <PipelineFacts pipeline={result.pipeline} memory={result.memoryBytesPerRank} />}
        <NamedValue name={STRATEGIES[result.strategy].exchanges === 'server' ? labels.sentOnAverage : labels.eachSent}>
          {worldSize === 1 ? (
            <span class="dim">{labels.nothing}</span>
          ) : (
            <>
              {formatBytes(sent)}{' '}
              {isWhole && isCollectiveCodec(result.codec) && !result.pipeline && job.measure === null && (
                <span class="dim small">
                  {reducesGradients(result.strategy)
                    ? labels.theory(formatBytes(theory), overhead(sent, theory))
                    : labels.ringWouldSend(formatBytes(theory))}
                </span>
              )}
            </>
          )}
        </NamedValue>
        <NamedValue name={<GlossaryTerm of="state hash">{labels.finalState}</GlossaryTerm>}>
          {apart.length === 0 ? (
            <span class="good">
              {worldSize === 1 ? '' : `${worldSize} × `}
              <span class="hash">{shortHash(result.stateHash[0] ?? '–')}</span> ✓
            </span>
          ) : (
            <span class="wrong">{labels.apart(apart)} ✕</span>
          )}
        </NamedValue>
      </dl>
      {result.pipeline && <LayersByRank pipeline={result.pipeline} memory={result.memoryBytesPerRank} />}
      {result.methods && (
        <MethodTable
          methods={result.methods}
          worldSize={worldSize}
          onpick={host ? (method) => use(withMethod(job, method), run) : null}
        />
      )}
      {children}
      <div class="row">
        {host ? (
          <>
            {rate !== null && (
              <button type="button" class="primary" onClick={() => use(withLearningRate(job, rate), run)}>
                {labels.useRate(formatLearningRate(rate))}
              </button>
            )}
            <button
              type="button"
              class={rate === null && !result.methods ? 'primary' : ''}
              onClick={() => sendToEngine({ type: 'start' })}
            >
              {labels.startAgain}
            </button>
            {/* A room that begins with weights from a file cannot change its job. */}
            {result.rateTest !== undefined && rate === null && (
              <button type="button" onClick={() => use(withLearningRate(job, job.learningRate), run)}>
                {labels.useRate(String(job.learningRate))}
              </button>
            )}
            <button type="button" onClick={() => closeEndedRun(run)}>
              {labels.changeJob}
            </button>
          </>
        ) : (
          <>
            <span class="dim">{labels.hostMayStart}</span>
            <button type="button" class="quiet" onClick={leaveRoom}>
              {uiMessages.value.shell.leave}
            </button>
          </>
        )}
      </div>
    </section>
  );
}

interface EndedProps {
  run: RunView;
  failure: FailureView;
  host: boolean;
  children: ComponentChildren;
}

/** Shows a run that ended before its last step: its result so far, and the reason for its end. */
export function EndedRunPanel({ run, failure, host, children }: EndedProps) {
  const { run: labels, charts, shell } = uiMessages.value;
  const [measured] = metricEntries(run.evaluations.at(-1)?.metrics ?? {});
  const steps = run.last === null ? 0 : run.last.step + 1;
  return (
    <section class="result" role="status">
      <div class="result-words">
        <h2>{labels.ended(steps)}</h2>
        <p>
          <NoticeText {...failure} />
        </p>
      </div>
      <dl class="facts">
        {run.last !== null && <NamedValue name={labels.loss}>{formatLoss(run.last.loss)}</NamedValue>}
        {measured !== undefined && (
          <NamedValue name={charts.metrics[measured[0]]}>{formatMetric(...measured)}</NamedValue>
        )}
      </dl>
      {children}
      <div class="row">
        {host ? (
          <button type="button" class="primary" onClick={() => sendToEngine({ type: 'start' })}>
            {labels.startAgain}
          </button>
        ) : (
          <span class="dim">{labels.hostMayStart}</span>
        )}
        <button type="button" onClick={() => closeEndedRun(run.number)}>
          {labels.backToLobby}
        </button>
        <button type="button" class="quiet" onClick={leaveRoom}>
          {shell.leave}
        </button>
      </div>
    </section>
  );
}

/**
 * Returns the main result and its sentence. For a comparison of methods, the result is the best
 * method. For a range test, it is the suggested rate. For a language model, it is the loss on
 * held-out samples. Otherwise it is the first metric.
 */
function outcome(
  { valLoss, bigramLoss, rateTest, methods, steps, ms }: RunResult,
  metrics: readonly [MetricName, number][],
): [value: string, meaning: string] {
  const { run: labels, generation } = uiMessages.value;
  const time = formatClockDuration(ms);
  if (methods !== undefined) {
    const { best, ownMs, latencyMs, bytesPerMs } = methods;
    const { name, found } = uiMessages.value.job.methods;
    const rate = bytesPerMs === null ? null : formatBytes(bytesPerMs * 1000);
    return [name(best), found(formatMs(ownMs), formatMs(latencyMs), rate)];
  }
  if (rateTest !== undefined) return foundRate(rateTest, steps, time);
  if (bigramLoss !== undefined) {
    return [formatLoss(valLoss ?? NaN), generation.result(formatLoss(bigramLoss), steps, time)];
  }
  const [name, value] = metrics[0] ?? ['accuracy', NaN];
  return [formatMetric(name, value), labels.measured[name](steps, time)];
}

/** Returns the rate that a range test suggests, or the reason why there is no suggestion. */
function foundRate({ suggested, reason }: RangeTestResult, steps: number, time: string): [string, string] {
  const { rateTest: labels } = uiMessages.value.run;
  if (suggested !== null) return [formatLearningRate(suggested), labels.found(steps, time)];
  return [labels.none, reason === 'short' ? labels.short(steps) : labels.flat(steps)];
}

/** Closes the run and shows the lobby, with `job` as the job of the next start. */
function use(job: JobSpec, run: number): void {
  sendToEngine({ type: 'configure', job });
  closeEndedRun(run);
}

function overhead(sent: number, theory: number): string {
  if (theory <= 0) return '';
  const more = (sent / theory - 1) * 100;
  return `${more < 0 ? '−' : '+'}${Math.abs(more).toFixed(2)} %`;
}
