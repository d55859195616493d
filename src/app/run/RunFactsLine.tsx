/** Shows the figures of a run in one line. */
import {
  stateAgreementOf,
  hasOnlyTimeLimit,
  isRoomTraining,
  samplesPerSecond,
  communicationShares,
  timeLeftMs,
  type StateAgreement,
} from '../state/derive.ts';
import { endsWithModel, modelNameOrOwn } from '../../spec/job.ts';
import { formatClockDuration, formatCount, formatLoss, formatPercent } from '../locales/format.ts';
import { NamedValue } from '../components/NamedValue.tsx';
import { StatusLine } from '../components/StatusLine.tsx';
import { GlossaryTerm } from '../components/GlossaryTerm.tsx';
import { reportsOwnLossOnly } from '../state/strategies.ts';
import type { RunView } from '../state/run.ts';
import type { TabView } from '../state/view.ts';
import { uiMessages } from '../locales/index.ts';

export function RunFactsLine({ view, run }: { view: TabView; run: RunView }) {
  const { run: labels } = uiMessages.value;
  const { model } = view;
  const { last } = run;
  // While a run waits, current figures are unknown.
  const isOn = isRoomTraining(view) || run.result !== null;
  const rate = isOn ? samplesPerSecond(run) : null;
  const share = communicationShares(run);
  const left = isOn && view.failure === null ? timeLeftMs(run, model?.totalSteps ?? null) : null;
  const alone = run.worldSize === 1;
  const isTimed = hasOnlyTimeLimit(run.job);
  const ownOnly = reportsOwnLossOnly(run.job, run.worldSize);
  return (
    <dl class="strip">
      <NamedValue name={<StatusLine view={view} brief />}>
        {run.job.job} <span class="dim">{run.job.job === 'gpt' ? '' : modelNameOrOwn(run.job.model)}</span>
      </NamedValue>
      <NamedValue name={<GlossaryTerm of="epoch" />}>
        {last === null ? '–' : last.epoch + 1}
        {!isTimed && endsWithModel(run.job) && <span class="dim"> / {run.job.epochs}</span>}
      </NamedValue>
      <NamedValue name={labels.stepLabel}>
        {last === null ? '–' : last.step + 1}
        {model !== null && !isTimed && <span class="dim"> / {model.totalSteps}</span>}
      </NamedValue>
      <NamedValue name={ownOnly ? labels.ownRate : labels.sampleRate}>
        {rate === null ? '–' : formatCount(rate)}
      </NamedValue>
      <NamedValue name={ownOnly ? <GlossaryTerm of="own loss" /> : labels.loss}>
        {last === null ? '–' : formatLoss(last.loss)}
      </NamedValue>
      <NamedValue name={<GlossaryTerm of="world size" />}>
        {run.worldSize} <span class="dim">{labels.ranksUnit(run.worldSize)}</span>
      </NamedValue>
      <NamedValue name={<GlossaryTerm of="state hash">{labels.sameState}</GlossaryTerm>}>
        <Agrees of={stateAgreementOf(run.hashes)} worldSize={run.worldSize} />
      </NamedValue>
      <NamedValue name={<GlossaryTerm of="communication" />}>
        {alone ? (
          <span class="dim">–</span>
        ) : share === null ? (
          '–'
        ) : (
          <>
            {formatPercent(share.share)}{' '}
            <span class="dim small">{labels.overlapped(formatPercent(share.overlapped))}</span>
          </>
        )}
      </NamedValue>
      <NamedValue name={labels.timeLeft}>
        {run.result !== null ? labels.done : left === null ? '–' : formatClockDuration(left)}
      </NamedValue>
    </dl>
  );
}

function Agrees({ of, worldSize }: { of: StateAgreement; worldSize: number }) {
  const { run: labels } = uiMessages.value;
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
