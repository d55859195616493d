/** Computes positions on the ring, in pixels. */

export interface RingLayout {
  width: number;
  height: number;
  cx: number;
  cy: number;
  /** Radius of the ring. */
  radius: number;
  /** Radius of a rank's mark. */
  mark: number;
  /** Whether there is room for names next to the marks, and for labels on the edges. */
  named: boolean;
}

/** With more ranks, marks are too small to have a number inside. */
export const MOST_INSIDE = 16;

/** Returns the angle of a rank. Rank 0 is at the top, and the other ranks follow clockwise. */
export function angleOf(rank: number, n: number): number {
  return -Math.PI / 2 + (2 * Math.PI * rank) / n;
}

export function layoutRing(width: number, height: number, n: number, textSize: number, named: boolean): RingLayout {
  const mark = ((n <= 6 ? 20 : n <= 12 ? 16 : n <= 16 ? 12 : n <= 32 ? 6 : 4) * textSize) / 13;
  // A name is above, below or next to its mark. So the ring must leave room for lines of text at
  // the top and bottom, and for a word at the sides.
  const radiusWith = (lines: number, letters: number): number =>
    Math.min(height / 2 - mark * 1.4 - textSize * lines, width / 2 - mark * 1.4 - textSize * letters);
  const withNames = radiusWith(2.7, n === 2 ? 3 : 7.5);
  // Names are shown only if they leave room for the centre of the ring. Otherwise only marks and
  // numbers are shown.
  const fits = named && n <= 12 && withNames >= textSize * 7.5;
  // A single rank is in the centre. Numbers are inside large marks, and next to small marks. The
  // halo of a mark needs space too.
  const beside = n <= MOST_INSIDE ? 0.7 : 1.6;
  const radius = n === 1 ? 0 : Math.max(24, fits ? withNames : radiusWith(beside, beside));
  return { width, height, cx: width / 2, cy: height / 2, radius, mark, named: fits || (named && n === 1) };
}

export function pointAt(layout: RingLayout, angle: number, radius: number = layout.radius): { x: number; y: number } {
  return { x: layout.cx + radius * Math.cos(angle), y: layout.cy + radius * Math.sin(angle) };
}

/**
 * Returns the angle of the centre of a box that has moved `progress` (0 to 1) of the way from
 * `rank` to its right neighbour. The box starts and stops where it touches the marks of the two
 * ranks.
 *
 * @param half half the width and half the height of the box.
 */
export function angleAlong(
  layout: RingLayout,
  n: number,
  rank: number,
  progress: number,
  half: { width: number; height: number },
): number {
  const whole = (2 * Math.PI) / n;
  const from = angleOf(rank, n);
  const gapAt = (angle: number): number => {
    // At this angle, the box extends this far in front of its centre.
    const reach = half.width * Math.abs(Math.sin(angle)) + half.height * Math.abs(Math.cos(angle));
    return Math.min((layout.mark * 1.45 + reach) / layout.radius, whole * 0.42);
  };
  const start = from + gapAt(from);
  const end = from + whole - gapAt(from + whole);
  return start + (end - start) * progress;
}

/** Returns an SVG path along the ring from angle `a` to angle `b`, clockwise. */
export function arcPath(layout: RingLayout, a: number, b: number): string {
  const from = pointAt(layout, a);
  const to = pointAt(layout, b);
  const large = b - a > Math.PI ? 1 : 0;
  const r = layout.radius.toFixed(1);
  return `M${from.x.toFixed(1)},${from.y.toFixed(1)}A${r},${r} 0 ${large} 1 ${to.x.toFixed(1)},${to.y.toFixed(1)}`;
}

/**
 * A pointer within this distance of the ring, in pixels, is on the ring. It is the width of a
 * finger. With large marks, the distance is larger.
 */
const REACH = 28;

/**
 * Returns the rank at the start of the edge that the pointer is on; `null` if the pointer is not on
 * the ring.
 */
export function edgeAt(layout: RingLayout, n: number, x: number, y: number): number | null {
  const dx = x - layout.cx;
  const dy = y - layout.cy;
  if (Math.abs(Math.hypot(dx, dy) - layout.radius) > Math.max(REACH, layout.mark * 1.5)) return null;
  const turn = (Math.atan2(dy, dx) - angleOf(0, n)) / (2 * Math.PI);
  return Math.floor((turn - Math.floor(turn)) * n) % n;
}

/** The shape of a travelling chunk, in pixels from its centre. */
interface Capsule {
  kind: 'slots' | 'bar' | 'dot';
  width: number;
  height: number;
  /** In a capsule with slots: the width of the letter, and the width of the number after it. */
  letter: number;
  figure: number;
  /**
   * The area of the slots, one for each rank. It is next to the letter, or in a line below the
   * letter if there is a number.
   */
  slots: { x: number; y: number; width: number; height: number };
}

/** With more ranks there are no slots, because there are no more colours. */
const MOST_SLOTS = 8;
/** Width of a digit, relative to the text size. */
const DIGIT = 0.64;

/**
 * Returns the most detailed capsule that fits between two marks.
 *
 * @param letters length of the longest number to show in the capsule; 0 without a number.
 */
export function capsuleFor(layout: RingLayout, n: number, textSize: number, letters: number): Capsule {
  const free = (2 * Math.PI * layout.radius) / n - 2.9 * layout.mark;
  if (n <= MOST_SLOTS) {
    const fitting = letters > 0 ? numbered(n, textSize, letters) : slotted(n, textSize, free);
    if (fitting.width <= free * 0.8) return fitting;
    if (letters > 0) return capsuleFor(layout, n, textSize, 0);
  }
  const none = { letter: 0, figure: 0, slots: { x: 0, y: 0, width: 0, height: 0 } };
  if (free >= 24) return { kind: 'bar', width: 20, height: 8, ...none };
  return { kind: 'dot', width: 5, height: 5, ...none };
}

/** Returns a capsule with a letter, and slots next to it that are as wide as the room allows. */
function slotted(n: number, textSize: number, free: number): Capsule {
  const letter = textSize * 1.25;
  const widthWith = (slot: number): number => letter + slot * n + 6;
  const sizes = [8, 6, 5, 4, 3].map((size) => (size * textSize) / 13);
  const slot = sizes.find((size) => widthWith(size) <= free * 0.8) ?? sizes.at(-1)!;
  const width = widthWith(slot);
  const height = Math.round(textSize * 1.55);
  const slots = { x: -width / 2 + letter + 2, y: 4 - height / 2, width: slot * n, height: height - 8 };
  return { kind: 'slots', width, height, letter, figure: 0, slots };
}

/** Returns a capsule with a letter and a number, and a line of slots below them. */
function numbered(n: number, textSize: number, letters: number): Capsule {
  const letter = textSize * 1.25;
  const figure = (letters * DIGIT + 0.8) * textSize;
  const line = textSize * 0.4;
  const width = Math.max(letter + figure, n * 4 + 8);
  const height = Math.round(textSize * 1.5 + line);
  return {
    kind: 'slots',
    width,
    height,
    letter,
    figure,
    slots: { x: 4 - width / 2, y: height / 2 - line - 3, width: width - 8, height: line },
  };
}
