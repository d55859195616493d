/** The mark of a rank: shape, colour and number. */
import { rankIdentityOf, rankShapePath } from './rankIdentity.ts';

export function RankMark({ rank, size = 14 }: { rank: number; size?: number }) {
  const { shape, colour, outlined } = rankIdentityOf(rank);
  return (
    <span class="mark">
      <svg width={size} height={size} viewBox="-14 -14 28 28" aria-hidden="true">
        <path
          d={rankShapePath(shape, 9.5)}
          class={outlined ? 'rank-shape outlined' : 'rank-shape'}
          style={{ '--own': `var(--rank-${colour})` }}
        />
      </svg>
      <span class="number">{rank}</span>
    </span>
  );
}
