/**
 * Handles the pointer and the keys on the picture. They select a rank; the chunks that this rank
 * sends are then picked.
 */
import { useComputed, useSignal } from '@preact/signals';
import { useId, useRef } from 'preact/hooks';
import { leftNeighbourOf, rightNeighbourOf } from '../../collectives/plans/ringPlan.ts';
import { uiMessages } from '../locales/index.ts';
import type { RingFrame } from './frameAt.ts';
import { svgPathOfWay, indexOfWayAt, wayBetweenRanks, type RingLayout } from './geometry.ts';
import {
  describeChunks,
  transferOfPickedChunk,
  narratePickedChunk,
  planStepOfFrame,
  transferFromRank,
} from './narrate.ts';
import type { PickedChunk, RingPlayer } from './player/player.ts';
import { useHighlightOfPickedChunk } from './useHighlight.ts';

interface Props {
  layout: RingLayout;
  player: RingPlayer;
}

/**
 * Returns what is picked when a rank is selected. On a ring, it is the chunk that the rank sends
 * now, so that the user can follow this chunk. With other algorithms, it is everything that the
 * rank sends.
 */
function pickedOf(frame: RingFrame, sender: number): PickedChunk {
  const chunk = transferFromRank(frame, sender)?.first ?? 0;
  return { chunk, rank: null, sender: frame.plan.algorithm === 'ring' ? null : sender };
}

/**
 * An element over the picture that receives pointer and keys. Only its focus outline is visible.
 */
export function EdgePicker({ layout, player }: Props) {
  const n = layout.places.length;
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  /** The rank selected with the arrow keys or the pointer. */
  const cursor = useSignal(0);
  /**
   * The rank whose way is under the pointer. While the pointer stays there, the chunks of this rank
   * are picked.
   */
  const pointed = useRef<number | null>(null);
  const rank = Math.min(n - 1, cursor.value);
  const pick = (sender: number): void => {
    const frame = player.frame.peek();
    cursor.value = sender;
    player.picked.value = frame?.plan.n === n ? pickedOf(frame, sender) : null;
  };
  const point = (event: PointerEvent): void => {
    const frame = player.frame.peek();
    if (frame?.plan.n !== n) return;
    const place = box.current!.getBoundingClientRect();
    const { transfers } = planStepOfFrame(frame);
    const ways = transfers.map(({ from, to }) => wayBetweenRanks(layout, from, to));
    const at = indexOfWayAt(ways, event.clientX - place.left, event.clientY - place.top);
    const sender = at === null ? null : transfers[at]!.from;
    if (sender === pointed.current && event.type === 'pointermove') return;
    pointed.current = sender;
    if (sender === null) player.picked.value = null;
    else pick(sender);
  };
  const onkey = (event: KeyboardEvent): void => {
    if (event.key === 'ArrowRight' || event.key === 'ArrowDown') pick(rightNeighbourOf(rank, n));
    else if (event.key === 'ArrowLeft' || event.key === 'ArrowUp') pick(leftNeighbourOf(rank, n));
    else if (event.key === 'Escape') box.current!.blur();
    else return;
    event.preventDefault();
  };
  return (
    <div
      ref={box}
      class="edge-keys"
      tabIndex={0}
      role="listbox"
      aria-label={uiMessages.value.ring.onEdges}
      aria-activedescendant={`${id}-${rank}`}
      onFocus={() => {
        if (pointed.current === null) pick(rank);
      }}
      onBlur={() => (player.picked.value = null)}
      onKeyDown={onkey}
      onPointerMove={point}
      onPointerDown={point}
      onPointerLeave={(event) => {
        pointed.current = null;
        // Lifting a finger also causes a leave event, but the tapped chunk must stay picked.
        if (event.pointerType === 'mouse' && document.activeElement !== box.current) player.picked.value = null;
      }}
    >
      <span key={rank} id={`${id}-${rank}`} class="away" role="option" aria-selected="true">
        <EdgeText n={n} rank={rank} player={player} />
      </span>
    </div>
  );
}

function EdgeText({ n, rank, player }: { n: number; rank: number; player: RingPlayer }) {
  const text = useComputed(() => {
    const { ring } = uiMessages.value;
    const now = player.frame.value;
    if (now?.plan.n !== n) return '';
    const picked = player.picked.value?.rank === null ? player.picked.value : pickedOf(now, rank);
    const move = transferOfPickedChunk(now, picked);
    if (move === null) return ring.sendsNothing(rank);
    const narration = narratePickedChunk(now, picked, player.round.value?.numbers);
    return `${ring.edge(describeChunks(move, now.plan.chunks), move.from, move.to)}. ${narration}`;
  });
  return <>{text}</>;
}

/**
 * Highlights the way of the picked chunks, the two ranks at its ends, and the rank whose copy is
 * picked. The highlight is drawn under the marks.
 */
export function EdgeHighlight({ layout, player }: Props) {
  const lit = useHighlightOfPickedChunk(player, layout.places.length);
  if (lit === null) return null;
  const { from, to, rank } = lit;
  const halo = (one: number, name: string) => {
    const { x, y, mark } = layout.places[one]!;
    return <circle key={name} cx={x} cy={y} r={mark * 1.58} class={`light ${name}`} />;
  };
  return (
    <g aria-hidden="true">
      <path d={svgPathOfWay(wayBetweenRanks(layout, from, to))} class="edge lit" />
      {rank !== null && rank !== from && rank !== to && halo(rank, 'at')}
      {halo(from, 'from')}
      {halo(to, 'to')}
    </g>
  );
}
