/** The table cell with a rank's share of a step, and its measured speed. */
import { formatCount, formatShare } from '../locales/format.ts';
import { messages } from '../locales/index.ts';
import type { Run } from '../state/run.ts';

export function ShareCell({ run: { shares }, rank }: { run: Run; rank: number }) {
  const { run: labels, terms } = messages.value;
  if (shares === null) return <td data-label={terms.share.word}>–</td>;
  const total = shares.shares.reduce((sum, share) => sum + share, 0);
  const measured = shares.speeds[rank] ?? null;
  const speed = measured === null ? null : labels.perSecond(formatCount(measured));
  const impossible = shares.impossible.find((one) => one.rank === rank);
  return (
    <td class="number" data-label={terms.share.word} title={speed ?? undefined}>
      {formatShare(shares.shares[rank]! / total)}
      {speed !== null && <span class="dim share-speed"> {speed}</span>}
      {impossible !== undefined && <span class="wait"> {labels.impossibleSpeed(impossible.reported)}</span>}
    </td>
  );
}
