/** Where each rank's step goes: computing, talking, the rest. A bar per rank, on one scale, so a straggler sticks out. */
import { formatMs } from '../format.ts';
import { RankMark } from '../parts/RankMark.tsx';
import { Term } from '../parts/Term.tsx';
import { identityOf } from '../rankIdentity.ts';
import type { Run } from '../view.ts';

export function Lanes({ run }: { run: Run }) {
  const ranks = run.statistics?.ranks ?? [];
  const longest = Math.max(
    ...ranks.map((one) => Math.max(one.stepMs, one.computeMs + one.communicateMs)),
    Number.EPSILON,
  );
  const part = (ms: number): string => `${((100 * ms) / longest).toFixed(2)}%`;
  return (
    <section class="lanes" aria-label="Where each rank’s step goes">
      <p class="small lanes-title">
        <span>one step</span>
        <span class="key">
          <i class="swatch compute" /> computing <i class="swatch communicate" /> talking <i class="swatch rest" /> rest
        </span>
        <span class="dim">
          the longest computing is the <Term of="straggler" />
        </span>
      </p>
      {ranks.length === 0 ? (
        <p class="dim small">Known after the first exchange of statistics, at step {run.job.hashEvery}.</p>
      ) : (
        <ul class="plain">
          {ranks.map((one) => (
            <li
              key={one.rank}
              style={{ '--own': `var(--rank-${identityOf(one.rank).colour})` }}
              aria-label={`rank ${one.rank}: computing ${formatMs(one.computeMs)}, talking ${formatMs(one.communicateMs)}, step ${formatMs(one.stepMs)}`}
            >
              <RankMark rank={one.rank} />
              <span class="lane">
                <i class="compute" style={{ width: part(one.computeMs) }} />
                <i class="communicate" style={{ width: part(one.communicateMs) }} />
                <i class="rest" style={{ width: part(Math.max(0, one.stepMs - one.computeMs - one.communicateMs)) }} />
              </span>
              <span class="number small dim">{formatMs(one.stepMs)}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
