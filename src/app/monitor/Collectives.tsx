/**
 * Shows the collectives of the recordings: problems in sentences, and a table of all collectives.
 */
import { useMemo } from 'preact/hooks';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import { formatMs } from '../locales/format.ts';
import { RankMark } from '../components/RankMark.tsx';
import { uiMessages } from '../locales/index.ts';
import {
  recordedCollectives,
  findCollectiveTroubles,
  ranksWithoutRecording,
  type CollectiveStateOnRank,
  type CollectiveTrouble,
} from './analyze.ts';

/**
 * The largest number of rows in the table. A thousand rows would be slow to render, and problems
 * are usually among the newest collectives.
 */
const MOST_ROWS = 100;

const ICONS: Record<CollectiveStateOnRank, string> = {
  scheduled: '○',
  started: '◌',
  completed: '✓',
  failed: '✕',
  absent: '✕',
  unknown: '',
};
const MOODS: Record<CollectiveStateOnRank, string> = {
  scheduled: 'wait',
  started: 'wait',
  completed: 'good',
  failed: 'wrong',
  absent: 'wrong',
  unknown: 'dim',
};

export function RecordingFindings({ recordings }: { recordings: readonly FlightRecording[] }) {
  const { recording: labels } = uiMessages.value.run;
  const troubles = useMemo(() => findCollectiveTroubles(recordedCollectives(recordings)), [recordings]);
  const missing = ranksWithoutRecording(recordings);
  return (
    <div class="findings">
      {recordings.length === 1 && recordings[0]!.worldSize > 1 ? (
        <p>{labels.onlyOne}</p>
      ) : troubles.length === 0 ? (
        <p>
          <span class="good" aria-hidden="true">
            ✓
          </span>{' '}
          {labels.allThere}
        </p>
      ) : (
        <ul class="plain">
          {troubles.map((one) => (
            <li key={one.kind}>
              <span class="wrong" aria-hidden="true">
                ✕
              </span>{' '}
              {describeTrouble(one)}
            </li>
          ))}
        </ul>
      )}
      {missing.length > 0 && <p class="dim small">{labels.filesMissing(missing)}</p>}
    </div>
  );
}

function describeTrouble(trouble: CollectiveTrouble): string {
  const { recording: labels } = uiMessages.value.run;
  switch (trouble.kind) {
    case 'missing':
      return labels.missing(trouble.ranks, trouble.call, trouble.waiting);
    case 'stuck':
      return labels.stuck(trouble.ranks, trouble.call);
    case 'differs':
      return labels.differs(trouble.seq, trouble.calls);
    default:
      return trouble satisfies never;
  }
}

export function CollectivesTable({ recordings }: { recordings: readonly FlightRecording[] }) {
  const { recording: labels } = uiMessages.value.run;
  const all = useMemo(() => recordedCollectives(recordings), [recordings]);
  const ranks = recordings.map(({ rank }) => rank);
  return (
    <section class="panel" aria-label={labels.collectives}>
      <h2 class="panel-title">{labels.collectives}</h2>
      {/* The table needs the focus, so that keys can scroll it. */}
      <div class="table-box" tabIndex={0} role="group" aria-label={labels.collectives}>
        <table class="ranks collectives">
          <thead>
            <tr>
              <th scope="col">{labels.group}</th>
              <th scope="col" class="right">
                {labels.number}
              </th>
              <th scope="col">{labels.call}</th>
              <th scope="col">{labels.algorithm}</th>
              <th scope="col" class="right">
                {labels.took}
              </th>
              {ranks.map((rank) => (
                <th key={rank} scope="col">
                  <RankMark rank={rank} />
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {all.slice(0, MOST_ROWS).map(({ group, seq, call, algorithm, tookMs, states }) => (
              <tr key={`${group}/${seq}`}>
                <td class="number">{group}</td>
                <td class="right number">{seq}</td>
                <td>{call}</td>
                <td>{algorithm}</td>
                <td class="right number">{tookMs === null ? '–' : formatMs(tookMs)}</td>
                {ranks.map((rank) => {
                  const state = states[rank]!;
                  return (
                    <td key={rank}>
                      <span class={MOODS[state]}>
                        {ICONS[state]} {labels.states[state]}
                      </span>
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {all.length > MOST_ROWS && <p class="dim small">{labels.shown(MOST_ROWS, all.length)}</p>}
    </section>
  );
}
