/**
 * The picture of an all-reduce before a run. Its plan and its player are those of a real
 * all-reduce, but its times are simulated.
 */
import { useComputed } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import type { AllReduceName } from '../../spec/algorithms.ts';
import { Term } from '../components/Term.tsx';
import { messages } from '../locales/index.ts';
import { narrate, narratePicked } from './narrate.ts';
import type { Player } from './player/player.ts';
import { RingView, type RingMember } from './RingView.tsx';
import { simulatedTrace } from './simulatedTrace.ts';
import { usePlayer } from './player/usePlayer.ts';

interface Props {
  members: readonly RingMember[];
  you: number | null;
  algorithm?: AllReduceName;
  /** The label below the centre of the picture. */
  kind: string;
}

/**
 * The largest number of ranks in a simulated round. With more, the page would become slow, because
 * a plan is computed whenever a member joins.
 */
export const MOST_SIMULATED = 64;

export function SimulatedRing({ members, you, algorithm = 'ring', kind }: Props) {
  const { ring } = messages.value;
  const player = useSimulatedRound(members.length, algorithm);
  const isClosed = members.length >= 2;
  const moves = isClosed && members.length <= MOST_SIMULATED;
  const still = isClosed ? ring.still(MOST_SIMULATED) : ring.closes(algorithm === 'ring');
  return (
    <figure class="simulated">
      <TitledRing members={members} you={you} algorithm={algorithm} player={player} kind={moves ? kind : ''} />
      <figcaption class="caption">
        {moves ? <Caption player={player} you={you} /> : <span class="dim">{still}</span>}
      </figcaption>
      {moves && <Legend />}
    </figure>
  );
}

/**
 * Returns a player that plays a simulated round of `n` ranks and reacts to keys. It plays nothing
 * with one rank, or with more than {@link MOST_SIMULATED}.
 */
export function useSimulatedRound(n: number, algorithm: AllReduceName = 'ring'): Player {
  const stage = useMemo(
    () => (n < 2 || n > MOST_SIMULATED ? null : { trace: simulatedTrace(n, algorithm), n }),
    [n, algorithm],
  );
  return usePlayer(stage, { autoplay: true, keys: true });
}

export function TitledRing({ members, you, algorithm = 'ring', player, kind }: Props & { player: Player }) {
  const n = members.length;
  const title = useComputed(() => {
    const frame = player.frame.value;
    return frame === null ? '' : narrate(frame, null).title;
  }).value;
  return (
    <RingView
      members={members}
      you={you}
      shape={algorithm}
      focus={you ?? 0}
      player={player}
      centre={{ top: '', title: n < 2 ? messages.value.ring.titles.alone : title, bottom: kind }}
      label={messages.value.ring.picture(n, algorithm, kind)}
    />
  );
}

export function Legend() {
  return (
    <p class="legend dim small">
      {messages.value.ring.legend(
        <span class="nowrap">
          <Term of="gradient" />
        </span>,
      )}
    </p>
  );
}

/**
 * Describes the frame or the picked chunk in words. It is not a live region, because it changes in
 * every step.
 */
export function Caption({ player, you }: { player: Player; you: number | null }) {
  const text = useComputed(() => {
    const frame = player.frame.value;
    const picked = player.picked.value;
    if (frame === null) return '';
    if (picked?.rank === null) return narratePicked(frame, picked, player.stage.value?.numbers);
    return narrate(frame, you).text;
  });
  return <>{text.value}</>;
}
