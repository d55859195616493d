/** Shows which share of a step's samples a rank computes, and its measured speed. */
import { formatCount, formatShare } from '../locales/format.ts';
import { messages } from '../locales/index.ts';
import type { Run } from '../state/run.ts';

export function ShareOf({ run: { shares }, rank }: { run: Run; rank: number }) {
  const { run: labels } = messages.value;
  if (shares === null) return <>–</>;
  const total = shares.shares.reduce((sum, share) => sum + share, 0);
  const speed = shares.speeds[rank] ?? null;
  const impossible = shares.impossible.find((one) => one.rank === rank);
  return (
    <>
      {formatShare(shares.shares[rank]! / total)}
      {speed !== null && <span class="dim"> {labels.perSecond(formatCount(speed))}</span>}
      {impossible !== undefined && <span class="wait"> {labels.impossibleSpeed(impossible.reported)}</span>}
    </>
  );
}
