/** Paints the grid of cells; knows colours and rectangles, not the page. */
import { identityOf, SHAPES } from '../rankIdentity.ts';
import { includes, type Frame, type Parts } from './frameAt.ts';
import { currentValues, formatValue, type Extent, type Numbers } from './numbers.ts';

/** Beyond this many ranks the slots of single ranks are too thin for colours: one bar tells from where to where on the ring. */
const MOST_SLOTS = 16;
/** Below this width, pixels, no bar can tell that either: a shade says how many are in. */
const LEAST_BAR = 8;
/** A receiving cell fills over this last part of its chunk's way. */
const FILLING = 0.25;
/** How much of a cell's colour is that of its number, at the largest: what is left keeps the digits readable. */
const MOST_TINT = 0.5;

export interface Palette {
  ink: string;
  dim: string;
  cell: string;
  /** Of numbers below and above zero. */
  less: string;
  more: string;
  ranks: string[];
}

/** The style sheet's colours, resolved for the theme that is on. */
export function readPalette(element: Element): Palette {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  return {
    ink: colour('--ink'),
    dim: colour('--dim'),
    cell: colour('--cell'),
    less: colour('--less'),
    more: colour('--more'),
    ranks: SHAPES.map((_, i) => colour(`--rank-${i}`)),
  };
}

export interface Picture {
  n: number;
  width: number;
  height: number;
  /** Device pixels to a pixel. */
  scale: number;
  /** `null`: nobody knows yet, the cells are empty. */
  frame: Frame | null;
  numbers: { own: Numbers; extent: Extent } | null;
  palette: Palette;
  /** A font's size and family, for `font`. */
  textSize: number;
  family: string;
}

/** All cells. */
export function drawGrid(context: CanvasRenderingContext2D, picture: Picture): void {
  for (let rank = 0; rank < picture.n; rank++) {
    for (let chunk = 0; chunk < picture.n; chunk++) drawCell(context, picture, rank, chunk, null);
  }
  drawArriving(context, picture);
}

/** Those that a chunk is on its way to: all that changes within a ring step. */
export function drawArriving(context: CanvasRenderingContext2D, picture: Picture): void {
  for (const { to, chunk, parts, progress } of picture.frame?.flights ?? []) {
    drawCell(context, picture, to, chunk, { parts, filled: Math.max(0, (progress - 1 + FILLING) / FILLING) });
  }
}

interface Arrival {
  parts: Parts;
  /** 0 .. 1 */
  filled: number;
}

interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

function drawCell(
  context: CanvasRenderingContext2D,
  picture: Picture,
  rank: number,
  chunk: number,
  arrival: Arrival | null,
): void {
  const { n, frame, palette, scale } = picture;
  const gap = n <= 8 ? 4 : n <= 16 ? 3 : 1;
  const edge = (length: number, i: number): number => Math.round((length * i * scale) / n) / scale;
  const left = edge(picture.width, chunk);
  const top = edge(picture.height, rank);
  const width = edge(picture.width, chunk + 1) - left;
  const height = edge(picture.height, rank + 1) - top;
  const box = { x: left + gap / 2, y: top + gap / 2, width: width - gap, height: height - gap };
  context.clearRect(left, top, width, height);
  fill(context, palette.cell, box);
  const parts = frame?.cells[rank]?.[chunk];
  if (parts === undefined) return;
  if (picture.numbers !== null && n <= MOST_SLOTS) drawNumbers(context, picture, box, parts, chunk);
  else if (n <= MOST_SLOTS) drawSlots(context, picture, box, parts, arrival);
  else drawBar(context, picture, box, parts, arrival);
  if (arrival === null) return;
  // A chunk is on its way here.
  const line = n <= MOST_SLOTS ? 1.5 : 1;
  context.strokeStyle = palette.ink;
  context.lineWidth = line;
  context.strokeRect(box.x - 0.5, box.y - 0.5, box.width + 1, box.height + 1);
}

/** A slot per rank, in its colour if its numbers are in; the outlined ranks', as everywhere, are half full. */
function drawSlots(
  context: CanvasRenderingContext2D,
  picture: Picture,
  box: Box,
  parts: Parts,
  arrival: Arrival | null,
): void {
  const { n, palette, textSize } = picture;
  const count = `${parts.count}/${n}`;
  context.font = `${textSize}px ${picture.family}`;
  const words = context.measureText(`${n}/${n}`).width + 12;
  const hasCount = box.height >= textSize && box.width - words >= n * 8;
  const slots = hasCount ? { ...box, width: box.width - words } : box;
  const width = slots.width / n;
  for (let one = 0; one < n; one++) {
    const isIn = includes(parts, n, one);
    const comes = arrival !== null && includes(arrival.parts, n, one);
    if (!isIn && !comes) continue;
    const { colour, outlined } = identityOf(one);
    const height = (outlined ? box.height / 2 : box.height) * (isIn ? 1 : arrival!.filled);
    fill(context, palette.ranks[colour]!, {
      x: slots.x + one * width,
      y: box.y + (box.height - height) / 2,
      width,
      height,
    });
  }
  if (!hasCount) return;
  context.fillStyle = parts.count === n ? palette.ink : palette.dim;
  context.textAlign = 'right';
  context.textBaseline = 'middle';
  context.fillText(count, box.x + box.width - 6, box.y + box.height / 2 + 1);
}

/** One bar, from the first rank whose numbers are in to the last; it may go over the end, and on at the beginning. */
function drawBar(
  context: CanvasRenderingContext2D,
  { n, palette }: Picture,
  box: Box,
  parts: Parts,
  arrival: Arrival | null,
): void {
  if (box.width < LEAST_BAR) {
    context.globalAlpha = 0.12 + (0.88 * parts.count) / n;
    fill(context, palette.ink, box);
    context.globalAlpha = 1;
    return;
  }
  const bar = ({ first, count }: Parts, height: number): void => {
    const y = box.y + (box.height - height) / 2;
    const whole = Math.min(count, n - first);
    const unit = box.width / n;
    fill(context, palette.ink, { x: box.x + first * unit, y, width: whole * unit, height });
    fill(context, palette.ink, { x: box.x, y, width: (count - whole) * unit, height });
  };
  bar(parts, box.height);
  if (arrival !== null && arrival.filled > 0) bar(arrival.parts, box.height * arrival.filled);
}

/** The numbers by now, on a colour between those of less and more than zero; whose they are in a line of slots below. */
function drawNumbers(context: CanvasRenderingContext2D, picture: Picture, box: Box, parts: Parts, chunk: number): void {
  const { n, palette, textSize } = picture;
  const { own, extent } = picture.numbers!;
  const values = currentValues(parts, own, chunk);
  values.forEach((value, i) => {
    context.globalAlpha = extent.largest > 0 ? (MOST_TINT * Math.abs(value)) / extent.largest : 0;
    const width = box.width / values.length;
    fill(context, value < 0 ? palette.less : palette.more, { ...box, x: box.x + i * width, width });
  });
  context.globalAlpha = 1;
  const strip = Math.min(5, box.height / 4);
  const width = box.width / n;
  for (let one = 0; one < n; one++) {
    if (!includes(parts, n, one)) continue;
    const { colour, outlined } = identityOf(one);
    const height = outlined ? strip / 2 : strip;
    const y = box.y + box.height - height;
    fill(context, palette.ranks[colour]!, { x: box.x + one * width + 0.5, y, width: width - 1, height });
  }
  const each = box.width / Math.max(1, values.length);
  context.font = `600 ${textSize}px ${picture.family}`;
  context.fillStyle = palette.ink;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  values.forEach((value, i) => {
    const text = formatValue(value);
    if (context.measureText(text).width > each - 4 || box.height - strip < textSize) return;
    context.fillText(text, box.x + (i + 0.5) * each, box.y + (box.height - strip) / 2 + 1);
  });
}

function fill(context: CanvasRenderingContext2D, colour: string, { x, y, width, height }: Box): void {
  context.fillStyle = colour;
  context.fillRect(x, y, width, height);
}
