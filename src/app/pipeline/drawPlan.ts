/** Draws passes of a pipeline on a canvas: boxes with the number of their micro-batch. */
import { styleColoursOf } from '../components/canvas.ts';
import { stageTakesTime, type PassKind, type PipelinePlan } from '../../parallel/pipeline/schedules.ts';

export interface PassColours {
  ink: string;
  cell: string;
  forward: string;
  backward: string;
  font: string;
}

/** Returns the colours and the font of the style sheet in the current theme. */
export function readPassColours(element: Element): PassColours {
  const colour = styleColoursOf(element);
  return {
    ink: colour('--ink'),
    cell: colour('--cell'),
    forward: colour('--forward'),
    backward: colour('--backward'),
    font: getComputedStyle(element).fontFamily,
  };
}

interface Picture {
  plan: PipelinePlan;
  width: number;
  rowHeight: number;
  textSize: number;
  colours: PassColours;
}

export function drawPipelinePlan(
  context: CanvasRenderingContext2D,
  { plan, width, rowHeight, textSize, colours }: Picture,
): void {
  const column = width / plan.ticks;
  const gap = rowHeight >= 12 ? 2 : 1;
  context.clearRect(0, 0, width, rowHeight * plan.ranks);
  for (const [rank, own] of plan.passes.entries()) {
    const y = rank * rowHeight;
    context.fillStyle = colours.cell;
    context.fillRect(0, y, width, rowHeight - gap);
    for (const { kind, stage, microBatch, tick } of own) {
      if (!stageTakesTime(plan, stage)) continue;
      const box = { x: tick * column, y, width: column, height: rowHeight - gap };
      drawPassBox(context, { kind, label: String(microBatch) }, box, textSize, colours);
    }
  }
}

/** Draws the box of a pass, with its label if it fits. */
export function drawPassBox(
  context: CanvasRenderingContext2D,
  { kind, label }: { kind: PassKind; label: string },
  { x, y, width, height }: { x: number; y: number; width: number; height: number },
  textSize: number,
  colours: Omit<PassColours, 'cell'>,
): void {
  context.fillStyle = colours[kind];
  // The box is narrower than the time of its pass, so that a gap separates consecutive passes.
  context.fillRect(x, y, width - Math.min(1, width / 4), height);
  const size = Math.min(textSize, height - 2);
  if (size < 8) return;
  context.font = `${size}px ${colours.font}`;
  if (context.measureText(label).width > width - 2) return;
  context.fillStyle = colours.ink;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  context.fillText(label, x + width / 2, y + height / 2 + 0.5);
  context.textAlign = 'left';
}
