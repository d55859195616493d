/** Describes each straggler and each slow link in a sentence, with its causes. */
import { findStragglers, type StragglerFinding } from '../../telemetry/stragglers.ts';
import { formatMs, formatRatio } from '../locales/format.ts';
import type { RunView } from '../state/run.ts';
import { uiMessages } from '../locales/index.ts';

export function Stragglers({ run }: { run: RunView }) {
  const { run: labels } = uiMessages.value;
  const { statistics, telemetry } = run;
  if (run.worldSize < 2) return null;
  if (statistics === null || telemetry === null)
    return <p class="dim small">{labels.stragglersLater(run.job.hashEvery)}</p>;
  const found = findStragglers(statistics.ranks, telemetry.ranks);
  if (found.length === 0) {
    return (
      <p class="small">
        <span class="good">✓</span> {labels.nobodySlow}
      </p>
    );
  }
  return (
    <ul class="plain small stragglers">
      {found.map((one) => (
        <li key={one.kind === 'rank' ? `rank ${one.rank}` : `link ${one.from}`}>
          <span class="wait" aria-hidden="true">
            ▲
          </span>{' '}
          {describeFinding(one, run)}
        </li>
      ))}
    </ul>
  );
}

/**
 * Returns a sentence: `Rank 2 (ben) slows the ring: its computation takes 2.1 times as long as the
 * others’, and its tab is hidden.`
 */
function describeFinding(found: StragglerFinding, { members }: Pick<RunView, 'members'>): string {
  const { run: labels } = uiMessages.value;
  const who = (rank: number): string => labels.who(rank, members[rank]?.name ?? '');
  if (found.kind === 'link') {
    const { from, to, transitMs, ratio, route } = found;
    return labels.slowLink(who(from), who(to), formatMs(transitMs), formatRatio(ratio), route === 'relayed');
  }
  const { rank, ratio, computing, isHidden } = found;
  const causes = [
    computing === null ? labels.slowOtherwise(formatRatio(ratio)) : labels.slowComputing(formatRatio(computing)),
    ...(isHidden ? [labels.hiddenTab] : []),
  ];
  return labels.slowRank(who(rank), causes);
}
