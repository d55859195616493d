/** The run in a line of numbers. */
import type { ComponentChildren } from 'preact';
import { agreement, isTraining, samplesPerSecond, talking, timeLeft, type Agreement } from '../derive.ts';
import { formatClock, formatCount, formatLoss, formatShare, list } from '../format.ts';
import { StatusLine } from '../parts/StatusLine.tsx';
import { Term } from '../parts/Term.tsx';
import { tellsOwnOnly } from '../strategies.ts';
import type { Run, View } from '../view.ts';

export function Strip({ view, run }: { view: View; run: Run }) {
  const { model } = view;
  const { last } = run;
  // Of a run that waits, nothing is known.
  const isOn = isTraining(view) || run.result !== null;
  const rate = isOn ? samplesPerSecond(run) : null;
  const share = talking(run);
  const left = isOn && view.failure === null ? timeLeft(run, model?.totalSteps ?? null) : null;
  const alone = run.worldSize === 1;
  const ownOnly = tellsOwnOnly(run.job, run.worldSize);
  return (
    <dl class="strip">
      <Cell label={<StatusLine view={view} brief />}>
        {run.job.job} <span class="dim">{run.job.model}</span>
      </Cell>
      <Cell label={<Term of="epoch" />}>
        {last === null ? '–' : last.dataEpoch + 1}
        <span class="dim"> / {run.job.epochs}</span>
      </Cell>
      <Cell label="step">
        {last === null ? '–' : last.step + 1}
        {model !== null && <span class="dim"> / {model.totalSteps}</span>}
      </Cell>
      <Cell label={ownOnly ? 'own samples/s' : 'samples/s'}>{rate === null ? '–' : formatCount(rate)}</Cell>
      <Cell label={ownOnly ? <Term of="own loss" /> : 'loss'}>{last === null ? '–' : formatLoss(last.loss)}</Cell>
      <Cell label={<Term of="world size" />}>
        {run.worldSize} <span class="dim">{run.worldSize === 1 ? 'rank' : 'ranks'}</span>
      </Cell>
      <Cell label={<Term of="state hash">same state?</Term>}>
        <Agrees of={agreement(run.hashes)} worldSize={run.worldSize} />
      </Cell>
      <Cell label={<Term of="talking" />}>
        {alone ? (
          <span class="dim">–</span>
        ) : share === null ? (
          '–'
        ) : (
          <>
            {formatShare(share.share)} <span class="dim small">{formatShare(share.hidden)} hidden</span>
          </>
        )}
      </Cell>
      <Cell label="time left">{run.result !== null ? 'done' : left === null ? '–' : formatClock(left)}</Cell>
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

/** Short, for the strip; the table marks each of them. */
function differing(ranks: readonly number[], worldSize: number): string {
  if (ranks.length === 0) return 'not all';
  if (ranks.length === 1) return `not rank ${ranks[0]}`;
  return ranks.length === 2 ? `not ${list(ranks)}` : `not ${ranks.length} of ${worldSize}`;
}

function Agrees({ of, worldSize }: { of: Agreement; worldSize: number }) {
  switch (of.kind) {
    case 'unknown':
      return <span class="dim">not yet</span>;
    case 'agree':
      return <span class="good">{worldSize === 1 ? 'one copy ✓' : 'all agree ✓'}</span>;
    case 'differ':
      return <span class="wrong">{differing(of.ranks, worldSize)} ✕</span>;
    default:
      return of satisfies never;
  }
}
