/** The ring by itself, before anything runs: the same plan and player on times that nobody measured. */
import { useComputed } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { narrate } from './narrate.ts';
import { Term } from '../parts/Term.tsx';
import type { Player } from './player.ts';
import { RingView, type RingMember } from './RingView.tsx';
import { simulatedTrace } from './simulatedTrace.ts';
import { usePlayer } from './usePlayer.ts';

interface Props {
  members: readonly RingMember[];
  you: number | null;
  bottom?: string;
}

export function SimulatedRing({ members, you, bottom = 'simulated' }: Props) {
  const n = members.length;
  const stage = useMemo(() => (n < 2 ? null : { trace: simulatedTrace(n), n }), [n]);
  const player = usePlayer(stage, { autoplay: true, keys: true });
  return (
    <figure class="simulated">
      <TitledRing members={members} you={you} player={player} bottom={n < 2 ? '' : bottom} />
      <figcaption class="caption">
        {n < 2 ? (
          <span class="dim">The ring closes when a second tab joins.</span>
        ) : (
          <Caption player={player} you={you} />
        )}
      </figcaption>
      {n >= 2 && (
        <p class="legend dim small">
          A capsule is a chunk of a{' '}
          <span class="nowrap">
            <Term of="gradient" />;
          </span>{' '}
          its slots show whose numbers are in it.
        </p>
      )}
    </figure>
  );
}

function TitledRing({ members, you, player, bottom }: Required<Props> & { player: Player }) {
  const n = members.length;
  const title = useComputed(() => {
    const frame = player.frame.value;
    return frame === null ? 'alone' : narrate(frame, frame.cells.length, null).title;
  }).value;
  const label = `A ring of ${n} ranks that exchange chunks, ${bottom}.`;
  return <RingView members={members} you={you} player={player} centre={{ top: '', title, bottom }} label={label} />;
}

/** The frame in words. Not a live region on purpose: it changes all the time. */
export function Caption({ player, you }: { player: Player; you: number | null }) {
  const text = useComputed(() => {
    const frame = player.frame.value;
    return frame === null ? '' : narrate(frame, frame.cells.length, you).text;
  });
  return <>{text.value}</>;
}
