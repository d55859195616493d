/**
 * Draws the chunks that travel between ranks. With enough room, chunks are drawn as a capsule:
 * their name, their numbers if known, and one slot for each rank. A slot is filled if the numbers
 * of its rank are in the sum. With less room, chunks are drawn as a bar that fills up, and with
 * even less room as a dot. They are rendered once in each step, and moved without rendering on
 * every frame.
 */
import { effect, useComputed } from '@preact/signals';
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { rankIdentityOf } from '../components/rankIdentity.ts';
import { chunkCapsuleFor, type ChunkCapsule } from './capsule.ts';
import { chunkName, type ChunkFlight, type RingFrame, type SummedRanks } from './frameAt.ts';
import { boxCentreOnWay, directWayBetweenRanks, wayBetweenRanks, type RingLayout, type ChunkWay } from './geometry.ts';
import { transferOfPickedChunk } from './narrate.ts';
import { currentChunkValues, rankVectorsExtentOf, formatCellValue, type RankVectors } from './numbers.ts';
import type { RingPlayer } from './player/player.ts';

interface Props {
  layout: RingLayout;
  player: RingPlayer;
  textSize: number;
  /** The rank in focus. Its chunks have names even if there are many ranks. */
  focus: number | null;
}

/** With more ranks than this, only chunks of the rank in focus have names. */
const MOST_NAMED = 12;
/** With fewer pixels per rank than this, chunks of other ranks are dots. */
const LEAST_SPACE = 14;
/** The room for a chunk if the picture is not a ring, as a share of the picture's size. */
const PAIR_ROOM = 0.25;

export function TravellingChunks({ layout, player, textSize, focus }: Props) {
  const group = useRef<SVGGElement>(null);
  const n = layout.places.length;
  const numbers = player.round.value?.numbers;
  const letters = useMemo(() => (numbers === undefined ? 0 : rankVectorsExtentOf(numbers).letters), [numbers]);
  /** Changes when a step begins or ends, or when another chunk is picked. */
  const shown = useComputed(() => {
    const frame = player.frame.value;
    const picked = player.picked.value;
    if (frame === null || frame.flights.length === 0) return '';
    return `${frame.plan.algorithm} ${frame.plan.n} ${frame.completed} ${picked?.chunk} ${picked?.rank} ${picked?.sender}`;
  }).value;
  const drawn = useMemo(() => {
    const frame = player.frame.peek();
    return shown === '' || frame?.plan.n !== n ? [] : drawnIn(frame, layout, { textSize, letters, focus });
  }, [shown, player, n, layout, textSize, letters, focus]);
  useLayoutEffect(() => {
    const elements = [...(group.current?.children ?? [])];
    return effect(() => {
      const flights = player.frame.value?.flights ?? [];
      elements.forEach((element, i) => {
        const { place, way, capsule } = drawn[i]!;
        const flight = flights[place];
        element.setAttribute('visibility', flight === undefined ? 'hidden' : 'visible');
        if (flight === undefined) return;
        const { x, y } = boxCentreOnWay(way, flight.progress, { width: capsule.width / 2, height: capsule.height / 2 });
        element.setAttribute('transform', `translate(${x.toFixed(1)},${y.toFixed(1)})`);
      });
    });
  }, [drawn, player]);
  const frame = player.frame.peek();
  const picked = player.picked.peek();
  const lit = frame === null || picked === null || drawn.length === 0 ? null : transferOfPickedChunk(frame, picked);
  return (
    <g ref={group} class="chunks" aria-hidden="true">
      {drawn.map(({ flight, capsule, name }) => (
        <g key={flight.from} class={picked === null ? '' : flight.from === lit?.from ? 'lit' : 'pale'}>
          <ChunkShape
            capsule={capsule}
            name={name}
            parts={flight.parts}
            n={n}
            textSize={textSize}
            values={numbers === undefined ? '' : valuesText(flight, numbers)}
          />
        </g>
      ))}
    </g>
  );
}

interface Drawn {
  flight: ChunkFlight;
  /** Index of the flight in the frame. */
  place: number;
  way: ChunkWay;
  capsule: ChunkCapsule;
  name: string;
}

/** Returns the travelling chunks, small ones first, so that large ones are drawn on top. */
function drawnIn(
  { plan, flights }: RingFrame,
  layout: RingLayout,
  { textSize, letters, focus }: { textSize: number; letters: number; focus: number | null },
): Drawn[] {
  // Except on a ring, ways between ranks cross, so each chunk must leave room for other chunks.
  const room = layout.shape === 'ring' ? Infinity : Math.min(layout.width, layout.height) * PAIR_ROOM;
  const isCrowded = Math.min(layout.width, layout.height) < plan.n * LEAST_SPACE;
  const all = flights.map((flight, place): Drawn => {
    const { from, to, first, count } = flight;
    const way = wayBetweenRanks(layout, from, to);
    const last = chunkName(first + count - 1);
    const name = count === 1 ? chunkName(first) : `${chunkName(first)}–${last}`;
    const isOnRing = layout.shape === 'ring';
    const isOwn = isOnRing || plan.n <= MOST_NAMED || from === focus || to === focus;
    const most = isOwn ? 'name' : isCrowded ? 'dot' : 'bar';
    // Ways to the server are close to each other, so chunks on them are as small as on the ring.
    const capsule = chunkCapsuleFor(directWayBetweenRanks(layout, from, to), {
      n: plan.n,
      textSize,
      letters,
      name,
      most,
      room,
    });
    return { flight, place, way, name, capsule };
  });
  return all.toSorted((a, b) => a.capsule.width - b.capsule.width);
}

function valuesText({ parts, first }: ChunkFlight, numbers: RankVectors): string {
  return currentChunkValues(parts, numbers, first).map(formatCellValue).join(', ');
}

interface ShapeProps {
  capsule: ChunkCapsule;
  name: string;
  parts: SummedRanks;
  n: number;
  textSize: number;
  /** The numbers of the chunk, as text. */
  values: string;
}

function ChunkShape({ capsule, name, parts, n, textSize, values }: ShapeProps) {
  const { kind, width, height, letter, figure, slots } = capsule;
  if (kind === 'dot') return <circle r={width / 2} class="dot" />;
  const left = -width / 2;
  const slot = slots.width / n;
  const baseline = (figure > 0 ? (slots.y - height / 2) / 2 : 0) + textSize * 0.36;
  const bar = kind === 'bar' ? { x: left + 1, y: 1 - height / 2, width: width - 2, height: height - 2 } : slots;
  return (
    <>
      <rect x={left} y={-height / 2} width={width} height={height} rx={kind === 'bar' ? 2 : 4} class="chunk-paper" />
      {kind !== 'bar' && (
        <text
          x={left + 2 + letter / 2}
          y={baseline}
          text-anchor="middle"
          class={figure > 0 ? 'chunk-name aside' : 'chunk-name'}
        >
          {name}
        </text>
      )}
      {figure > 0 && (
        <text x={left + letter + figure / 2 - 2} y={baseline} text-anchor="middle" class="chunk-values">
          {values}
        </text>
      )}
      {(kind === 'slots' || kind === 'tag') && <rect {...slots} class="slots" />}
      {kind === 'slots' &&
        Array.from({ length: n }, (_, one) => (
          <rect
            key={one}
            x={slots.x + one * slot + 0.5}
            y={slots.y}
            width={slot - 1}
            height={slots.height}
            class="slot"
            opacity={parts.includes(one) ? 1 : 0}
            style={{ fill: `var(--rank-${rankIdentityOf(one).colour})` }}
          />
        ))}
      {(kind === 'tag' || kind === 'bar') && <rect {...bar} width={(bar.width * parts.length) / n} class="bar" />}
    </>
  );
}
