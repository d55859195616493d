/**
 * Shows the bytes on the link of each rank in this round. On the ring they are about equal, because
 * chunks differ by at most one number. With a parameter server, rank 0 has the most bytes if there
 * are three ranks or more.
 */
import { busiestDirectionBytes } from '../../engine/lesson/lessonRound.ts';
import { formatBytes } from '../locales/format.ts';
import { RankMark } from '../components/RankMark.tsx';
import { uiMessages } from '../locales/index.ts';
import { viewpointRank, type LessonControls } from './lessonControls.ts';
import { ranksShownInRows } from './rows.ts';

export function LinkBytesPanel({ controls }: { controls: LessonControls }) {
  const { state, isSolo } = controls;
  const { bytes } = uiMessages.value.lesson;
  const { round } = state;
  const { n, steps, own } = round;
  const lines = busiestDirectionBytes(round);
  const total = (rank: number, way: 'sentBytes' | 'receivedBytes'): number =>
    steps.reduce((sum, step) => sum + step[way][rank]!, 0);
  const sent = lines.map((_, rank) => total(rank, 'sentBytes'));
  const received = lines.map((_, rank) => total(rank, 'receivedBytes'));
  const most = Math.max(1, ...sent, ...received);
  const busiest = Math.max(...lines);
  const share = (one: number): string => `${((one / most) * 100).toFixed(2)}%`;
  return (
    <>
      <p class="small dim legend-row">
        <span class="swatch sent" aria-hidden="true" /> {bytes.sent} <span class="swatch received" aria-hidden="true" />{' '}
        {bytes.received}
      </p>
      <ul class="plain lines">
        {ranksShownInRows(n, viewpointRank(controls)).map((rank) => (
          <li key={rank}>
            <span class="away">
              {bytes.line(rank, formatBytes(lines[rank]!), formatBytes(sent[rank]!), formatBytes(received[rank]!))}
            </span>
            <span aria-hidden="true">
              <RankMark rank={rank} />
            </span>
            <span class="line-bars" aria-hidden="true">
              <i class="sent" style={{ width: share(sent[rank]!) }} />
              <i class="received" style={{ width: share(received[rank]!) }} />
            </span>
            <span class="number right" aria-hidden="true">
              {formatBytes(lines[rank]!)}
            </span>
          </li>
        ))}
      </ul>
      <p>
        {busiest === 0
          ? bytes.none
          : lines.every((one) => one === busiest)
            ? bytes.equal(formatBytes(busiest))
            : bytes.busiest(lines.indexOf(busiest), formatBytes(busiest))}
      </p>
      <p class="dim small">{(isSolo ? bytes.formulaSolo : bytes.formula)(n, own[0]!.length)}</p>
    </>
  );
}
