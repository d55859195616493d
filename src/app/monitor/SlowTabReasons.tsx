/**
 * Explains on the page of a slow rank why its machine may be slow, and what helps. Other ranks only
 * see that this rank is slow.
 */
import { useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { findStragglers, slownessOf } from '../../telemetry/stragglers.ts';
import { pageHidden } from '../browser/env.ts';
import { isOnBattery, measureFrameTimes } from '../browser/machine.ts';
import { formatRatio } from '../locales/format.ts';
import { uiMessages } from '../locales/index.ts';
import { ownRank } from '../state/derive.ts';
import type { RunView } from '../state/run.ts';
import type { TabView } from '../state/view.ts';
import { looksLikeLowPowerMode, findSlowTabReasons } from './slowReasons.ts';

export function SlowTabReasons({ view, run }: { view: TabView; run: RunView }) {
  const rank = ownRank(view, run);
  const { statistics, telemetry, shares } = run;
  const ratio = useMemo(() => {
    if (rank === null || statistics === null || telemetry === null) return null;
    return slownessOf(rank, findStragglers(statistics.ranks, telemetry.ranks), shares);
  }, [statistics, telemetry, shares, rank]);
  if (ratio === null || rank === null) return null;
  return <Reasons view={view} ratio={ratio} wasHidden={telemetry?.ranks[rank]?.isHidden ?? false} />;
}

/** @param wasHidden whether the page was hidden while the latest steps were measured. */
function Reasons({ view, ratio, wasHidden }: { view: TabView; ratio: number; wasHidden: boolean }) {
  const { slowHere } = uiMessages.value.run;
  const savesFrames = useSignal(false);
  useEffect(() => measureFrameTimes((frameMs) => (savesFrames.value = looksLikeLowPowerMode(frameMs))), [savesFrames]);
  const reasons = findSlowTabReasons({
    device: view.device,
    isSecure: isSecureContext,
    hasWebGpu: 'gpu' in navigator,
    isHidden: wasHidden || pageHidden.value,
    isOnBattery: isOnBattery().value,
    savesFrames: savesFrames.value,
  });
  return (
    <section class="slow-here small" aria-label={slowHere.label}>
      <p>
        <span class="wait" aria-hidden="true">
          ▲
        </span>{' '}
        {slowHere.title(formatRatio(ratio))}
      </p>
      <ul>
        {reasons.map((reason) => (
          <li key={reason}>
            {slowHere.reasons[reason].why} <strong>{slowHere.reasons[reason].help}</strong>
          </li>
        ))}
        {reasons.length === 0 && <li>{slowHere.unknown}</li>}
      </ul>
    </section>
  );
}
