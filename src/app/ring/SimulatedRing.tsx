/**
 * The picture of an all-reduce before a run. Its plan and its player are those of a real
 * all-reduce, but its times are simulated.
 */
import { useComputed } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import type { AllReduceName } from '../../spec/algorithms.ts';
import { GlossaryTerm } from '../components/GlossaryTerm.tsx';
import { uiMessages } from '../locales/index.ts';
import { narrateFrame, narratePickedChunk } from './narrate.ts';
import type { RingPlayer } from './player/player.ts';
import { RingView, type RingMember } from './RingView.tsx';
import { simulatedTrace } from './simulatedTrace.ts';
import { useRingPlayer } from './player/usePlayer.ts';

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
export const MAX_SIMULATED_RING_RANKS = 64;

export function SimulatedRing({ members, you, algorithm = 'ring', kind }: Props) {
  const { ring } = uiMessages.value;
  const player = useSimulatedRound(members.length, algorithm);
  const isClosed = members.length >= 2;
  const moves = isClosed && members.length <= MAX_SIMULATED_RING_RANKS;
  const still = isClosed ? ring.still(MAX_SIMULATED_RING_RANKS) : ring.closes(algorithm === 'ring');
  return (
    <figure class="simulated">
      <TitledRing members={members} you={you} algorithm={algorithm} player={player} kind={moves ? kind : ''} />
      <figcaption class="caption">
        {moves ? <RingCaption player={player} you={you} /> : <span class="dim">{still}</span>}
      </figcaption>
      {moves && <RingLegend />}
    </figure>
  );
}

/**
 * Returns a player that plays a simulated round of `n` ranks and reacts to keys. It plays nothing
 * with one rank, or with more than {@link MAX_SIMULATED_RING_RANKS}.
 */
export function useSimulatedRound(n: number, algorithm: AllReduceName = 'ring'): RingPlayer {
  const stage = useMemo(
    () => (n < 2 || n > MAX_SIMULATED_RING_RANKS ? null : { trace: simulatedTrace(n, algorithm), n }),
    [n, algorithm],
  );
  return useRingPlayer(stage, { autoplay: true, keys: true });
}

export function TitledRing({ members, you, algorithm = 'ring', player, kind }: Props & { player: RingPlayer }) {
  const n = members.length;
  const title = useComputed(() => {
    const frame = player.frame.value;
    return frame === null ? '' : narrateFrame(frame, null).title;
  }).value;
  return (
    <RingView
      members={members}
      you={you}
      shape={algorithm}
      focus={you ?? 0}
      player={player}
      centre={{ top: '', title: n < 2 ? uiMessages.value.ring.titles.alone : title, bottom: kind }}
      label={uiMessages.value.ring.picture(n, algorithm, kind)}
    />
  );
}

export function RingLegend() {
  return (
    <p class="legend dim small">
      {uiMessages.value.ring.legend(
        <span class="nowrap">
          <GlossaryTerm of="gradient" />
        </span>,
      )}
    </p>
  );
}

/**
 * Describes the frame or the picked chunk in words. It is not a live region, because it changes in
 * every step.
 */
export function RingCaption({ player, you }: { player: RingPlayer; you: number | null }) {
  const text = useComputed(() => {
    const frame = player.frame.value;
    const picked = player.picked.value;
    if (frame === null) return '';
    if (picked?.rank === null) return narratePickedChunk(frame, picked, player.round.value?.numbers);
    return narrateFrame(frame, you).text;
  });
  return <>{text.value}</>;
}
