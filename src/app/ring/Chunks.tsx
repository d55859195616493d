/**
 * Draws the chunks that travel on the ring. With enough room, a chunk is a capsule with its letter,
 * its numbers if they are known, and one slot for each rank. A slot is filled if the numbers of its
 * rank are in the sum. With less room, a chunk is a bar that fills up, and with even less room a
 * dot. There is one element for each sending rank. It is moved on every frame without rendering.
 */
import { effect } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { chunkName, includes, type Flight } from './frameAt.ts';
import { angleAlong, capsuleFor, pointAt, type RingLayout } from './geometry.ts';
import { currentValues, extentOf, formatValue, type Numbers } from './numbers.ts';
import type { Player } from './player/player.ts';

interface Props {
  layout: RingLayout;
  n: number;
  player: Player;
  textSize: number;
}

export function Chunks({ layout, n, player, textSize }: Props) {
  const group = useRef<SVGGElement>(null);
  const numbers = player.stage.value?.numbers;
  const letters = useMemo(() => (numbers === undefined ? 0 : extentOf(numbers).letters), [numbers]);
  const capsule = useMemo(() => capsuleFor(layout, n, textSize, letters), [layout, n, textSize, letters]);
  useEffect(() => {
    const elements = [...(group.current?.children ?? [])];
    const half = { width: capsule.width / 2, height: capsule.height / 2 };
    let filled = '';
    return effect(() => {
      const now = player.frame.value;
      const flights = now?.flights ?? [];
      const picked = player.picked.value?.chunk;
      const content = flights.length === 0 ? '' : `${now!.completed} ${picked}`;
      elements.forEach((element, rank) => {
        const flight = flights[rank];
        element.setAttribute('visibility', flight === undefined ? 'hidden' : 'visible');
        if (flight === undefined) return;
        if (content !== filled) {
          fill(element, flight, n, numbers);
          element.setAttribute('class', picked === undefined ? '' : flight.chunk === picked ? 'lit' : 'pale');
        }
        const { x, y } = pointAt(layout, angleAlong(layout, n, rank, flight.progress, half));
        element.setAttribute('transform', `translate(${x.toFixed(1)},${y.toFixed(1)})`);
      });
      filled = content;
    });
  }, [layout, capsule, n, player, numbers]);
  const { width, height, letter, figure, slots } = capsule;
  const left = -width / 2;
  const slot = slots.width / n;
  const baseline = (figure > 0 ? (slots.y - height / 2) / 2 : 0) + textSize * 0.36;
  return (
    <g ref={group} class="chunks" aria-hidden="true">
      {Array.from({ length: n }, (_, rank) => (
        <g key={rank} visibility="hidden">
          {capsule.kind === 'dot' ? (
            <circle r={width / 2} class="dot" />
          ) : (
            <rect
              x={left}
              y={-height / 2}
              width={width}
              height={height}
              rx={capsule.kind === 'bar' ? 2 : 4}
              class="chunk-paper"
            />
          )}
          {capsule.kind === 'bar' && (
            <rect x={left + 1} y={1 - height / 2} width={width - 2} height={height - 2} class="bar" />
          )}
          {capsule.kind === 'slots' && (
            <>
              <text
                x={left + 2 + letter / 2}
                y={baseline}
                text-anchor="middle"
                class={figure > 0 ? 'chunk-name aside' : 'chunk-name'}
              />
              {figure > 0 && (
                <text x={left + letter + figure / 2 - 2} y={baseline} text-anchor="middle" class="chunk-values" />
              )}
              <rect {...slots} class="slots" />
              {Array.from({ length: n }, (__, one) => (
                <rect
                  key={one}
                  x={slots.x + one * slot + 0.5}
                  y={slots.y}
                  width={slot - 1}
                  height={slots.height}
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

/** Updates the content of a capsule, once in each ring step. */
function fill(element: Element, { chunk, parts }: Flight, n: number, numbers: Numbers | undefined): void {
  const letter = element.querySelector('.chunk-name');
  if (letter !== null) letter.textContent = chunkName(chunk);
  const values = element.querySelector('.chunk-values');
  if (values !== null && numbers !== undefined) {
    values.textContent = currentValues(parts, numbers, chunk).map(formatValue).join(', ');
  }
  element.querySelectorAll('.slot').forEach((slot, rank) => {
    slot.setAttribute('opacity', includes(parts, n, rank) ? '1' : '0');
  });
  const bar = element.querySelector<SVGElement>('.bar');
  if (bar !== null) bar.style.transform = `scaleX(${parts.count / n})`;
}
