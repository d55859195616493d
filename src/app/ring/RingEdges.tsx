/** Draws the links between ranks. */
import { useMemo } from 'preact/hooks';
import { twoLevelGroupSize } from '../../spec/algorithms.ts';
import { allReduceSteps } from '../../collectives/plans/planSteps.ts';
import { chunkCapsuleFor, DIGIT_WIDTH_PER_TEXT_SIZE } from './capsule.ts';
import {
  directWayBetweenRanks,
  svgPathOfWay,
  pointAtAngle,
  wayBetweenRanks,
  type RingLayout,
  type ChunkWay,
} from './geometry.ts';
import { ServerShape } from './ServerShape.tsx';
import type { RingPlayer } from './player/player.ts';
import { usePlayedPlan, usePlayedStep } from './player/usePlayedPlan.ts';

export interface RingEdge {
  /** Whether the link is connected. The edge of an unconnected link is dashed. */
  up: boolean;
  label: string;
  /** Whether the link goes through the server. */
  isServed?: boolean;
}

interface Props {
  layout: RingLayout;
  edges: readonly RingEdge[] | undefined;
  player: RingPlayer | null;
  textSize: number;
  focus: number | null;
}

export function RingEdges({ layout, edges, player, textSize, focus }: Props) {
  const n = layout.places.length;
  switch (layout.shape) {
    case 'none':
      return null;
    case 'star':
      return <>{layout.places.map((_, rank) => rank > 0 && <Spoke key={rank} layout={layout} rank={rank} />)}</>;
    case 'ring':
      return (
        <>
          {layout.places.map((_, rank) => (
            <RingSide key={rank} layout={layout} n={n} rank={rank} edge={edges?.[rank]} textSize={textSize} />
          ))}
          {layout.served.size > 0 && <ServerShape x={layout.x} y={layout.y} size={textSize * 2} />}
        </>
      );
    case 'two-level':
    case 'halving-doubling':
    case 'doubling':
      return (
        <>
          {layout.groups.length > 0 && <GroupRings layout={layout} />}
          <StepEdges layout={layout} player={player} focus={focus} />
          {layout.groups.length > 0 && <GroupNames layout={layout} textSize={textSize} />}
        </>
      );
    default:
      return layout.shape satisfies never;
  }
}

/** With more ranks than this, there is no room for arrows on the edges. */
const MOST_ARROWS = 16;

interface SideProps {
  layout: RingLayout;
  n: number;
  rank: number;
  edge: RingEdge | undefined;
  textSize: number;
}

/** The edge of a ring from a rank to its right neighbour. */
function RingSide({ layout, n, rank, edge, textSize }: SideProps) {
  const to = (rank + 1) % n;
  const way = wayBetweenRanks(layout, rank, to);
  const arc = directWayBetweenRanks(layout, rank, to);
  const middle = arc.from.angle + arc.length / layout.radius / 2;
  const label = n <= 6 && layout.named ? (edge?.label ?? '') : '';
  // The label is on the outer side of the ring, outside the chunks on the edge.
  const { width, height } = chunkCapsuleFor(arc, { n, textSize, letters: 0, name: 'A', most: 'name', room: Infinity });
  const reach = (width * Math.abs(Math.cos(middle)) + height * Math.abs(Math.sin(middle))) / 2;
  const at = pointAtAngle(layout, middle, layout.radius + reach + textSize * 0.6);
  const hasArrow = n <= MOST_ARROWS || (layout.near.has(rank) && layout.near.has(to));
  return (
    <>
      <path d={svgPathOfWay(way)} class={edge?.up === false ? 'edge down' : 'edge'} />
      {hasArrow &&
        (layout.served.has(rank) ? [0.27, 0.73] : [0.5]).map((share) => (
          <path key={share} d="M-3.5,-4.5L3,0L-3.5,4.5" class="chevron" transform={chevronAt(way, share)} />
        ))}
      {label !== '' && (
        <text x={at.x} y={at.y + textSize * 0.35} class="edge-label" text-anchor={textAnchorFor(middle, 0.3)}>
          {label}
        </text>
      )}
    </>
  );
}

function chevronAt({ at }: ChunkWay, share: number): string {
  const [before, { x, y }, after] = [at(share - 0.01), at(share), at(share + 0.01)];
  const angle = Math.atan2(after.y - before.y, after.x - before.x);
  return `translate(${x.toFixed(1)},${y.toFixed(1)}) rotate(${((angle * 180) / Math.PI).toFixed(1)})`;
}

/** A line between rank 0 and another rank, for both directions. */
function Spoke({ layout, rank }: { layout: RingLayout; rank: number }) {
  const [from, to] = [layout.places[0]!, layout.places[rank]!];
  const gap = (from.mark * 1.45) / Math.hypot(to.x - from.x, to.y - from.y);
  const between = (share: number): string =>
    `${(from.x + (to.x - from.x) * share).toFixed(1)},${(from.y + (to.y - from.y) * share).toFixed(1)}`;
  return <path d={`M${between(gap)}L${between(1 - gap)}`} class="edge" />;
}

/**
 * All links of the two-level algorithm, drawn pale: one ring in each group, and rings across
 * groups, which connect the ranks at the same position in each group.
 */
function GroupRings({ layout }: { layout: RingLayout }) {
  const n = layout.places.length;
  const size = twoLevelGroupSize(n);
  return (
    <>
      {layout.places.map((_, rank) => {
        const group = rank - (rank % size);
        const within = group + ((rank + 1) % size);
        return (
          <g key={rank}>
            <path d={svgPathOfWay(wayBetweenRanks(layout, rank, within))} class="edge idle" />
            <path d={svgPathOfWay(wayBetweenRanks(layout, rank, (rank + size) % n))} class="edge idle" />
          </g>
        );
      })}
    </>
  );
}

/** The range of ranks in the centre of each group, for marks that are too small for numbers. */
function GroupNames({ layout, textSize }: Pick<Props, 'layout' | 'textSize'>) {
  const size = twoLevelGroupSize(layout.places.length);
  const { number, mark } = layout.places[0]!;
  if (number !== 'none') return null;
  const room = 2 * (layout.groups[0]!.radius - 1.4 * mark);
  return (
    <>
      {layout.groups.map(({ x, y }, group) => (
        <text key={group} x={x} y={y + textSize * 0.35} text-anchor="middle" class="centre-side">
          {nameOf(group * size, (group + 1) * size - 1, room / textSize)}
        </text>
      ))}
    </>
  );
}

/** Returns the ranks of a group as text: `8–15`, or `8…` if there is little room. */
function nameOf(first: number, last: number, room: number): string {
  const name = `${first}–${last}`;
  return name.length * DIGIT_WIDTH_PER_TEXT_SIZE <= room ? name : `${first}…`;
}

/** The transfers of the step that the player shows. They are rendered once in each step. */
function StepEdges({ layout, player, focus }: Pick<Props, 'layout' | 'player' | 'focus'>) {
  const n = layout.places.length;
  const { shape } = layout;
  const first = useMemo(
    () => (shape === 'star' || shape === 'none' ? [] : (allReduceSteps(shape, n).steps[0]?.transfers ?? [])),
    [shape, n],
  );
  const plan = usePlayedPlan(player);
  const step = usePlayedStep(player);
  const isPlaying = plan?.n === n && plan.algorithm === shape;
  const shown = isPlaying && step !== null ? step.transfers : first;
  return (
    <>
      {shown.map(({ from, to }) => (
        <path
          key={from}
          d={svgPathOfWay(wayBetweenRanks(layout, from, to))}
          class={from === focus || to === focus ? 'edge mine' : 'edge'}
        />
      ))}
    </>
  );
}

export function textAnchorFor(angle: number, slack: number): 'start' | 'middle' | 'end' {
  const cosine = Math.cos(angle);
  return cosine > slack ? 'start' : cosine < -slack ? 'end' : 'middle';
}
