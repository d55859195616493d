/** Computes the shape of a travelling chunk; pure. */
import type { ChunkWay } from './geometry.ts';

/** The shape of a travelling chunk, in pixels from its centre. */
export interface ChunkCapsule {
  /**
   * `slots`: the name and a slot for each rank. `tag`: the name and a bar. `name`: the name alone.
   * A `bar` has no name, and a `dot` shows only the place.
   */
  kind: 'slots' | 'tag' | 'name' | 'bar' | 'dot';
  width: number;
  height: number;
  /** `letter` is the width of the name, and `figure` the width of the number after the name. */
  letter: number;
  figure: number;
  /**
   * The area of the bar, or of the slots, one for each rank. If the capsule has a number, this area
   * is below the name; otherwise it is next to the name.
   */
  slots: { x: number; y: number; width: number; height: number };
}

export interface ChunkCapsuleOptions {
  /** Maximum width of the capsule, pixels. The length of the way limits it, too. */
  room: number;
  /** The number of ranks. */
  n: number;
  textSize: number;
  /** Length of the longest number to show in the capsule; 0 without a number. */
  letters: number;
  /** The name of the chunks: `A` or `A–D`. */
  name: string;
  /**
   * The most detailed shape of a capsule that has no slots. With `name`, the capsule has a name,
   * and a bar if there is room. `bar` and `dot` are for chunks that the rank in focus neither sends
   * nor receives.
   */
  most: 'name' | 'bar' | 'dot';
}

/**
 * With more ranks than this, capsules have no slots, because each slot needs its own colour and
 * there are no more colours.
 */
const MOST_SLOTS = 8;
/**
 * With more ranks than this, a capsule without a name is a dot, because bars would cover each
 * other.
 */
const MOST_BARS = 36;
/** Width of a digit, and of a capital letter, relative to the text size. */
export const DIGIT_WIDTH_PER_TEXT_SIZE = 0.64;
const CAPITAL = 0.76;

/** Returns the most detailed capsule that fits on the way between two marks. */
export function chunkCapsuleFor(way: ChunkWay, options: ChunkCapsuleOptions): ChunkCapsule {
  const { n, letters, most, room } = options;
  const free = Math.min(room, way.length - 1.45 * (way.from.mark + way.to.mark));
  if (n <= MOST_SLOTS) {
    const fitting = letters > 0 ? numbered(options) : slotted(options, free);
    if (fitting.width <= free * 0.8) return fitting;
    if (letters > 0) return chunkCapsuleFor(way, { ...options, letters: 0 });
  }
  if (most === 'name') {
    const fitting = tagged(options);
    if (fitting.width <= free * 0.92) return fitting;
    const width = nameWidth(options) + 2;
    const named: ChunkCapsule = { ...plain('name', width, Math.round(options.textSize * 1.3)), letter: width - 4 };
    if (width <= free * 0.95) return named;
  }
  if (free >= 24 && n <= MOST_BARS && most !== 'dot') return plain('bar', 20, 8);
  const dot = free >= 14 ? 7 : 5;
  return plain('dot', dot, dot);
}

/** Returns a capsule that has no bar next to its name. */
function plain(kind: 'name' | 'bar' | 'dot', width: number, height: number): ChunkCapsule {
  const slots = { x: -width / 2, y: -height / 2, width, height };
  return { kind, width, height, letter: 0, figure: 0, slots };
}

function nameWidth({ name, textSize }: ChunkCapsuleOptions): number {
  return textSize * (0.53 + name.length * CAPITAL);
}

/** Returns a capsule with a name and slots next to it. The slots are as wide as the room allows. */
function slotted(options: ChunkCapsuleOptions, free: number): ChunkCapsule {
  const { n, textSize } = options;
  const letter = nameWidth(options);
  const widthWith = (slot: number): number => letter + slot * n + 6;
  const sizes = [8, 6, 5, 4, 3].map((size) => (size * textSize) / 13);
  const slot = sizes.find((size) => widthWith(size) <= free * 0.8) ?? sizes.at(-1)!;
  const width = widthWith(slot);
  const height = Math.round(textSize * 1.55);
  const slots = { x: -width / 2 + letter + 2, y: 4 - height / 2, width: slot * n, height: height - 8 };
  return { kind: 'slots', width, height, letter, figure: 0, slots };
}

/** Returns a capsule with a name and a bar next to it. */
function tagged(options: ChunkCapsuleOptions): ChunkCapsule {
  const { textSize } = options;
  const letter = nameWidth(options);
  const bar = textSize * 1.2;
  const width = letter + bar + 7;
  const height = Math.round(textSize * 1.4);
  const slots = { x: -width / 2 + letter + 2, y: 5 - height / 2, width: bar, height: height - 10 };
  return { kind: 'tag', width, height, letter, figure: 0, slots };
}

/** Returns a capsule with a name and a number, and a line of slots below them. */
function numbered(options: ChunkCapsuleOptions): ChunkCapsule {
  const { n, textSize, letters } = options;
  const letter = nameWidth(options);
  const figure = (letters * DIGIT_WIDTH_PER_TEXT_SIZE + 0.8) * textSize;
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
