/**
 * The chunks on their way: a capsule with the chunk's letter and one slot per rank, filled for each rank whose numbers
 * are in its sum. One capsule per sending rank, moved by hand on every frame.
 */
import { effect, type ReadonlySignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { identityOf } from '../rankIdentity.ts';
import { chunkName, includes, type Frame } from './frameAt.ts';
import { angleAlong, pointAt, type RingLayout } from './geometry.ts';

interface Props {
  layout: RingLayout;
  n: number;
  frame: ReadonlySignal<Frame | null>;
  textSize: number;
}

/** Beyond this many ranks the slots of single ranks are too thin to see: a bar shows how many are in. */
export const MOST_SLOTS = 16;

function capsule(n: number, textSize: number) {
  const slot = n <= 4 ? 8 : n <= 6 ? 6 : n <= 8 ? 5 : 3;
  const slots = n <= MOST_SLOTS ? slot * n : 24;
  const letter = n <= MOST_SLOTS ? textSize * 1.25 : 0;
  const height = n <= MOST_SLOTS ? textSize * 1.55 : 8;
  return { slot, slots, letter, height, width: slots + letter + (n <= MOST_SLOTS ? 6 : 2) };
}

export function Chunks({ layout, n, frame, textSize }: Props) {
  const group = useRef<SVGGElement>(null);
  const shape = capsule(n, textSize);
  const clearance = n <= MOST_SLOTS ? shape.height * 0.75 : 2;
  useEffect(() => {
    const capsules = [...(group.current?.children ?? [])].filter((one) => one instanceof SVGGElement);
    let drawn = -1;
    return effect(() => {
      const now = frame.value;
      const flights = now?.flights ?? [];
      const fresh = now !== null && flights.length > 0 && drawn !== now.completed;
      drawn = now !== null && flights.length > 0 ? now.completed : -1;
      capsules.forEach((capsuleElement, rank) => {
        const flight = flights[rank];
        if (flight === undefined) {
          capsuleElement.setAttribute('visibility', 'hidden');
          return;
        }
        if (fresh)
          fill(
            capsuleElement,
            chunkName(flight.chunk),
            (slot) => includes(flight.parts, n, slot),
            flight.parts.count / n,
          );
        const { x, y } = pointAt(layout, angleAlong(layout, n, rank, flight.progress, clearance));
        capsuleElement.setAttribute('transform', `translate(${x.toFixed(1)},${y.toFixed(1)})`);
        capsuleElement.setAttribute('visibility', 'visible');
      });
    });
  }, [layout, n, frame, clearance]);
  const left = -shape.width / 2;
  const slotsAt = left + shape.letter + 2;
  return (
    <g ref={group} aria-hidden="true">
      {Array.from({ length: n }, (_, rank) => (
        <g key={rank} class="chunk" visibility="hidden">
          <rect
            x={left}
            y={-shape.height / 2}
            width={shape.width}
            height={shape.height}
            rx={n <= MOST_SLOTS ? 4 : 2}
            class="chunk-paper"
          />
          {n <= MOST_SLOTS ? (
            <>
              <text x={left + 2 + shape.letter / 2} y={textSize * 0.36} text-anchor="middle" class="chunk-name" />
              <rect x={slotsAt} y={-shape.height / 2 + 4} width={shape.slots} height={shape.height - 8} class="slots" />
              {Array.from({ length: n }, (__, slot) => (
                <Slot
                  key={slot}
                  rank={slot}
                  x={slotsAt + slot * shape.slot}
                  y={-shape.height / 2 + 4}
                  width={shape.slot}
                  height={shape.height - 8}
                />
              ))}
            </>
          ) : (
            <rect x={left + 1} y={-shape.height / 2 + 1} width={shape.slots} height={shape.height - 2} class="bar" />
          )}
        </g>
      ))}
    </g>
  );
}

function Slot({ rank, x, y, width, height }: { rank: number; x: number; y: number; width: number; height: number }) {
  const { colour, outlined } = identityOf(rank);
  return (
    <rect
      x={x + 0.5}
      y={outlined ? y + height / 4 : y}
      width={width - 1}
      height={outlined ? height / 2 : height}
      class="slot"
      style={{ fill: `var(--rank-${colour})` }}
    />
  );
}

function fill(capsuleElement: Element, name: string, isIn: (rank: number) => boolean, share: number): void {
  const letter = capsuleElement.querySelector('.chunk-name');
  if (letter !== null) letter.textContent = name;
  capsuleElement
    .querySelectorAll('.slot')
    .forEach((slot, rank) => slot.setAttribute('opacity', isIn(rank) ? '1' : '0'));
  const bar = capsuleElement.querySelector<SVGRectElement>('.bar');
  if (bar !== null) bar.style.transform = `scaleX(${share})`;
}
