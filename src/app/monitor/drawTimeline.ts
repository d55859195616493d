/** Paints the lanes of the timeline on a canvas. */
import { styleColoursOf } from '../components/canvas.ts';
import type { StepSegmentKind } from '../../protocol/stepTrace.ts';
import { rankIdentityOf, RANK_SHAPES } from '../components/rankIdentity.ts';
import { formatMs } from '../locales/format.ts';
import type { PassKind } from '../../parallel/pipeline/schedules.ts';
import { drawPassBox } from '../pipeline/drawPlan.ts';
import {
  isPipelineStep,
  rowHalfOfSegmentKind,
  type PickedSegment,
  type RanksTimeline,
  type TimelineWindow,
} from './timeline.ts';

interface Palette {
  paper: string;
  ink: string;
  dim: string;
  faint: string;
  line: string;
  cell: string;
  accent: string;
  forward: string;
  backward: string;
  ranks: string[];
  /** Diagonal lines, used for waiting. */
  hatch: CanvasPattern | string;
}

/** Returns the colours of the style sheet in the current theme. */
export function readTimelinePalette(element: Element, context: CanvasRenderingContext2D): Palette {
  const colour = styleColoursOf(element);
  const dim = colour('--dim');
  return {
    paper: getComputedStyle(document.documentElement).backgroundColor,
    ink: colour('--ink'),
    dim,
    faint: colour('--faint'),
    line: colour('--line'),
    cell: colour('--cell'),
    accent: colour('--accent'),
    forward: colour('--forward'),
    backward: colour('--backward'),
    ranks: RANK_SHAPES.map((_, i) => colour(`--rank-${i}`)),
    hatch: hatchOf(context, dim) ?? dim,
  };
}

/** Side of one tile of the hatching, pixels. */
const TILE = 6;

function hatchOf(context: CanvasRenderingContext2D, colour: string): CanvasPattern | null {
  const tile = document.createElement('canvas');
  tile.width = TILE;
  tile.height = TILE;
  const lines = tile.getContext('2d');
  if (lines === null) return null;
  lines.strokeStyle = colour;
  lines.lineWidth = 1;
  lines.beginPath();
  for (const shift of [-TILE, 0, TILE]) {
    lines.moveTo(shift, TILE);
    lines.lineTo(shift + TILE, 0);
  }
  lines.stroke();
  return context.createPattern(tile, 'repeat');
}

interface Picture {
  timeline: RanksTimeline;
  window: TimelineWindow;
  width: number;
  /** Height of a lane, pixels. */
  rowHeight: number;
  /** Height of the axis above the lanes, pixels. */
  top: number;
  textSize: number;
  font: string;
  palette: Palette;
  picked: PickedSegment | null;
  /** The highlighted step, at which the user points. */
  pointed: number | null;
  formatStep: (step: number) => string;
}

/**
 * Segments narrower than this number of pixels are not drawn: thousands of them would only look
 * grey.
 */
const LEAST_WIDTH = 0.2;

export function drawTimeline(context: CanvasRenderingContext2D, picture: Picture): void {
  const { timeline, window, width, rowHeight, top, palette, picked, pointed, font, textSize } = picture;
  const { rows } = timeline;
  const scale = width / (window.to - window.from);
  const x = (at: number): number => (at - window.from) * scale;
  const height = top + rows.length * rowHeight;
  context.clearRect(0, 0, width, height);
  drawAxis(context, picture, x, height);
  const gap = rowHeight >= 20 ? 3 : rowHeight >= 12 ? 2 : 1;
  const half = (rowHeight - gap) / 2;
  for (const [index, row] of rows.entries()) {
    const y = top + index * rowHeight;
    const own = palette.ranks[rankIdentityOf(row.rank).colour]!;
    for (const step of row.steps) {
      const [left, right] = [x(step.startedAt), x(step.startedAt + step.duration)];
      if (right < 0 || left > width) continue;
      context.fillStyle = palette.cell;
      context.fillRect(left, y, right - left, rowHeight - gap);
      const isWhole = isPipelineStep(step);
      for (const segment of step.segments) {
        const start = Math.max(-1, x(step.startedAt + segment.start));
        const wide = Math.min(width + 1, x(step.startedAt + segment.end)) - start;
        if (wide < LEAST_WIDTH) continue;
        const isLower = !isWhole && rowHalfOfSegmentKind(segment.kind) === 'together';
        const box = { x: start, y: isLower ? y + half : y, width: wide, height: isWhole ? rowHeight - gap : half };
        const { kind, pass } = segment;
        if (kind === 'forward' || kind === 'backward') {
          drawPassBox(context, { kind, label: String(pass?.microBatch ?? '') }, box, textSize, { ...palette, font });
        } else fill(context, kind, own, palette, box);
        const isPicked = picked?.segment === segment && picked.step.step === step.step;
        if (!isPicked) continue;
        context.strokeStyle = palette.accent;
        context.lineWidth = 2;
        context.strokeRect(start, box.y, Math.max(2, wide), box.height);
      }
      if (step.step !== pointed) continue;
      context.strokeStyle = palette.accent;
      context.lineWidth = 1.5;
      context.strokeRect(left, y - 0.5, right - left, rowHeight - gap + 1);
    }
  }
}

/**
 * Fills a segment. Its kind decides its height and its colour. Work of the rank alone has the
 * rank's colour, apart from reading samples, which is dim. Sending and reducing have the colour of
 * ink, and an exchange is dim. Waiting is hatched.
 */
function fill(
  context: CanvasRenderingContext2D,
  kind: Exclude<StepSegmentKind, PassKind>,
  own: string,
  palette: Palette,
  box: { x: number; y: number; width: number; height: number },
): void {
  const { x, y, width, height } = box;
  switch (kind) {
    case 'data':
      context.fillStyle = palette.dim;
      return context.fillRect(x, y + height * 0.35, width, height * 0.3);
    case 'compute':
      context.fillStyle = own;
      return context.fillRect(x, y, width, height);
    case 'readback':
      context.globalAlpha = 0.45;
      context.fillStyle = own;
      context.fillRect(x, y, width, height);
      context.globalAlpha = 1;
      return undefined;
    case 'update':
      context.fillStyle = own;
      context.fillRect(x, y, width, height);
      context.fillStyle = palette.paper;
      return context.fillRect(x, y + height * 0.3, width, height * 0.4);
    case 'send':
      context.fillStyle = palette.ink;
      return context.fillRect(x, y + height / 2, width, height / 2);
    case 'wait':
      context.fillStyle = palette.hatch;
      return context.fillRect(x, y, width, height);
    case 'reduce':
      context.fillStyle = palette.ink;
      return context.fillRect(x, y, width, height);
    case 'exchange':
      context.fillStyle = palette.dim;
      return context.fillRect(x, y + height * 0.25, width, height * 0.5);
    default:
      return kind satisfies never;
  }
}

/** Draws the starts of steps, and an axis of times since the first visible step. */
function drawAxis(
  context: CanvasRenderingContext2D,
  { timeline, window, width, top, textSize, font, palette, formatStep }: Picture,
  x: (at: number) => number,
  height: number,
): void {
  context.font = `${textSize}px ${font}`;
  context.textBaseline = 'middle';
  context.lineWidth = 1;
  const starts = new Map<number, number>();
  for (const { step, startedAt } of timeline.rows.flatMap(({ steps }) => steps)) {
    starts.set(step, Math.min(startedAt, starts.get(step) ?? Infinity));
  }
  const seen = [...starts].sort((a, b) => a[0] - b[0]);
  // The zero of the axis is the start of the first step that begins in the window. If no step
  // begins in the window, the zero is the start of the step that fills the window.
  const inSight = seen.find(([, at]) => x(at) >= 0 && x(at) <= width);
  const base = inSight ?? seen.findLast(([, at]) => x(at) < 0) ?? seen[0];
  let free = 0;
  context.strokeStyle = palette.faint;
  context.fillStyle = palette.dim;
  for (const [step, at] of seen) {
    const left = Math.round(x(at)) + 0.5;
    if (left < 0 || left > width) continue;
    context.beginPath();
    context.moveTo(left, 0);
    context.lineTo(left, height);
    context.stroke();
    const text = formatStep(step);
    if (left + 4 < free || left + 4 + context.measureText(text).width > width) continue;
    context.fillText(text, left + 4, top / 4);
    free = left + 12 + context.measureText(text).width;
  }
  if (base === undefined) return;
  if (inSight === undefined) context.fillText(formatStep(base[0]), 4, top / 4);
  const every = tickSpacingMs(window.to - window.from, width / (textSize * 6));
  for (let at = Math.ceil((window.from - base[1]) / every) * every; base[1] + at < window.to; at += every) {
    const left = Math.round(x(base[1] + at)) + 0.5;
    const text = formatMs(at);
    if (at < 0 || left + context.measureText(text).width > width) continue;
    context.strokeStyle = palette.line;
    context.beginPath();
    context.moveTo(left, top * 0.6);
    context.lineTo(left, height);
    context.stroke();
    context.fillText(text, left + 4, top * 0.72);
  }
}

/**
 * Returns the distance between two ticks: a round number of milliseconds with which there are at
 * most `most` ticks.
 */
export function tickSpacingMs(ms: number, most: number): number {
  const least = ms / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(least));
  return ([1, 2, 5, 10].find((lead) => lead * power >= least) ?? 10) * power;
}
