/** Paints the grid of cells; knows colours and rectangles, not the page. */
import { identityOf, SHAPES } from '../rankIdentity.ts';
import { includes, type Frame } from './frameAt.ts';

/** Beyond this many ranks the slots of single ranks are too thin to see: a shade says how many are in. */
const MOST_SLOTS = 16;

export interface Palette {
  ink: string;
  line: string;
  cell: string;
  ranks: string[];
}

/** The style sheet's colours, resolved for the theme that is on. */
export function readPalette(element: Element): Palette {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  return {
    ink: colour('--ink'),
    line: colour('--line'),
    cell: colour('--cell'),
    ranks: SHAPES.map((_, i) => colour(`--rank-${i}`)),
  };
}

interface Picture {
  n: number;
  width: number;
  height: number;
  /** `null`: nobody knows yet, the cells are empty. */
  frame: Frame | null;
  palette: Palette;
}

export function drawGrid(context: CanvasRenderingContext2D, picture: Picture): void {
  const { n, width, height, frame, palette } = picture;
  const cellWidth = width / n;
  const cellHeight = height / n;
  const gap = n <= 8 ? 4 : n <= 16 ? 3 : 1;
  context.clearRect(0, 0, width, height);
  const arriving = new Map(frame?.flights.map((flight) => [flight.to, flight.chunk]));
  for (let rank = 0; rank < n; rank++) {
    for (let chunk = 0; chunk < n; chunk++) {
      const box = {
        x: chunk * cellWidth + gap / 2,
        y: rank * cellHeight + gap / 2,
        width: cellWidth - gap,
        height: cellHeight - gap,
      };
      drawCell(context, picture, box, rank, chunk);
      if (arriving.get(rank) === chunk && n <= 32) {
        context.strokeStyle = palette.ink;
        context.lineWidth = 1.5;
        context.strokeRect(box.x - 0.75, box.y - 0.75, box.width + 1.5, box.height + 1.5);
      }
    }
  }
}

interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

function drawCell(
  context: CanvasRenderingContext2D,
  { n, frame, palette }: Picture,
  box: Box,
  rank: number,
  chunk: number,
): void {
  context.fillStyle = palette.cell;
  context.fillRect(box.x, box.y, box.width, box.height);
  const parts = frame?.cells[rank]?.[chunk];
  if (parts === undefined) return;
  if (n > MOST_SLOTS) {
    context.fillStyle = palette.ink;
    context.globalAlpha = 0.12 + (0.88 * parts.count) / n;
    context.fillRect(box.x, box.y, box.width, box.height);
    context.globalAlpha = 1;
    return;
  }
  const slot = box.width / n;
  for (let one = 0; one < n; one++) {
    if (!includes(parts, n, one)) continue;
    const { colour, outlined } = identityOf(one);
    const height = outlined ? box.height / 2 : box.height;
    context.fillStyle = palette.ranks[colour]!;
    context.fillRect(box.x + one * slot, box.y + (box.height - height) / 2, slot, height);
  }
}
