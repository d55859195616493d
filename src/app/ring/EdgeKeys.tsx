/**
 * Handles the pointer and the keys on the ring. They select an edge, and the chunk that travels on
 * this edge is picked.
 */
import { useComputed, useSignal } from '@preact/signals';
import { useId, useRef } from 'preact/hooks';
import { leftOf, rightOf } from '../../collectives/plans/ringPlan.ts';
import { messages } from '../locales/index.ts';
import { chunkName } from './frameAt.ts';
import { angleAlong, angleOf, arcPath, edgeAt, pointAt, type RingLayout } from './geometry.ts';
import { chunkOnEdge, moveOf, narratePicked } from './narrate.ts';
import type { Player } from './player/player.ts';
import { useHighlight } from './useHighlight.ts';

interface Props {
  layout: RingLayout;
  n: number;
  player: Player;
}

/** An element over the ring. Only its focus outline is visible. */
export function EdgeKeys({ layout, n, player }: Props) {
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  /** The edge selected with the arrow keys or the pointer. */
  const cursor = useSignal(0);
  /** The edge under the pointer. The chunk on this edge is picked while the pointer stays there. */
  const pointed = useRef<number | null>(null);
  const rank = Math.min(n - 1, cursor.value);
  const pick = (edge: number): void => {
    const frame = player.frame.peek();
    cursor.value = edge;
    player.picked.value = frame?.cells.length === n ? { chunk: chunkOnEdge(frame, edge), rank: null } : null;
  };
  const point = (event: PointerEvent): void => {
    const place = box.current!.getBoundingClientRect();
    const edge = edgeAt(layout, n, event.clientX - place.left, event.clientY - place.top);
    if (edge === pointed.current && event.type === 'pointermove') return;
    pointed.current = edge;
    if (edge === null) player.picked.value = null;
    else pick(edge);
  };
  const onkey = (event: KeyboardEvent): void => {
    if (event.key === 'ArrowRight' || event.key === 'ArrowDown') pick(rightOf(rank, n));
    else if (event.key === 'ArrowLeft' || event.key === 'ArrowUp') pick(leftOf(rank, n));
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
      aria-label={messages.value.ring.onEdges}
      aria-activedescendant={`${id}-${rank}`}
      onFocus={() => {
        if (pointed.current === null) pick(cursor.peek());
      }}
      onBlur={() => (player.picked.value = null)}
      onKeyDown={onkey}
      onPointerMove={point}
      onPointerDown={point}
      onPointerLeave={(event) => {
        pointed.current = null;
        // Lifting a finger also causes this event, but then the tapped chunk stays picked.
        if (event.pointerType === 'mouse' && document.activeElement !== box.current) player.picked.value = null;
      }}
    >
      <span key={rank} id={`${id}-${rank}`} class="away" role="option" aria-selected="true">
        <EdgeText n={n} rank={rank} player={player} />
      </span>
    </div>
  );
}

function EdgeText({ n, rank, player }: { n: number; rank: number; player: Player }) {
  const text = useComputed(() => {
    const now = player.frame.value;
    if (now === null || now.cells.length !== n) return '';
    const chunk = player.picked.value?.chunk ?? chunkOnEdge(now, rank);
    const { from, to } = moveOf(now, chunk);
    const narration = narratePicked(now, { chunk, rank: null }, player.stage.value?.numbers);
    return `${messages.value.ring.edge(chunkName(chunk), from, to)}. ${narration}`;
  });
  return <>{text}</>;
}

/**
 * Highlights the edge that the picked chunk travels on, the two ranks at its ends, and the rank
 * whose copy is picked. The highlight is drawn under the marks.
 */
export function EdgeLight({ layout, n, player }: Props) {
  const lit = useHighlight(player, n);
  if (lit === null) return null;
  const { from, to, rank } = lit;
  const line = { width: 2, height: 2 };
  const halo = (one: number, name: string) => {
    const { x, y } = pointAt(layout, angleOf(one, n));
    return <circle key={name} cx={x} cy={y} r={layout.mark * 1.58} class={`light ${name}`} />;
  };
  return (
    <g aria-hidden="true">
      <path
        d={arcPath(layout, angleAlong(layout, n, from, 0, line), angleAlong(layout, n, from, 1, line))}
        class="edge lit"
      />
      {rank !== null && rank !== from && rank !== to && halo(rank, 'at')}
      {halo(from, 'from')}
      {halo(to, 'to')}
    </g>
  );
}
