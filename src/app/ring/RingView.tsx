/**
 * Draws the ring: ranks on a circle, and the chunks between them. The circle is rendered when the
 * members change. The chunks move without rendering.
 */
import { useMemo, useRef } from 'preact/hooks';
import { useSize } from '../components/useSize.ts';
import { identityOf, shapePath } from '../components/rankIdentity.ts';
import { smallText } from '../browser/theme.ts';
import { Chunks } from './Chunks.tsx';
import { EdgeKeys, EdgeLight } from './EdgeKeys.tsx';
import {
  angleAlong,
  angleOf,
  arcPath,
  capsuleFor,
  layoutRing,
  MOST_INSIDE,
  pointAt,
  type RingLayout,
} from './geometry.ts';
import type { Player } from './player/player.ts';

export interface RingMember {
  /** The name of the member; `null` for a free place. */
  name: string | null;
  /** Whether the mark is pale, because the member is not ready. */
  pale?: boolean;
}

export interface RingEdge {
  /** Whether the link is connected. Otherwise its edge is dashed. */
  up: boolean;
  label: string;
}

interface Props {
  members: readonly RingMember[];
  you: number | null;
  /**
   * The links to draw: from each rank to its right neighbour, between rank 0 and each other rank,
   * or none.
   */
  lines?: 'ring' | 'star' | 'none';
  /** The edges of the ring. Edge i leads from rank i to its right neighbour. */
  edges?: readonly RingEdge[];
  /** The player that moves the chunks; `null` if no chunks travel. */
  player: Player | null;
  centre: { top: string; title: string; bottom: string };
  /** Description for screen readers. */
  label: string;
}

export function RingView({ members, you, lines = 'ring', edges, player, centre, label }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const { width, height } = useSize(box);
  const n = members.length;
  const textSize = smallText.value;
  const named = members.some((one) => one.name !== null && one.name !== '');
  // The layout object is reused until the layout changes. With a new object, the effect that moves
  // the chunks would start again.
  const layout = useMemo(() => layoutRing(width, height, n, textSize, named), [width, height, n, textSize, named]);
  return (
    <div class={lines === 'star' ? 'ring star' : 'ring'} ref={box}>
      {width > 0 && (
        <svg width={width} height={height} role="img" aria-label={label}>
          {n === 1 || lines === 'none' ? (
            <circle
              cx={layout.cx}
              cy={layout.cy}
              r={layout.radius || Math.min(width, height) * 0.36}
              class="edge ghost"
            />
          ) : (
            <g aria-hidden="true">
              {members.map((_, rank) =>
                lines === 'ring' ? (
                  <Edge key={rank} layout={layout} n={n} rank={rank} edge={edges?.[rank]} textSize={textSize} />
                ) : (
                  rank > 0 && <Spoke key={rank} layout={layout} n={n} rank={rank} />
                ),
              )}
            </g>
          )}
          <Centre layout={layout} n={n} centre={centre} textSize={textSize} />
          {player !== null && n > 1 && <EdgeLight layout={layout} n={n} player={player} />}
          {members.map((member, rank) => (
            <Mark key={rank} layout={layout} n={n} rank={rank} member={member} you={rank === you} textSize={textSize} />
          ))}
          {player !== null && n > 1 && <Chunks layout={layout} n={n} player={player} textSize={textSize} />}
        </svg>
      )}
      {player !== null && n > 1 && lines === 'ring' && <EdgeKeys layout={layout} n={n} player={player} />}
    </div>
  );
}

/**
 * Half the width and the height of an invisible box at each end of an edge, pixels. The box keeps
 * the edge apart from the mark.
 */
const EDGE = { width: 2, height: 2 };

interface PlaceProps {
  layout: RingLayout;
  n: number;
  rank: number;
  textSize: number;
}

function Edge({ layout, n, rank, edge, textSize }: PlaceProps & { edge: RingEdge | undefined }) {
  const from = angleAlong(layout, n, rank, 0, EDGE);
  const to = angleAlong(layout, n, rank, 1, EDGE);
  const middle = (from + to) / 2;
  const label = n <= 6 && layout.named ? (edge?.label ?? '') : '';
  // The label is on the outer side of the ring, outside the chunks on the edge.
  const { width, height } = capsuleFor(layout, n, textSize, 0);
  const reach = (width * Math.abs(Math.cos(middle)) + height * Math.abs(Math.sin(middle))) / 2;
  const at = pointAt(layout, middle, layout.radius + reach + textSize * 0.6);
  return (
    <>
      <path d={arcPath(layout, from, to)} class={edge?.up === false ? 'edge down' : 'edge'} />
      {n <= 16 && <path d="M-3.5,-4.5L3,0L-3.5,4.5" class="chevron" transform={chevronAt(layout, middle)} />}
      {label !== '' && (
        <text x={at.x} y={at.y + textSize * 0.35} class="edge-label" text-anchor={anchorFor(middle, 0.3)}>
          {label}
        </text>
      )}
    </>
  );
}

/** A line between rank 0 and another rank, for both directions. */
function Spoke({ layout, n, rank }: Pick<PlaceProps, 'layout' | 'n' | 'rank'>) {
  const from = pointAt(layout, angleOf(0, n));
  const to = pointAt(layout, angleOf(rank, n));
  const gap = (layout.mark * 1.45) / Math.hypot(to.x - from.x, to.y - from.y);
  const between = (share: number): string =>
    `${(from.x + (to.x - from.x) * share).toFixed(1)},${(from.y + (to.y - from.y) * share).toFixed(1)}`;
  return <path d={`M${between(gap)}L${between(1 - gap)}`} class="edge" />;
}

function chevronAt(layout: RingLayout, angle: number): string {
  const { x, y } = pointAt(layout, angle);
  return `translate(${x.toFixed(1)},${y.toFixed(1)}) rotate(${((angle * 180) / Math.PI + 90).toFixed(1)})`;
}

/** The largest number of letters of a name next to a mark. Longer names are cut. */
const NAME_LETTERS = 14;

function Mark({ layout, n, rank, member, you, textSize }: PlaceProps & { member: RingMember; you: boolean }) {
  const angle = angleOf(rank, n);
  const { x, y } = pointAt(layout, angle);
  const { shape, colour, outlined } = identityOf(rank);
  const numberInside = n <= MOST_INSIDE;
  const gap = layout.mark * 1.4 + (numberInside ? 6 : 2);
  const anchor = anchorFor(angle, 0.25);
  const beside = pointAt(layout, angle, layout.radius + gap);
  const above = Math.sin(angle) < -0.9;
  const below = Math.sin(angle) > 0.9;
  const baseline = beside.y + (above ? -2 : below ? textSize : textSize * 0.35);
  const numbered = !numberInside && (n <= 32 || rank % 4 === 0);
  const classes = [
    'mark-on-ring',
    outlined ? 'outlined' : '',
    member.name === null ? 'empty' : '',
    member.pale === true ? 'pale' : '',
  ];
  const name = member.name ?? '';
  return (
    <g class={classes.join(' ')} style={{ '--own': `var(--rank-${colour})`, '--on-own': `var(--on-rank-${colour})` }}>
      {you && <circle cx={x} cy={y} r={layout.mark * 1.42} class="you" />}
      <path
        d={shapePath(shape, layout.mark)}
        transform={`translate(${x.toFixed(1)},${y.toFixed(1)})`}
        class="rank-shape"
      />
      {numberInside && (
        <text x={x} y={y + textSize * 0.36} text-anchor="middle" class="mark-number">
          {rank}
        </text>
      )}
      {numbered && (
        <text x={beside.x} y={baseline} text-anchor={anchor} class="mark-name">
          {rank}
        </text>
      )}
      {layout.named && name !== '' && (
        <text x={beside.x} y={baseline} text-anchor={anchor} class={you ? 'mark-name strong' : 'mark-name'}>
          {name.length > NAME_LETTERS ? `${name.slice(0, NAME_LETTERS - 1)}…` : name}
        </text>
      )}
    </g>
  );
}

/** Width of a letter of the title, relative to the size of small text. */
const LETTER = 0.95;

function Centre({ layout, n, centre, textSize }: Omit<PlaceProps, 'rank'> & { centre: Props['centre'] }) {
  const { cx } = layout;
  // A long title must not overlap the marks on both sides.
  const width = centre.title.length * LETTER * textSize;
  const isLong = n > 1 && width > 2 * (layout.radius - 1.5 * layout.mark);
  // A single rank is in the centre, so the text is below it.
  const cy = n === 1 ? layout.cy + layout.mark * 1.4 + textSize * 1.6 : layout.cy;
  return (
    <g text-anchor="middle">
      <text x={cx} y={cy - textSize * 1.5} class="centre-side">
        {centre.top}
      </text>
      <text x={cx} y={cy + textSize * 0.45} class={isLong ? 'centre-title long' : 'centre-title'}>
        {centre.title}
      </text>
      <text x={cx} y={cy + textSize * 2.2} class="centre-side">
        {centre.bottom}
      </text>
    </g>
  );
}

function anchorFor(angle: number, slack: number): 'start' | 'middle' | 'end' {
  const cosine = Math.cos(angle);
  return cosine > slack ? 'start' : cosine < -slack ? 'end' : 'middle';
}
