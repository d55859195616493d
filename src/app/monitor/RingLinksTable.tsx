/**
 * Shows the links of the ring. Each link leads from a rank to its right neighbour, and is reported
 * by that rank.
 */
import { rightNeighbourOf } from '../../collectives/plans/ringPlan.ts';
import { edgeMegabytesPerSecond } from '../state/derive.ts';
import { formatBytes, formatMs } from '../locales/format.ts';
import { RankMark } from '../components/RankMark.tsx';
import type { RunView } from '../state/run.ts';
import { uiMessages } from '../locales/index.ts';

export function RingLinksTable({ run }: { run: RunView }) {
  const { run: labels } = uiMessages.value;
  const { worldSize, telemetry } = run;
  const rates = edgeMegabytesPerSecond(run);
  const who = (rank: number): string => labels.who(rank, run.members[rank]?.name ?? '');
  return (
    <>
      {run.separated.map(([a, b]) => (
        <p key={`${a} ${b}`} class="small">
          {labels.separated(who(a), who(b))}
        </p>
      ))}
      {/* The table needs the focus, so that keys can scroll it. */}
      <div class="table-box" tabIndex={0} role="group" aria-label={labels.links}>
        <table class="ranks links">
          <thead>
            <tr>
              <th scope="col">{labels.link}</th>
              <th scope="col">{labels.route}</th>
              {[labels.roundTrip, labels.transit, labels.rate, labels.sent, labels.received].map((name) => (
                <th key={name} scope="col" class="right">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {run.members.map((_, from) => {
              const to = rightNeighbourOf(from, worldSize);
              const edge = telemetry?.ranks[from]?.right ?? null;
              const own = from === run.rank ? run.links[to] : undefined;
              const rate = rates[from] ?? null;
              return (
                <tr key={from}>
                  <th scope="row">
                    <RankMark rank={from} /> <span aria-hidden="true">→</span>
                    <span class="away">{labels.to}</span> <RankMark rank={to} />
                  </th>
                  <td>
                    {own?.up === false ? (
                      <span class="wait">{labels.connecting}</span>
                    ) : (
                      labels.routes[edge?.route ?? own?.route ?? 'unknown']
                    )}
                    {edge !== null && edge.connections > 1 && (
                      <span class="dim"> {labels.connections(edge.connections)}</span>
                    )}
                  </td>
                  <td class="right number">{orDash(edge?.roundTripMs ?? own?.roundTripMs ?? null, formatMs)}</td>
                  <td class="right number">{orDash(edge?.transitMs ?? null, formatMs)}</td>
                  <td class="right number">{orDash(rate, (value) => `${formatBytes(value * 1e6)}/s`)}</td>
                  <td class="right number">{orDash(edge?.bytesSent ?? null, formatBytes)}</td>
                  <td class="right number">{orDash(edge?.bytesReceived ?? null, formatBytes)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </>
  );
}

function orDash(value: number | null, format: (value: number) => string): string {
  return value === null ? '–' : format(value);
}
