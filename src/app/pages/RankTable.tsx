/** One line per rank: what it computes with, where its time goes, what it sent, and the fingerprint of its state. */
import { dissenters } from '../../util/majority.ts';
import { goneRanks, isHost, isOpen, ownRank } from '../derive.ts';
import { formatBytes, formatMs, shortHash } from '../format.ts';
import { RankMark } from '../parts/RankMark.tsx';
import { RemoveButton } from '../parts/RemoveButton.tsx';
import { Term } from '../parts/Term.tsx';
import type { Run, View } from '../view.ts';

export function RankTable({ view, run }: { view: View; run: Run }) {
  const { lobby } = view;
  const gone = goneRanks(run, lobby);
  const others = lobby?.members.filter((one) => run.members.every(({ member }) => member !== one.member)) ?? [];
  const host = isHost(view);
  const hashes = run.hashes?.hashes ?? [];
  const apart = new Set(dissenters(hashes));
  return (
    <div class="table-box">
      <table class={host ? 'ranks led' : 'ranks'}>
        <thead>
          <tr>
            <th scope="col">
              <Term of="rank" />
            </th>
            <th scope="col" class="adapter">
              <span>computes with</span>
            </th>
            <th scope="col" class="right">
              computing
            </th>
            <th scope="col" class="right">
              talking
            </th>
            <th scope="col" class="right">
              sent
            </th>
            <th scope="col">link</th>
            <th scope="col">
              <Term of="state hash">state</Term>
            </th>
            {host && (
              <th scope="col">
                <span class="away">remove</span>
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
                  {rank === ownRank(view, run) && <span class="dim"> (you)</span>}
                </th>
                <td class="adapter" title={one.device?.adapter}>
                  {one.device === null ? '–' : one.device.adapter}
                  {one.device !== null && <span class="dim"> {one.device.backend}</span>}
                </td>
                <td class="right number">{numbers === undefined ? '–' : formatMs(numbers.computeMs)}</td>
                <td class="right number">{numbers === undefined ? '–' : formatMs(numbers.communicateMs)}</td>
                <td class="right number">
                  {numbers === undefined ? '–' : formatBytes(numbers.gradientBytesSent + numbers.otherBytesSent)}
                </td>
                <td>
                  {gone.includes(rank) ? (
                    <span class="wait">left</span>
                  ) : (
                    <LinkTo run={run} own={ownRank(view, run)} rank={rank} />
                  )}
                </td>
                <td>
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
              <td class="adapter" title={one.device?.adapter}>
                {one.device === null ? '–' : one.device.adapter}
                {one.device !== null && <span class="dim"> {one.device.backend}</span>}
              </td>
              <td colSpan={5} class="dim">
                {one.device === null
                  ? 'getting ready'
                  : lobby !== null && isOpen(lobby)
                    ? 'joins in a moment'
                    : 'waits for the next run'}
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
    </div>
  );
}

/** Known for this rank's own two links only. */
function LinkTo({ run, own, rank }: { run: Run; own: number | null; rank: number }) {
  if (rank === own) return <span class="dim">this tab</span>;
  const link = run.links[rank];
  if (link === undefined) return <span class="dim">not ours</span>;
  if (!link.up) return <span class="wait">connecting …</span>;
  return (
    <>
      {link.route === 'unknown' ? 'up' : link.route}
      {link.roundTripMs !== null && <span class="dim"> {formatMs(link.roundTripMs)}</span>}
    </>
  );
}
