/**
 * The end of a run: what came out, whether all ranks have it, and what it cost in bytes against
 * theory.
 */
import type { ComponentChildren } from 'preact';
import type { RateTest, RunResult } from '../../protocol/runResult.ts';
import type { JobSpec } from '../../spec/job.ts';
import { metricEntries, metricsTold, type MetricName } from '../../spec/measures.ts';
import { dissenters } from '../../util/majority.ts';
import { theoreticalBytes } from '../state/derive.ts';
import {
  formatBytes,
  formatClock,
  formatCount,
  formatLoss,
  formatMetric,
  formatMs,
  formatRate,
  shortHash,
} from '../locales/format.ts';
import { withRate } from '../state/jobForm.ts';
import { Term } from '../components/Term.tsx';
import { closeRun, configure, leave, start } from '../state/store.ts';
import { hasServer } from '../state/strategies.ts';
import { messages } from '../locales/index.ts';

interface Props {
  job: JobSpec;
  result: RunResult;
  /** Whether this tab took every step in one world: then theory says what it sent. */
  isWhole: boolean;
  host: boolean;
  /** What can be done with the model. */
  children: ComponentChildren;
}

export function ResultPanel({ job, result, isWhole, host, children }: Props) {
  const { run: said, charts } = messages.value;
  const { worldSize } = result;
  const told = metricEntries(metricsTold(result));
  const [value, meaning] = outcome(result, told);
  // Of a text the loss stands above.
  const others = result.bigramLoss === undefined ? told.slice(1) : told;
  const rate = result.rateTest?.suggested ?? null;
  const apart = dissenters(result.stateHash);
  const theory = theoreticalBytes(worldSize, result.gradientBytes, result.steps);
  const sent =
    result.bytesSentPerRank.reduce((sum, bytes) => sum + bytes, 0) / Math.max(1, result.bytesSentPerRank.length);
  return (
    <section class="result" aria-labelledby="result-title">
      <div class="result-words">
        <h2 id="result-title">{value}</h2>
        <p>{meaning}</p>
      </div>
      <dl class="facts">
        {result.rateTest === undefined && (
          <div>
            <dt>{said.loss}</dt>
            <dd>{formatLoss(result.loss)}</dd>
          </div>
        )}
        {others.map(([name, other]) => (
          <div key={name}>
            <dt>{result.bigramLoss !== undefined && name === 'accuracy' ? charts.foretold : charts.metrics[name]}</dt>
            <dd>{formatMetric(name, other)}</dd>
          </div>
        ))}
        {result.best && (
          <div>
            <dt>{said.bestTest}</dt>
            <dd>
              {formatLoss(result.best.valLoss)}{' '}
              <span class="dim small">{said.afterStep(formatCount(result.best.step))}</span>
            </dd>
          </div>
        )}
        <div>
          <dt>{said.stepTook}</dt>
          <dd>
            {formatMs(result.stepMs.median)}{' '}
            <span class="dim small">{said.ofThatTalking(formatMs(result.stepMs.communicate))}</span>
          </dd>
        </div>
        <div>
          <dt>{hasServer(result.strategy) ? said.sentOnAverage : said.eachSent}</dt>
          <dd>
            {worldSize === 1 ? (
              <span class="dim">{said.nothing}</span>
            ) : (
              <>
                {formatBytes(sent)}{' '}
                {isWhole && result.codec !== 'powersgd' && (
                  <span class="dim small">
                    {result.strategy === 'ddp'
                      ? said.theory(formatBytes(theory), overhead(sent, theory))
                      : said.ringWouldSend(formatBytes(theory))}
                  </span>
                )}
              </>
            )}
          </dd>
        </div>
        <div>
          <dt>
            <Term of="state hash">{said.finalState}</Term>
          </dt>
          <dd>
            {apart.length === 0 ? (
              <span class="good">
                {worldSize === 1 ? '' : `${worldSize} × `}
                <span class="hash">{shortHash(result.stateHash[0] ?? '–')}</span> ✓
              </span>
            ) : (
              <span class="wrong">{said.apart(apart)} ✕</span>
            )}
          </dd>
        </div>
      </dl>
      {children}
      <div class="row">
        {host ? (
          <>
            {rate !== null && (
              <button type="button" class="primary" onClick={() => useRate(job, rate)}>
                {said.useRate(formatRate(rate))}
              </button>
            )}
            <button type="button" class={rate === null ? 'primary' : ''} onClick={start}>
              {said.startAgain}
            </button>
            {/* A room that begins with weights offers no other job. */}
            {result.rateTest !== undefined && rate === null && (
              <button type="button" onClick={() => useRate(job, job.learningRate)}>
                {said.useRate(String(job.learningRate))}
              </button>
            )}
            <button type="button" onClick={closeRun}>
              {said.changeJob}
            </button>
          </>
        ) : (
          <>
            <span class="dim">{said.hostMayStart}</span>
            <button type="button" class="quiet" onClick={leave}>
              {messages.value.shell.leave}
            </button>
          </>
        )}
      </div>
    </section>
  );
}

/**
 * How well held-out samples are answered, and what that says: of a text the loss, else what is told
 * first.
 */
function outcome(
  { valLoss, bigramLoss, rateTest, steps, ms }: RunResult,
  told: readonly [MetricName, number][],
): [value: string, meaning: string] {
  const { run: said, written } = messages.value;
  const time = formatClock(ms);
  if (rateTest !== undefined) return foundRate(rateTest, steps, time);
  if (bigramLoss !== undefined) {
    return [formatLoss(valLoss ?? NaN), written.result(formatLoss(bigramLoss), steps, time)];
  }
  const [name, value] = told[0] ?? ['accuracy', NaN];
  return [formatMetric(name, value), said.measured[name](steps, time)];
}

/** The rate that a range test suggests, or why there is none. */
function foundRate({ suggested, reason }: RateTest, steps: number, time: string): [string, string] {
  const { rateTest: said } = messages.value.run;
  if (suggested !== null) return [formatRate(suggested), said.found(steps, time)];
  return [said.none, reason === 'short' ? said.short(steps) : said.flat(steps)];
}

/** The next start trains with it. */
function useRate(job: JobSpec, rate: number): void {
  configure(withRate(job, rate));
  closeRun();
}

function overhead(sent: number, theory: number): string {
  if (theory <= 0) return '';
  const more = (sent / theory - 1) * 100;
  return `${more < 0 ? '−' : '+'}${Math.abs(more).toFixed(2)} %`;
}
