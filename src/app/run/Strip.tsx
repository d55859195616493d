/** Shows the figures of a run in one line. */
import {
  agreement,
  endsByTimeOnly,
  isTraining,
  samplesPerSecond,
  communication,
  timeLeft,
  type Agreement,
} from '../state/derive.ts';
import { keepsModel, kindOfModel } from '../../spec/job.ts';
import { formatClock, formatCount, formatLoss, formatShare } from '../locales/format.ts';
import { Fact } from '../components/Fact.tsx';
import { StatusLine } from '../components/StatusLine.tsx';
import { Term } from '../components/Term.tsx';
import { reportsOwnLossOnly } from '../state/strategies.ts';
import type { Run } from '../state/run.ts';
import type { View } from '../state/view.ts';
import { messages } from '../locales/index.ts';

export function Strip({ view, run }: { view: View; run: Run }) {
  const { run: labels } = messages.value;
  const { model } = view;
  const { last } = run;
  // While a run waits, current figures are unknown.
  const isOn = isTraining(view) || run.result !== null;
  const rate = isOn ? samplesPerSecond(run) : null;
  const share = communication(run);
  const left = isOn && view.failure === null ? timeLeft(run, model?.totalSteps ?? null) : null;
  const alone = run.worldSize === 1;
  const isTimed = endsByTimeOnly(run.job);
  const ownOnly = reportsOwnLossOnly(run.job, run.worldSize);
  return (
    <dl class="strip">
      <Fact name={<StatusLine view={view} brief />}>
        {run.job.job} <span class="dim">{run.job.job === 'gpt' ? '' : kindOfModel(run.job.model)}</span>
      </Fact>
      <Fact name={<Term of="epoch" />}>
        {last === null ? '–' : last.epoch + 1}
        {!isTimed && keepsModel(run.job) && <span class="dim"> / {run.job.epochs}</span>}
      </Fact>
      <Fact name={labels.stepLabel}>
        {last === null ? '–' : last.step + 1}
        {model !== null && !isTimed && <span class="dim"> / {model.totalSteps}</span>}
      </Fact>
      <Fact name={ownOnly ? labels.ownRate : labels.sampleRate}>{rate === null ? '–' : formatCount(rate)}</Fact>
      <Fact name={ownOnly ? <Term of="own loss" /> : labels.loss}>{last === null ? '–' : formatLoss(last.loss)}</Fact>
      <Fact name={<Term of="world size" />}>
        {run.worldSize} <span class="dim">{labels.ranksUnit(run.worldSize)}</span>
      </Fact>
      <Fact name={<Term of="state hash">{labels.sameState}</Term>}>
        <Agrees of={agreement(run.hashes)} worldSize={run.worldSize} />
      </Fact>
      <Fact name={<Term of="communication" />}>
        {alone ? (
          <span class="dim">–</span>
        ) : share === null ? (
          '–'
        ) : (
          <>
            {formatShare(share.share)} <span class="dim small">{labels.overlapped(formatShare(share.overlapped))}</span>
          </>
        )}
      </Fact>
      <Fact name={labels.timeLeft}>{run.result !== null ? labels.done : left === null ? '–' : formatClock(left)}</Fact>
    </dl>
  );
}

function Agrees({ of, worldSize }: { of: Agreement; worldSize: number }) {
  const { run: labels } = messages.value;
  switch (of.kind) {
    case 'unknown':
      return <span class="dim">{labels.notYet}</span>;
    case 'agree':
      return <span class="good">{worldSize === 1 ? labels.oneCopy : labels.allAgree} ✓</span>;
    case 'differ':
      return <span class="wrong">{labels.notAgreeing(of.ranks, worldSize)} ✕</span>;
    default:
      return of satisfies never;
  }
}
