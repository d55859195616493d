/** The run in a line of numbers. */
import type { ComponentChildren } from 'preact';
import {
  agreement,
  endsByTimeOnly,
  isTraining,
  samplesPerSecond,
  talking,
  timeLeft,
  type Agreement,
} from '../state/derive.ts';
import { keepsModel, kindOfModel } from '../../spec/job.ts';
import { formatClock, formatCount, formatLoss, formatShare } from '../locales/format.ts';
import { StatusLine } from '../components/StatusLine.tsx';
import { Term } from '../components/Term.tsx';
import { tellsOwnOnly } from '../state/strategies.ts';
import type { Run, View } from '../state/view.ts';
import { messages } from '../locales/index.ts';

export function Strip({ view, run }: { view: View; run: Run }) {
  const { run: said } = messages.value;
  const { model } = view;
  const { last } = run;
  // Of a run that waits, nothing is known.
  const isOn = isTraining(view) || run.result !== null;
  const rate = isOn ? samplesPerSecond(run) : null;
  const share = talking(run);
  const left = isOn && view.failure === null ? timeLeft(run, model?.totalSteps ?? null) : null;
  const alone = run.worldSize === 1;
  const isTimed = endsByTimeOnly(run.job);
  const ownOnly = tellsOwnOnly(run.job, run.worldSize);
  return (
    <dl class="strip">
      <Cell label={<StatusLine view={view} brief />}>
        {run.job.job} <span class="dim">{run.job.job === 'gpt' ? '' : kindOfModel(run.job.model)}</span>
      </Cell>
      <Cell label={<Term of="epoch" />}>
        {last === null ? '–' : last.epoch + 1}
        {!isTimed && keepsModel(run.job) && <span class="dim"> / {run.job.epochs}</span>}
      </Cell>
      <Cell label={said.stepLabel}>
        {last === null ? '–' : last.step + 1}
        {model !== null && !isTimed && <span class="dim"> / {model.totalSteps}</span>}
      </Cell>
      <Cell label={ownOnly ? said.ownRate : said.sampleRate}>{rate === null ? '–' : formatCount(rate)}</Cell>
      <Cell label={ownOnly ? <Term of="own loss" /> : said.loss}>{last === null ? '–' : formatLoss(last.loss)}</Cell>
      <Cell label={<Term of="world size" />}>
        {run.worldSize} <span class="dim">{said.ranksUnit(run.worldSize)}</span>
      </Cell>
      <Cell label={<Term of="state hash">{said.sameState}</Term>}>
        <Agrees of={agreement(run.hashes)} worldSize={run.worldSize} />
      </Cell>
      <Cell label={<Term of="talking" />}>
        {alone ? (
          <span class="dim">–</span>
        ) : share === null ? (
          '–'
        ) : (
          <>
            {formatShare(share.share)} <span class="dim small">{said.hidden(formatShare(share.hidden))}</span>
          </>
        )}
      </Cell>
      <Cell label={said.timeLeft}>{run.result !== null ? said.done : left === null ? '–' : formatClock(left)}</Cell>
    </dl>
  );
}

function Cell({ label, children }: { label: ComponentChildren; children: ComponentChildren }) {
  return (
    <div>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Agrees({ of, worldSize }: { of: Agreement; worldSize: number }) {
  const { run: said } = messages.value;
  switch (of.kind) {
    case 'unknown':
      return <span class="dim">{said.notYet}</span>;
    case 'agree':
      return <span class="good">{worldSize === 1 ? said.oneCopy : said.allAgree} ✓</span>;
    case 'differ':
      return <span class="wrong">{said.notAgreeing(of.ranks, worldSize)} ✕</span>;
    default:
      return of satisfies never;
  }
}
