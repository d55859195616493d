/**
 * Computes where ranks are drawn, in pixels. On a ring and for pairs, all ranks are on one circle.
 * For the two-level algorithm, groups are on a circle, and each group is a small circle.
 */
import { twoLevelGroupSize, type AllReduceName } from '../../spec/algorithms.ts';

/**
 * The shape to draw: the picture of an algorithm, lines from rank 0 to all others (`star`), or only
 * the ranks (`none`).
 */
export type RingShapeName = AllReduceName | 'star' | 'none';

export interface RingPoint {
  x: number;
  y: number;
}

export interface RingRankPosition extends RingPoint {
  /** The direction from the centre of the rank's circle to the rank, in radians. */
  angle: number;
  /** Radius of the mark. */
  mark: number;
  /** Whether the number of the rank fits inside the mark, or next to it. */
  number: 'inside' | 'beside' | 'none';
}

export interface Circle extends RingPoint {
  radius: number;
}

export interface RingLayout extends Circle {
  shape: RingShapeName;
  width: number;
  height: number;
  places: readonly RingRankPosition[];
  /** The circles of the groups of the two-level algorithm. */
  groups: readonly Circle[];
  /** Whether there is room for names next to all marks, and for labels on the edges. */
  named: boolean;
  /** The ranks that are enlarged: this page's rank and its neighbours, if there are many ranks. */
  near: ReadonlySet<number>;
  /**
   * On a ring, the ranks whose link to their right neighbour goes through the server. These edges
   * pass the server's mark in the centre.
   */
  served: ReadonlySet<number>;
}

export interface RingLayoutOptions {
  width: number;
  height: number;
  n: number;
  textSize: number;
  named: boolean;
  shape: RingShapeName;
  /** The rank to enlarge with its neighbours if there are many; `null` for none. */
  focus: number | null;
  /** See {@link RingLayout.served}; no rank by default. */
  served?: ReadonlySet<number>;
}

/** With more ranks than this on one circle, marks are too small for a number inside. */
const MOST_INSIDE = 16;
/** The number of neighbours on each side of a rank that are enlarged with it. */
const NEAR = 2;
/**
 * The share of the circle for the enlarged ranks, including the gaps to the next ranks on both
 * sides.
 */
const NEAR_SHARE = 0.42;
/** Radius of an enlarged mark at the usual size of letters, pixels. */
const NEAR_MARK = 15;
/**
 * Radius of the mark of the rank in focus, if there are many ranks and none are enlarged, pixels.
 */
const OWN_MARK = 11;
/** Space for a number next to a small mark, pixels. */
const NUMBER_SPACE = 22;

const NO_RANKS: ReadonlySet<number> = new Set();

export function layoutRing(options: RingLayoutOptions): RingLayout {
  return options.shape === 'two-level' && twoLevelGroupSize(options.n) > 1
    ? layoutGroups(options)
    : layoutCircle(options);
}

function layoutCircle({
  width,
  height,
  n,
  textSize,
  named,
  shape,
  focus,
  served = NO_RANKS,
}: RingLayoutOptions): RingLayout {
  const zoom = textSize / 13;
  const hasLens = shape === 'ring' && n > MOST_INSIDE && focus !== null;
  const near = new Set<number>();
  if (hasLens) for (let i = -NEAR; i <= NEAR; i++) near.add((focus + i + n) % n);
  const usual = (n <= 6 ? 20 : n <= 12 ? 16 : n <= 16 ? 12 : n <= 32 ? 6 : 4) * zoom;
  const widest = hasLens ? NEAR_MARK * zoom : usual;
  // Names are above, below or next to their marks. So there must be room for lines of text above
  // and below the ring, and for a word at its sides.
  const radiusWith = (lines: number, letters: number): number =>
    Math.min(height / 2 - widest * 1.4 - textSize * lines, width / 2 - widest * 1.4 - textSize * letters);
  const withNames = radiusWith(2.7, n === 2 ? 3 : 7.5);
  // Names are shown only if they leave room for the centre of the ring. Otherwise only marks and
  // numbers are shown.
  const fits = named && n <= 12 && withNames >= textSize * 7.5;
  // A single rank is in the centre. Numbers are inside large marks, and next to small marks. The
  // halo of a mark needs space too.
  const beside = n <= MOST_INSIDE ? 0.7 : hasLens ? 0.4 : 1.6;
  const radius = n === 1 ? 0 : Math.max(24, fits ? withNames : radiusWith(beside, beside));
  const gaps = hasLens ? lensGaps(n, focus) : Array.from({ length: n }, () => (2 * Math.PI) / n);
  const far = Math.min(...gaps) * radius;
  // Small marks must not touch each other.
  const small = n <= MOST_INSIDE ? usual : Math.max(1.5, Math.min(usual, far * 0.3));
  const large = Math.min(NEAR_MARK * zoom, Math.max(...gaps) * radius * 0.17);
  // Without a lens, only the mark of the rank in focus is larger.
  const own = n <= MOST_INSIDE ? usual : Math.max(small, Math.min(OWN_MARK * zoom, far * 0.42));
  // With a lens, the enlarged ranks are at the top. Without a lens, rank 0 is at the top.
  const angles: number[] = [];
  const top = hasLens ? focus : 0;
  let angle = -Math.PI / 2;
  for (let i = 0; i < n; i++) {
    const rank = (top + i) % n;
    angles[rank] = angle;
    angle += gaps[rank]!;
  }
  const every = Math.max(1, 2 ** Math.ceil(Math.log2((NUMBER_SPACE * zoom) / Math.max(1, far))));
  const [x, y] = [width / 2, height / 2];
  const places = angles.map((at, rank): RingRankPosition => {
    const isNear = near.has(rank);
    const mark = isNear ? large : rank === focus ? own : small;
    const isInside = n <= MOST_INSIDE || mark >= 9 * zoom;
    const number = isInside ? 'inside' : isNear || rank === focus || rank % every === 0 ? 'beside' : 'none';
    return { x: x + radius * Math.cos(at), y: y + radius * Math.sin(at), angle: at, mark, number };
  });
  return { shape, width, height, x, y, radius, places, groups: [], named: fits || (named && n === 1), near, served };
}

/**
 * Returns the angle between each rank and the next one. The ranks near `focus` are further apart
 * than the others.
 */
function lensGaps(n: number, focus: number): number[] {
  // The enlarged ranks have 2 * NEAR large gaps between them, and a gap of half that size on each
  // side.
  const others = n - 2 * NEAR - 2;
  const large = (NEAR_SHARE / (1 - NEAR_SHARE) / (2 * NEAR + 1)) * others;
  const weights = Array.from({ length: n }, (_, rank) => {
    const distance = (rank - focus + n + NEAR + 1) % n;
    if (distance === 0 || distance === 2 * NEAR + 1) return Math.max(1, large / 2);
    return distance <= 2 * NEAR ? Math.max(1, large) : 1;
  });
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => (2 * Math.PI * weight) / sum);
}

/** Returns the angle of place `i` on a circle with `of` places. Place 0 is at the top. */
function around(i: number, of: number): number {
  return -Math.PI / 2 + (2 * Math.PI * i) / of;
}

/**
 * The largest radius of a group's circle, as a share of half the picture's size. The rest is room
 * for the centre.
 */
const GROUP_SHARE = 0.32;

function layoutGroups({ width, height, n, textSize, shape }: RingLayoutOptions): RingLayout {
  const zoom = textSize / 13;
  const size = twoLevelGroupSize(n);
  const count = n / size;
  const widest = 15 * zoom;
  const room = Math.min(width, height) / 2 - widest * 1.45 - 2;
  const sine = Math.sin(Math.PI / count);
  // Neighbouring groups must not touch each other. With many small groups, the gaps between them
  // are small, too, so that room is left for the groups.
  const gap = Math.min(26 * zoom, room * 0.16, room * sine * 0.4);
  const small = Math.min(room * GROUP_SHARE, (room * sine - gap) / (1 + sine));
  const radius = room - small;
  const mark = Math.min(widest, ((2 * Math.PI * small) / size) * 0.23, small * 0.5);
  const [x, y] = [width / 2, height / 2];
  const groups = Array.from({ length: count }, (_, group): Circle => {
    const angle = around(group, count);
    return { x: x + radius * Math.cos(angle), y: y + radius * Math.sin(angle), radius: small };
  });
  const isInside = mark >= 8.5 * zoom;
  const places = Array.from({ length: n }, (_, rank): RingRankPosition => {
    const group = Math.floor(rank / size);
    // The first rank of each group is the outermost one.
    const angle = around(group, count) + (2 * Math.PI * (rank % size)) / size;
    const centre = groups[group]!;
    const number = isInside ? 'inside' : 'none';
    return { x: centre.x + small * Math.cos(angle), y: centre.y + small * Math.sin(angle), angle, mark, number };
  });
  return { shape, width, height, x, y, radius, places, groups, named: false, near: NO_RANKS, served: NO_RANKS };
}

/** Returns the point at a distance from the centre of a circle. */
export function pointAtAngle({ x, y, radius }: Circle, angle: number, distance: number = radius): RingPoint {
  return { x: x + distance * Math.cos(angle), y: y + distance * Math.sin(angle) };
}

/** The line on which a chunk travels from one rank to another. */
export interface ChunkWay {
  from: RingRankPosition;
  to: RingRankPosition;
  length: number;
  /** Returns the point at a share of the way, 0 to 1. */
  at: (share: number) => RingPoint;
}

/**
 * Distance between a curve and the straight line between its ranks, as a share of the line's
 * length.
 */
const BOW = 0.1;
const OUTER_BOW = 0.16;
/**
 * The distance between a short curve and the straight line between its ranks, in pixels. It keeps
 * chunks of the two directions apart.
 */
const APART = 28;
const LEAST_BOW = 0.25;
/** The shift of a curve towards the centre, as a share of the line's length. */
const INWARD = 0.25;

/**
 * The distance between an edge through the server and the straight lines to the server's mark, as a
 * share of the circle's radius. With many ranks, it is a share of the angle to the next rank.
 */
const SERVER_BOW = 0.1;
const SERVER_BOW_SHARE = 0.15;

/** Returns the way from one rank to another: through the server, if their link goes through it. */
export function wayBetweenRanks(layout: RingLayout, from: number, to: number): ChunkWay {
  const direct = directWayBetweenRanks(layout, from, to);
  if (!layout.served.has(from) || circleOf(layout, from, to) === null) return direct;
  const { from: a, to: b, length } = direct;
  const { radius } = layout;
  // Both halves bend towards each other, so that the two edges of a rank differ.
  const bow = -2 * Math.min(SERVER_BOW, (SERVER_BOW_SHARE * length) / radius);
  const [there, back] = [curve(a, layout, bow), curve(layout, b, bow)];
  return { from: a, to: b, length: 2 * radius, at: (share) => (share < 0.5 ? there(2 * share) : back(2 * share - 1)) };
}

/** Returns the way from one rank to another without the server. */
export function directWayBetweenRanks(layout: RingLayout, from: number, to: number): ChunkWay {
  const [a, b] = [layout.places[from]!, layout.places[to]!];
  const circle = circleOf(layout, from, to);
  if (circle !== null) {
    const turn = (b.angle - a.angle + 4 * Math.PI) % (2 * Math.PI) || 2 * Math.PI;
    return {
      from: a,
      to: b,
      length: turn * circle.radius,
      at: (share) => pointAtAngle(circle, a.angle + turn * share),
    };
  }
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const length = Math.hypot(dx, dy);
  const centre = { x: layout.x - (a.x + b.x) / 2, y: layout.y - (a.y + b.y) / 2 };
  const away = Math.hypot(centre.x, centre.y);
  const isOuter = layout.groups.length > 0 && from % twoLevelGroupSize(layout.places.length) === 0;
  // Curves bend to the right of the direction of travel, so that the two directions of a pair
  // differ. Only curves between the outermost ranks of groups bend to the left, away from the
  // picture's centre. Without groups, curves are also shifted to the centre, so that they do not
  // cross the ranks between the pair.
  const apart = Math.max(BOW, Math.min(LEAST_BOW, APART / length));
  const bow = 2 * (isOuter ? -OUTER_BOW : apart);
  const inward = layout.groups.length > 0 || away < 1 ? 0 : (2 * INWARD * Math.min(length, away)) / away;
  return { from: a, to: b, length, at: curve(a, b, bow, { x: centre.x * inward, y: centre.y * inward }) };
}

/**
 * Returns the points of a curve by their share of the way. It bends to the right of the direction
 * of travel by half of `bow`, as a share of its length, and by half of `shift`, in pixels.
 */
function curve(a: RingPoint, b: RingPoint, bow: number, shift: RingPoint = { x: 0, y: 0 }): ChunkWay['at'] {
  const x = (a.x + b.x) / 2 - (b.y - a.y) * bow + shift.x;
  const y = (a.y + b.y) / 2 + (b.x - a.x) * bow + shift.y;
  return (share) => {
    const rest = 1 - share;
    const mix = (p: number, q: number, r: number): number => rest * rest * p + 2 * rest * share * q + share * share * r;
    return { x: mix(a.x, x, b.x), y: mix(a.y, y, b.y) };
  };
}

/** Returns the circle on which two ranks are neighbours, or `null` without such a circle. */
function circleOf({ shape, groups, places, ...circle }: RingLayout, from: number, to: number): Circle | null {
  const n = places.length;
  if (shape === 'ring') return to === (from + 1) % n ? circle : null;
  if (groups.length === 0) return null;
  const size = n / groups.length;
  const group = Math.floor(from / size);
  return group === Math.floor(to / size) ? groups[group]! : null;
}

/** Half of the width and half of the height of a box. */
interface HalfSize {
  width: number;
  height: number;
}

/**
 * Returns the centre of a box after the share `progress` (0 to 1) of its way. The box starts where
 * it touches the mark of the first rank, and stops where it touches the mark of the second.
 */
export function boxCentreOnWay(way: ChunkWay, progress: number, half: HalfSize): RingPoint {
  const start = gapOf(way, way.from.mark, 0, half);
  const end = 1 - gapOf(way, way.to.mark, 1, half);
  return way.at(start + (end - start) * progress);
}

/**
 * Returns the share of the way that the mark and half of the box cover at the start of the way
 * (`at` is 0) or at its end (`at` is 1).
 */
function gapOf(way: ChunkWay, mark: number, at: 0 | 1, half: HalfSize): number {
  const [p, q] = [way.at(at), way.at(at === 0 ? 0.02 : 0.98)];
  const long = Math.hypot(q.x - p.x, q.y - p.y) || 1;
  // The box extends this far in front of its centre.
  const reach = (half.width * Math.abs(q.x - p.x) + half.height * Math.abs(q.y - p.y)) / long;
  return Math.min((mark * 1.45 + reach) / way.length, 0.42);
}

/**
 * Half the size, in pixels, of an invisible box that keeps a gap between an edge and the marks at
 * its ends.
 */
const EDGE = { width: 2, height: 2 };
/** The number of straight lines that an edge is drawn with. They look like a curve. */
const LINES = 24;

/** Returns an SVG path of the way between the marks of its ranks. */
export function svgPathOfWay(way: ChunkWay): string {
  const points = pointsOf(way, way.length < 60 ? LINES / 4 : LINES);
  return `M${points.map(({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`).join('L')}`;
}

function pointsOf(way: ChunkWay, lines: number): RingPoint[] {
  return Array.from({ length: lines + 1 }, (_, i) => boxCentreOnWay(way, i / lines, EDGE));
}

/**
 * A pointer that is at most this number of pixels from a way counts as on this way. It is about the
 * width of a finger. With large marks, the limit is higher.
 */
const REACH = 28;

/** Returns the index of the way that the pointer is on; `null` if it is on none. */
export function indexOfWayAt(ways: readonly ChunkWay[], x: number, y: number): number | null {
  let nearest: number | null = null;
  let least = Infinity;
  for (const [i, way] of ways.entries()) {
    const distance = Math.min(...pointsOf(way, LINES).map((point) => Math.hypot(point.x - x, point.y - y)));
    if (distance >= least || distance > Math.max(REACH, way.from.mark * 1.5)) continue;
    [nearest, least] = [i, distance];
  }
  return nearest;
}
