/** The run in a line of numbers. */
import type { ComponentChildren } from 'preact';
import { agreement, samplesPerSecond, talking, timeLeft, type Agreement } from '../derive.ts';
import { formatClock, formatCount, formatLoss, formatShare, list } from '../format.ts';
import { Term } from '../parts/Term.tsx';
import type { ModelSizes, Run } from '../view.ts';

export function Strip({ run, model }: { run: Run; model: ModelSizes | null }) {
  const last = run.recent.at(-1);
  const rate = samplesPerSecond(run);
  const share = talking(run);
  const left = timeLeft(run, model?.totalSteps ?? null);
  const alone = run.worldSize === 1;
  return (
    <dl class="strip">
      <Cell label="job">
        {run.job.job} <span class="dim">{run.job.model}</span>
      </Cell>
      <Cell label={<Term of="epoch" />}>
        {last === undefined ? '–' : last.dataEpoch + 1}
        <span class="dim"> / {run.job.epochs}</span>
      </Cell>
      <Cell label="step">
        {last === undefined ? '–' : last.step + 1}
        {model !== null && <span class="dim"> / {model.totalSteps}</span>}
      </Cell>
      <Cell label="samples per second">{rate === null ? '–' : formatCount(rate)}</Cell>
      <Cell label="loss">{last === undefined ? '–' : formatLoss(last.loss)}</Cell>
      <Cell label={<Term of="world size" />}>
        {run.worldSize} <span class="dim">{run.worldSize === 1 ? 'rank' : 'ranks'}</span>
      </Cell>
      <Cell label={<Term of="state hash">same state?</Term>}>
        <Agrees of={agreement(run.hashes)} alone={alone} />
      </Cell>
      <Cell label={<Term of="talking" />}>
        {alone ? (
          <span class="dim">nothing to exchange</span>
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

function Agrees({ of, alone }: { of: Agreement; alone: boolean }) {
  switch (of.kind) {
    case 'unknown':
      return <span class="dim">not compared yet</span>;
    case 'agree':
      return <span class="good">{alone ? 'one copy ✓' : 'all agree ✓'}</span>;
    case 'differ':
      return (
        <span class="wrong">
          {of.ranks.length === 0
            ? 'not all agree ✕'
            : `rank ${list(of.ranks)} ${of.ranks.length === 1 ? 'differs' : 'differ'} ✕`}
        </span>
      );
    default:
      return of satisfies never;
  }
}
