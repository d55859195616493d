/** Shows how much of the job's files, or of the run's state, each rank has received. */
import { ownRank } from '../state/derive.ts';
import { formatShare } from '../locales/format.ts';
import { RankMark } from '../components/RankMark.tsx';
import type { Run } from '../state/run.ts';
import type { View } from '../state/view.ts';
import { messages } from '../locales/index.ts';

export function Distribution({ view, run }: { view: View; run: Run }) {
  const { what, total, bytesPerRank } = run.distribution!;
  const labels = messages.value.run.distribution[what];
  const own = ownRank(view, run);
  const here = own === null ? null : bytesPerRank[own]!;
  return (
    <section aria-labelledby="distribution">
      <h2 id="distribution">{labels.title}</h2>
      {here !== null && <p class="dim small">{here === total ? labels.all(total) : labels.about(here, total)}</p>}
      <ul class="file-distribution plain">
        {run.members.map(({ member, name }, rank) => (
          <li key={member}>
            <RankMark rank={rank} />
            <span class="ellipsis">{name}</span>
            <progress aria-label={name} value={bytesPerRank[rank]} max={total} />
            <span class="number right">{formatShare(bytesPerRank[rank]! / total)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
