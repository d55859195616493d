/** Shows a table with a row for each rank: device, times, bytes sent, and state hash. */
import { useMemo } from 'preact/hooks';
import { rightNeighbourOf } from '../../collectives/plans/ringPlan.ts';
import type { RosterEntry } from '../../protocol/room.ts';
import { dissenters } from '../../util/mostFrequentVote.ts';
import { ranksThatLeft, isHost, isElasticRoom, ownRank } from '../state/derive.ts';
import { formatBytes, formatMs, shortHash, formatCount, formatPercent } from '../locales/format.ts';
import { RankMark } from '../components/RankMark.tsx';
import { RemoveButton } from '../components/RemoveButton.tsx';
import { GlossaryTerm } from '../components/GlossaryTerm.tsx';
import { StageCells } from '../pipeline/StageCells.tsx';
import { stagesByRank } from '../pipeline/shape.ts';
import type { RunView } from '../state/run.ts';
import type { TabView } from '../state/view.ts';
import { describeGettingReady } from '../state/describeGettingReady.ts';
import { uiMessages } from '../locales/index.ts';

export function RankTable({ view, run }: { view: TabView; run: RunView }) {
  const { run: labels, pipeline: pipelines, terms } = uiMessages.value;
  const { lobby } = view;
  const { pipeline } = run;
  const stages = useMemo(() => (pipeline === null ? [] : stagesByRank(pipeline)), [pipeline]);
  const gone = ranksThatLeft(run, lobby);
  const others = lobby?.members.filter((one) => run.members.every(({ member }) => member !== one.member)) ?? [];
  const host = isHost(view);
  const hashes = run.hashes?.hashes ?? [];
  const apart = new Set(dissenters(hashes));
  // Only WebGPU has commands.
  const hasCommands = run.statistics?.ranks.some(({ commands }) => commands !== undefined) ?? false;
  return (
    <div class="table-box">
      <table class="ranks">
        <thead>
          <tr>
            <th scope="col">
              <GlossaryTerm of="rank" />
            </th>
            <th scope="col" class="adapter">
              <span>{labels.device}</span>
            </th>
            {pipeline === null ? (
              <th scope="col">
                <GlossaryTerm of="share" />
              </th>
            ) : (
              <>
                <th scope="col">{pipelines.stage}</th>
                <th scope="col" class="right">
                  {pipelines.memory}
                </th>
              </>
            )}
            <th scope="col" class="right">
              {labels.computation}
            </th>
            <th scope="col" class="right">
              {labels.communication}
            </th>
            {hasCommands && (
              <th scope="col" class="right">
                <GlossaryTerm of="dispatches" />
              </th>
            )}
            <th scope="col" class="right">
              {labels.sent}
            </th>
            <th scope="col">{labels.link}</th>
            <th scope="col">
              <GlossaryTerm of="state hash">{labels.state}</GlossaryTerm>
            </th>
            {host && (
              <th scope="col">
                <span class="away">{labels.remove}</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {run.members.map((one, rank) => {
            const numbers = run.statistics?.ranks.find((entry) => entry.rank === rank);
            const hash = hashes[rank];
            return (
              <tr key={rank}>
                <th scope="row">
                  <RankMark rank={rank} size={18} /> {one.name}
                  {rank === ownRank(view, run) && <span class="dim"> {labels.you}</span>}
                </th>
                <DeviceCell device={one.device} />
                {pipeline === null ? (
                  <ShareCell run={run} rank={rank} />
                ) : (
                  <StageCells pipeline={pipeline} stages={stages} rank={rank} bytes={numbers?.memoryBytes ?? null} />
                )}
                <td class="right number" data-label={labels.computation}>
                  {numbers === undefined ? '–' : formatMs(numbers.computeMs)}
                </td>
                <td class="right number" data-label={labels.communication}>
                  {numbers === undefined ? '–' : formatMs(numbers.communicateMs)}
                </td>
                {hasCommands && (
                  <td class="right number" data-label={terms.dispatches.word}>
                    {numbers?.commands === undefined ? '–' : numbers.commands.dispatches}
                    {numbers?.commands !== undefined && <span class="dim"> / {numbers.commands.submits}</span>}
                  </td>
                )}
                <td class="right number" data-label={labels.sent}>
                  {numbers === undefined ? '–' : formatBytes(numbers.gradientBytesSent + numbers.otherBytesSent)}
                </td>
                <td data-label={labels.link}>
                  {gone.includes(rank) ? (
                    <span class="wait">{labels.hasLeft}</span>
                  ) : (
                    <LinkTo run={run} own={ownRank(view, run)} rank={rank} />
                  )}
                </td>
                <td data-label={labels.state}>
                  {hash === undefined ? (
                    '–'
                  ) : (
                    <span class={apart.has(rank) ? 'hash wrong' : 'hash'}>
                      {shortHash(hash)} {apart.has(rank) ? '✕' : '✓'}
                    </span>
                  )}
                </td>
                {host && (
                  <td class="right">
                    {one.member !== view.member && !gone.includes(rank) && (
                      <RemoveButton member={one.member} name={one.name} />
                    )}
                  </td>
                )}
              </tr>
            );
          })}
          {others.map((one) => (
            <tr key={one.member}>
              <th scope="row">
                <span class="dim">–</span> {one.name}
              </th>
              <DeviceCell device={one.device} />
              <td colSpan={6 + (hasCommands ? 1 : 0) + (pipeline === null ? 0 : 1)} class="dim">
                {one.device === null
                  ? describeGettingReady(one)
                  : lobby !== null && isElasticRoom(lobby)
                    ? labels.joinsSoon
                    : labels.waitsForNext}
              </td>
              {host && (
                <td class="right">
                  <RemoveButton member={one.member} name={one.name} />
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
      {run.shares !== null && <p class="small dim share-reason">{labels.shareReasons[run.shares.reason]}</p>}
    </div>
  );
}

function DeviceCell({ device }: Pick<RosterEntry, 'device'>) {
  return (
    <td class="adapter" data-label={uiMessages.value.run.device} title={device?.adapter}>
      {device === null ? '–' : device.adapter}
      {device !== null && <span class="dim"> {device.backend}</span>}
    </td>
  );
}

/**
 * Shows the link from `rank` to its right neighbour, from the latest report of `rank`. If this is a
 * link of this tab's rank and not connected, it is shown as connecting.
 */
function LinkTo({ run, own: self, rank }: { run: RunView; own: number | null; rank: number }) {
  const { run: labels } = uiMessages.value;
  if (run.worldSize === 1) return <span class="dim">–</span>;
  const right = rightNeighbourOf(rank, run.worldSize);
  const own = rank === self ? run.links[right] : right === self ? run.links[rank] : undefined;
  const reported = run.telemetry?.ranks[rank]?.right;
  if (own?.up === false) return <span class="wait">{labels.connecting}</span>;
  const { route, roundTripMs } = reported ?? own ?? { route: null, roundTripMs: null };
  if (route === null) return <span class="dim">–</span>;
  return (
    <>
      {labels.routes[route]}
      {roundTripMs !== null && <span class="dim"> {formatMs(roundTripMs)}</span>}
      {run.telemetry?.ranks[rank]?.isHidden && <span class="wait"> {labels.isHidden}</span>}
    </>
  );
}

function ShareCell({ run: { shares }, rank }: { run: RunView; rank: number }) {
  const { run: labels, terms } = uiMessages.value;
  if (shares === null) return <td data-label={terms.share.word}>–</td>;
  const total = shares.shares.reduce((sum, share) => sum + share, 0);
  const measured = shares.speeds[rank] ?? null;
  const speed = measured === null ? null : labels.perSecond(formatCount(measured));
  const impossible = shares.impossible.find((one) => one.rank === rank);
  return (
    <td class="number" data-label={terms.share.word} title={speed ?? undefined}>
      {formatPercent(shares.shares[rank]! / total)}
      {speed !== null && <span class="dim share-speed"> {speed}</span>}
      {impossible !== undefined && <span class="wait"> {labels.impossibleSpeed(impossible.reported)}</span>}
    </td>
  );
}
