/**
 * The chunks on their way. Where there is room, a chunk is a capsule with its letter and one slot per rank, filled for
 * each rank whose numbers are in its sum; in a crowd it is a bar that fills, and in a throng a dot. One per sending
 * rank, moved by hand on every frame.
 */
import { effect } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { chunkName, includes, type Flight } from './frameAt.ts';
import { angleAlong, capsuleFor, pointAt, type RingLayout } from './geometry.ts';
import type { Player } from './player.ts';

interface Props {
  layout: RingLayout;
  n: number;
  player: Player;
  textSize: number;
}

export function Chunks({ layout, n, player, textSize }: Props) {
  const { frame } = player;
  const group = useRef<SVGGElement>(null);
  const capsule = useMemo(() => capsuleFor(layout, n, textSize), [layout, n, textSize]);
  useEffect(() => {
    const elements = [...(group.current?.children ?? [])];
    const half = { width: capsule.width / 2, height: capsule.height / 2 };
    let filled = -1;
    return effect(() => {
      const now = frame.value;
      const flights = now?.flights ?? [];
      const completed = now === null || flights.length === 0 ? -1 : now.completed;
      elements.forEach((element, rank) => {
        const flight = flights[rank];
        element.setAttribute('visibility', flight === undefined ? 'hidden' : 'visible');
        if (flight === undefined) return;
        if (completed !== filled) fill(element, flight, n);
        const { x, y } = pointAt(layout, angleAlong(layout, n, rank, flight.progress, half));
        element.setAttribute('transform', `translate(${x.toFixed(1)},${y.toFixed(1)})`);
      });
      filled = completed;
    });
  }, [layout, capsule, n, frame]);
  const { width, height, letter, slot } = capsule;
  const left = -width / 2;
  const top = -height / 2;
  const slotsAt = left + letter + 2;
  return (
    <g ref={group} aria-hidden="true">
      {Array.from({ length: n }, (_, rank) => (
        <g key={rank} visibility="hidden">
          {capsule.kind === 'dot' ? (
            <circle r={width / 2} class="dot" />
          ) : (
            <rect
              x={left}
              y={top}
              width={width}
              height={height}
              rx={capsule.kind === 'bar' ? 2 : 4}
              class="chunk-paper"
            />
          )}
          {capsule.kind === 'bar' && (
            <rect x={left + 1} y={top + 1} width={width - 2} height={height - 2} class="bar" />
          )}
          {capsule.kind === 'slots' && (
            <>
              <text x={left + 2 + letter / 2} y={textSize * 0.36} text-anchor="middle" class="chunk-name" />
              <rect x={slotsAt} y={top + 4} width={slot * n} height={height - 8} class="slots" />
              {Array.from({ length: n }, (__, one) => (
                <rect
                  key={one}
                  x={slotsAt + one * slot + 0.5}
                  y={top + 4}
                  width={slot - 1}
                  height={height - 8}
                  class="slot"
                  style={{ fill: `var(--rank-${one})` }}
                />
              ))}
            </>
          )}
        </g>
      ))}
    </g>
  );
}

/** Once a ring step: what is in the chunk that this capsule stands for now. */
function fill(element: Element, flight: Flight, n: number): void {
  const letter = element.querySelector('.chunk-name');
  if (letter !== null) letter.textContent = chunkName(flight.chunk);
  element.querySelectorAll('.slot').forEach((slot, rank) => {
    slot.setAttribute('opacity', includes(flight.parts, n, rank) ? '1' : '0');
  });
  const bar = element.querySelector<SVGElement>('.bar');
  if (bar !== null) bar.style.transform = `scaleX(${flight.parts.count / n})`;
}
