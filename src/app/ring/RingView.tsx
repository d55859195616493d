/**
 * Draws the picture of an all-reduce: ranks on a circle, or groups of ranks on small circles, and
 * the chunks between them. The ranks are rendered when the members change or a step begins. The
 * chunks move without rendering.
 */
import { useMemo, useRef } from 'preact/hooks';
import { useElementSize } from '../components/useElementSize.ts';
import { RankMark } from '../components/RankMark.tsx';
import { rankIdentityOf, rankShapePath } from '../components/rankIdentity.ts';
import { smallTextPixels } from '../browser/theme.ts';
import { TravellingChunks } from './TravellingChunks.tsx';
import { EdgePicker, EdgeHighlight } from './EdgePicker.tsx';
import { textAnchorFor, RingEdges, type RingEdge } from './RingEdges.tsx';
import { layoutRing, type RingRankPosition, type RingLayout, type RingShapeName } from './geometry.ts';
import type { RingPlayer } from './player/player.ts';
import { usePlayedPlan } from './player/usePlayedPlan.ts';

export interface RingMember {
  /** The name of the member; `null` for a free place. */
  name: string | null;
  /** Whether the mark is pale, because the member is not ready. */
  pale?: boolean;
}

interface Props {
  members: readonly RingMember[];
  you: number | null;
  /** The shape to draw (default: a ring). */
  shape?: RingShapeName;
  /** The rank that is emphasized if there are many ranks (default: `you`). */
  focus?: number | null;
  /** The edges of the ring. Edge i leads from rank i to its right neighbour. */
  edges?: readonly RingEdge[];
  /** The player that moves the chunks; `null` if no chunks travel. */
  player: RingPlayer | null;
  centre: { top: string; title: string; bottom: string };
  /** Description for screen readers. */
  label: string;
}

export function RingView({ members, you, shape = 'ring', focus = you, edges, player, centre, label }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const { width, height } = useElementSize(box);
  const n = members.length;
  const textSize = smallTextPixels.value;
  const named = members.some((one) => one.name !== null && one.name !== '');
  // In a lesson for one person, no other rank has a name, so no list of names is shown.
  const hasNames = members.filter(({ name }) => name !== null && name !== '').length > 1;
  // The layout object is reused until the layout changes. With a new object, the effect that moves
  // the chunks would start again.
  const served =
    shape === 'ring' && edges ? edges.flatMap(({ isServed }, rank) => (isServed === true ? [rank] : [])) : [];
  const layout = useMemo(
    () => layoutRing({ width, height, n, textSize, named, shape, focus, served: new Set(served) }),
    [width, height, n, textSize, named, shape, focus, served.join()],
  );
  /**
   * The plan in the player. Until the first trace of this picture arrives, it may be the plan of
   * another picture.
   */
  const plan = usePlayedPlan(player);
  const moving = plan?.n === n && plan.algorithm === shape && n > 1 ? player : null;
  const isPlain = n === 1 || shape === 'none';
  const isCrossed = !isPlain && shape !== 'ring';
  // Chunks travel through the centre, so the title is above the picture.
  const isTitled = (isCrossed && shape !== 'star') || served.length > 0;
  return (
    <>
      <div class={`ring${isCrossed ? ' crossed' : ''}${isTitled ? ' titled' : ''}`} data-picture={shape}>
        {isTitled && (
          <p class="ring-title small dim" aria-hidden="true">
            {centre.top} <strong>{centre.title}</strong> {centre.bottom}
          </p>
        )}
        <div class="ring-picture" ref={box}>
          {width > 0 && (
            <svg width={width} height={height} role="img" aria-label={label}>
              {isPlain ? (
                <circle
                  cx={layout.x}
                  cy={layout.y}
                  r={layout.radius || Math.min(width, height) * 0.36}
                  class="edge ghost"
                />
              ) : (
                <g aria-hidden="true">
                  <RingEdges layout={layout} edges={edges} player={player} textSize={textSize} focus={focus} />
                </g>
              )}
              {!isTitled && <Centre layout={layout} n={n} centre={centre} textSize={textSize} />}
              {moving !== null && <EdgeHighlight layout={layout} player={moving} />}
              {members.map((member, rank) => (
                <Mark
                  key={rank}
                  layout={layout}
                  place={layout.places[rank]!}
                  rank={rank}
                  member={member}
                  you={rank === you}
                  textSize={textSize}
                />
              ))}
              {moving !== null && (
                <TravellingChunks layout={layout} player={moving} textSize={textSize} focus={focus} />
              )}
            </svg>
          )}
          {moving !== null && <EdgePicker layout={layout} player={moving} />}
        </div>
      </div>
      {width > 0 && hasNames && !layout.named && <RingNames members={members} you={you} />}
    </>
  );
}

/**
 * The names of all ranks, if the picture has no room for them. They are hidden from screen readers,
 * which read them in the label of the picture.
 */
function RingNames({ members, you }: Pick<Props, 'members' | 'you'>) {
  return (
    <ul class="ring-names plain small" aria-hidden="true">
      {members.map(({ name, pale }, rank) => (
        <li key={rank} class={pale === true || name === null ? 'pale' : ''} title={name ?? undefined}>
          <RankMark rank={rank} /> <span class={rank === you ? 'ellipsis strong' : 'ellipsis'}>{name}</span>
        </li>
      ))}
    </ul>
  );
}

/** The largest number of letters of a name next to a mark. Longer names are cut. */
const NAME_LETTERS = 14;

interface MarkProps {
  layout: RingLayout;
  place: RingRankPosition;
  rank: number;
  member: RingMember;
  you: boolean;
  textSize: number;
}

function Mark({ layout, place, rank, member, you, textSize }: MarkProps) {
  const { x, y, angle, mark, number } = place;
  const { shape, colour, outlined } = rankIdentityOf(rank);
  const gap = mark * 1.4 + (number === 'inside' ? 6 : 2);
  const anchor = textAnchorFor(angle, 0.25);
  const beside = { x: x + gap * Math.cos(angle), y: y + gap * Math.sin(angle) };
  const above = Math.sin(angle) < -0.9;
  const below = Math.sin(angle) > 0.9;
  const baseline = beside.y + (above ? -2 : below ? textSize : textSize * 0.35);
  const classes = [
    'mark-on-ring',
    outlined ? 'outlined' : '',
    member.name === null ? 'empty' : '',
    member.pale === true ? 'pale' : '',
  ];
  const full = member.name ?? '';
  const name = full.length > NAME_LETTERS ? `${full.slice(0, NAME_LETTERS - 1)}…` : full;
  return (
    <g class={classes.join(' ')} style={{ '--own': `var(--rank-${colour})`, '--on-own': `var(--on-rank-${colour})` }}>
      {you && <circle cx={x} cy={y} r={mark * 1.42} class="you" />}
      <path
        d={rankShapePath(shape, mark)}
        transform={`translate(${x.toFixed(1)},${y.toFixed(1)})`}
        class="rank-shape"
      />
      {number === 'inside' && (
        <text x={x} y={y + textSize * 0.36} text-anchor="middle" class="mark-number">
          {rank}
        </text>
      )}
      {number === 'beside' && (
        <text x={beside.x} y={baseline} text-anchor={anchor} class={you ? 'mark-name strong' : 'mark-name'}>
          {rank}
        </text>
      )}
      {layout.named && name !== '' && (
        <text x={beside.x} y={baseline} text-anchor={anchor} class={you ? 'mark-name strong' : 'mark-name'}>
          {name}
        </text>
      )}
    </g>
  );
}

/** Width of a letter in a short title, relative to the size of small text. */
const LETTER = 0.95;
/** Width of a letter in a long title, which has smaller letters. */
const SMALL_LETTER = 0.62;

interface CentreProps {
  layout: RingLayout;
  n: number;
  centre: Props['centre'];
  textSize: number;
}

function Centre({ layout, n, centre, textSize }: CentreProps) {
  const { x, places, groups } = layout;
  const mark = Math.max(...places.map((place) => place.mark));
  const free = groups.length === 0 ? layout.radius - 1.5 * mark : layout.radius - groups[0]!.radius;
  // A long title must not overlap the marks on both sides.
  const isLong = n > 1 && centre.title.length * LETTER * textSize > 2 * free;
  const lines =
    isLong && centre.title.length * SMALL_LETTER * textSize > 2 * free ? halves(centre.title) : [centre.title];
  // A single rank is in the centre, so the text is below it.
  const y = n === 1 ? layout.y + mark * 1.4 + textSize * 1.6 : layout.y;
  const below = (lines.length - 1) * textSize * 1.25;
  return (
    <g text-anchor="middle">
      <text x={x} y={y - textSize * 1.5} class="centre-side">
        {centre.top}
      </text>
      {lines.map((line, i) => (
        <text
          key={i}
          x={x}
          y={y + textSize * (0.45 + i * 1.25) - below / 2}
          class={isLong ? 'centre-title long' : 'centre-title'}
        >
          {line}
        </text>
      ))}
      <text x={x} y={y + textSize * 2.2 + below / 2} class="centre-side">
        {centre.bottom}
      </text>
    </g>
  );
}

/** Returns a title as two lines of similar length. A title without spaces stays one line. */
function halves(title: string): string[] {
  const words = title.split(' ');
  const lengthOf = (count: number): number => words.slice(0, count).join(' ').length;
  const cuts = words.map((_, i) => i).slice(1);
  const cut = cuts.sort(
    (a, b) => Math.abs(lengthOf(a) - title.length / 2) - Math.abs(lengthOf(b) - title.length / 2),
  )[0];
  return cut === undefined ? [title] : [words.slice(0, cut).join(' '), words.slice(cut).join(' ')];
}
