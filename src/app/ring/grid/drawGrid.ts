/** Paints the cells of the grid on a canvas. */
import { styleColoursOf } from '../../components/canvas.ts';
import { rankIdentityOf, RANK_SHAPES } from '../../components/rankIdentity.ts';
import type { RingFrame, SummedRanks } from '../frameAt.ts';
import { currentChunkValues, formatCellValue, type RankVectorsExtent, type RankVectors } from '../numbers.ts';

/**
 * With more ranks than this, a slot for each rank would be too thin to show a colour. Bars then
 * show ranges of ranks.
 */
const MOST_SLOTS = 16;
/**
 * The minimum width of a column with bars, pixels. In narrower columns, a shade shows the number of
 * ranks in the sum.
 */
const LEAST_BAR = 9;
/** The receiving cell fills up during this share of the chunk's way, at the end of the way. */
const FILLING = 0.25;
/**
 * The strength of the strongest colour behind a number. Behind stronger colours, digits would be
 * hard to read.
 */
const MOST_TINT = 0.5;

export interface GridPalette {
  ink: string;
  dim: string;
  cell: string;
  /** Colours of numbers below and above zero. */
  less: string;
  more: string;
  ranks: string[];
}

/** Returns the colours of the style sheet in the current theme. */
export function readGridPalette(element: Element): GridPalette {
  const colour = styleColoursOf(element);
  return {
    ink: colour('--ink'),
    dim: colour('--dim'),
    cell: colour('--cell'),
    less: colour('--less'),
    more: colour('--more'),
    ranks: RANK_SHAPES.map((_, i) => colour(`--rank-${i}`)),
  };
}

export interface ChunkGridPicture {
  /** `n` is the number of ranks (rows), and `chunks` is the number of chunks (columns). */
  n: number;
  chunks: number;
  width: number;
  height: number;
  /** Device pixels per CSS pixel. */
  scale: number;
  /** The frame to paint. It is `null` if no frame is known yet; the cells are then empty. */
  frame: RingFrame | null;
  numbers: { own: RankVectors; extent: RankVectorsExtent } | null;
  palette: GridPalette;
  /** Size and family of the font. */
  textSize: number;
  family: string;
}

export function drawChunkGrid(context: CanvasRenderingContext2D, picture: ChunkGridPicture): void {
  context.clearRect(0, 0, picture.width, picture.height);
  for (let rank = 0; rank < picture.n; rank++) {
    for (let chunk = 0; chunk < picture.chunks; chunk++) drawCell(context, picture, rank, chunk, null);
  }
  if (picture.frame !== null) drawReceivingCells(context, picture, picture.frame.completed);
}

/**
 * Paints the cells that receive chunks in step `index` of the plan. No other cell changes during
 * the step.
 */
export function drawReceivingCells(context: CanvasRenderingContext2D, picture: ChunkGridPicture, index: number): void {
  const { frame } = picture;
  const step = frame?.plan.steps[index];
  if (frame === null || step === undefined) return;
  const flights = index === frame.completed ? frame.flights : [];
  for (const [i, { to, first, count }] of step.transfers.entries()) {
    const flight = flights[i];
    const arrival = flight === undefined ? null : { parts: flight.parts, filled: filledCellShare(flight.progress) };
    for (let chunk = first; chunk < first + count; chunk++) drawCell(context, picture, to, chunk, arrival);
  }
}

/** Returns how far the receiving cell has filled up, from 0 to 1. */
export function filledCellShare(progress: number): number {
  return Math.max(0, (progress - 1 + FILLING) / FILLING);
}

interface Arrival {
  parts: SummedRanks;
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
  picture: ChunkGridPicture,
  rank: number,
  chunk: number,
  arrival: Arrival | null,
): void {
  const { n, chunks, frame, palette, scale } = picture;
  // Rounds a length to whole device pixels, so that painting twice gives the same picture.
  const whole = (length: number): number => Math.round(length * scale) / scale;
  const gap = whole(n <= 8 ? 4 : n <= 16 ? 3 : 1);
  const left = whole((picture.width * chunk) / chunks);
  const top = whole((picture.height * rank) / n);
  const box = {
    x: left + whole(gap / 2),
    y: top + whole(gap / 2),
    width: whole((picture.width * (chunk + 1)) / chunks) - left - gap,
    height: whole((picture.height * (rank + 1)) / n) - top - gap,
  };
  fill(context, palette.cell, box);
  const parts = frame?.cells[rank]?.[chunk];
  if (parts === undefined) return;
  if (picture.numbers !== null && n <= MOST_SLOTS) drawNumbers(context, picture, box, parts, chunk);
  else if (n <= MOST_SLOTS) drawSlots(context, picture, box, parts, arrival);
  else drawBar(context, picture, box, parts, arrival);
  if (arrival === null) return;
  // A chunk is on its way to this cell.
  const line = n <= MOST_SLOTS ? 1.5 : 1;
  context.strokeStyle = palette.ink;
  context.lineWidth = line;
  context.strokeRect(box.x + line / 2, box.y + line / 2, box.width - line, box.height - line);
}

/** Draws a slot for each rank. It is coloured if the numbers of the rank are in the sum. */
function drawSlots(
  context: CanvasRenderingContext2D,
  picture: ChunkGridPicture,
  box: Box,
  parts: SummedRanks,
  arrival: Arrival | null,
): void {
  const { n, palette, textSize } = picture;
  const count = `${parts.length}/${n}`;
  context.font = `${textSize}px ${picture.family}`;
  const words = context.measureText(`${n}/${n}`).width + 12;
  const hasCount = box.height >= textSize && box.width - words >= n * 8;
  const slots = hasCount ? { ...box, width: box.width - words } : box;
  const width = slots.width / n;
  for (let one = 0; one < n; one++) {
    const isIn = parts.includes(one);
    const comes = arrival?.parts.includes(one) === true;
    if (!isIn && !comes) continue;
    const height = box.height * (isIn ? 1 : arrival!.filled);
    fill(context, palette.ranks[rankIdentityOf(one).colour]!, {
      x: slots.x + one * width,
      y: box.y + (box.height - height) / 2,
      width,
      height,
    });
  }
  if (!hasCount) return;
  context.fillStyle = parts.length === n ? palette.ink : palette.dim;
  context.textAlign = 'right';
  context.textBaseline = 'middle';
  context.fillText(count, box.x + box.width - 6, box.y + box.height / 2 + 1);
}

/** Draws bars over the ranks in the sum. The bar of a finished sum is darker. */
function drawBar(
  context: CanvasRenderingContext2D,
  { n, chunks, width, palette }: ChunkGridPicture,
  box: Box,
  parts: SummedRanks,
  arrival: Arrival | null,
): void {
  if (width / chunks < LEAST_BAR) {
    context.globalAlpha = 0.12 + (0.88 * parts.length) / n;
    fill(context, palette.ink, box);
    context.globalAlpha = 1;
    return;
  }
  const unit = box.width / n;
  const bars = (ranks: SummedRanks, height: number): void => {
    const y = box.y + (box.height - height) / 2;
    const colour = ranks.length === n ? palette.ink : palette.dim;
    for (const [first, count] of runsOf(ranks)) {
      fill(context, colour, { x: box.x + first * unit, y, width: count * unit, height });
    }
  };
  bars(parts, box.height);
  if (arrival !== null && arrival.filled > 0) bars(arrival.parts, box.height * arrival.filled);
}

/** Groups ranks with consecutive numbers. Returns the first rank and the size of each group. */
function runsOf(ranks: SummedRanks): [first: number, count: number][] {
  const runs: [number, number][] = [];
  for (const rank of ranks.toSorted((a, b) => a - b)) {
    const last = runs.at(-1);
    if (last !== undefined && last[0] + last[1] === rank) last[1] += 1;
    else runs.push([rank, 1]);
  }
  return runs;
}

/**
 * Draws the numbers on a background whose colour shows their sign and size. A line of slots below
 * the numbers shows the ranks in the sum.
 */
function drawNumbers(
  context: CanvasRenderingContext2D,
  picture: ChunkGridPicture,
  box: Box,
  parts: SummedRanks,
  chunk: number,
): void {
  const { n, palette, textSize } = picture;
  const { own, extent } = picture.numbers!;
  const values = currentChunkValues(parts, own, chunk);
  values.forEach((value, i) => {
    context.globalAlpha = extent.largest > 0 ? (MOST_TINT * Math.abs(value)) / extent.largest : 0;
    const width = box.width / values.length;
    fill(context, value < 0 ? palette.less : palette.more, { ...box, x: box.x + i * width, width });
  });
  context.globalAlpha = 1;
  const strip = Math.min(5, box.height / 4);
  const width = box.width / n;
  for (let one = 0; one < n; one++) {
    if (!parts.includes(one)) continue;
    const x = box.x + one * width + 0.5;
    const y = box.y + box.height - strip;
    fill(context, palette.ranks[rankIdentityOf(one).colour]!, { x, y, width: width - 1, height: strip });
  }
  const each = box.width / Math.max(1, values.length);
  context.font = `600 ${textSize}px ${picture.family}`;
  context.fillStyle = palette.ink;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  values.forEach((value, i) => {
    const text = formatCellValue(value);
    if (context.measureText(text).width > each - 4 || box.height - strip < textSize) return;
    context.fillText(text, box.x + (i + 0.5) * each, box.y + (box.height - strip) / 2 + 1);
  });
}

function fill(context: CanvasRenderingContext2D, colour: string, { x, y, width, height }: Box): void {
  context.fillStyle = colour;
  context.fillRect(x, y, width, height);
}
