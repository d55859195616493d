/**
 * A chart with one curve over steps or time, drawn by uPlot. It shows either points, or a smoothed
 * line over faint raw values. All charts of a page show the same range of x. A drag selects a
 * range, and a double click or Escape resets it. The crosshairs of the charts move together.
 */
import { styleColoursOf } from '../components/canvas.ts';
import type { Signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { useElementSize } from '../components/useElementSize.ts';
import { smallTextPixels, theme, zoom } from '../browser/theme.ts';

interface ChartData {
  x: readonly number[];
  /** Raw values, drawn faint. A chart of points has none. */
  raw?: readonly (number | null)[];
  /** The smoothed line. */
  line: readonly (number | null)[];
}

/**
 * A mark at one position on the x axis: a line with a label, or a notch below the curve if the
 * label is `null`.
 */
export interface ChartMark {
  x: number;
  label: string | null;
}

/** A range of the x axis. */
export interface ChartRange {
  min: number;
  max: number;
}

interface Props {
  /** Charts with the same key move their crosshairs together. */
  sync: string;
  data: ChartData;
  marks: readonly ChartMark[];
  height: number;
  points: boolean;
  /** A fixed range of the y axis. If it is missing, the range follows the data. */
  range?: readonly [number, number];
  /** Whether the y axis is logarithmic. This cannot change after the chart has been created. */
  isLog?: boolean;
  /** The visible range of the x axis; `null` means all. */
  shown: Signal<ChartRange | null>;
  /** The position on the x axis at which the user points in another view. */
  pointedX: number | null;
  formatX: (value: number) => string;
  formatY: (value: number) => string;
  /** Called with the index of the point under the crosshair. */
  onhover: (index: number | null) => void;
  label: string;
}

export function Chart(props: Props) {
  const { data, marks, points, sync, label, shown, pointedX } = props;
  const height = Math.round(props.height * zoom.value);
  const box = useRef<HTMLDivElement>(null);
  const { width } = useElementSize(box);
  const plot = useRef<uPlot | null>(null);
  const current = useRef(props);
  current.current = props;
  const colours = theme.value;
  const text = smallTextPixels.value;
  const stretch = shown.value;
  useEffect(() => {
    const host = box.current;
    if (host === null || width === 0) return undefined;
    const made = new uPlot(
      optionsFor(host, width, height, points, sync, text, current),
      aligned(current.current.data),
      host,
    );
    plot.current = made;
    show(made, current.current.shown.peek());
    return () => {
      plot.current = null;
      made.destroy();
    };
  }, [box, width, height, points, sync, colours, text]);
  useEffect(() => {
    const made = plot.current;
    if (made === null) return;
    made.setData(aligned(data), false);
    show(made, stretch);
  }, [data, marks, stretch]);
  useEffect(() => {
    const made = plot.current;
    if (made !== null) point(made, pointedX);
  }, [pointedX]);
  return <div class="chart" ref={box} role="img" aria-label={label} style={{ height: `${height}px` }} />;
}

function aligned({ x, raw, line }: ChartData): uPlot.AlignedData {
  return [x as number[], (raw ?? line) as number[], line as number[]];
}

function show(plot: uPlot, stretch: ChartRange | null): void {
  const [xs] = plot.data;
  plot.setScale('x', stretch ?? { min: xs[0] ?? 0, max: xs.at(-1) ?? 1 });
}

/** Moves the crosshair of this chart, unless the pointer is on this chart. */
function point(plot: uPlot, x: number | null): void {
  if (plot.over.matches(':hover')) return;
  const left = x === null ? -1 : plot.valToPos(x, 'x');
  // With `false`, uPlot does not call `onhover`, because this position does not come from the
  // pointer.
  plot.setCursor({ left, top: left < 0 ? -1 : plot.over.clientHeight / 2 }, false);
}

/** Pixels between the labels of the y axis and the curve. */
const LABEL_GAP = 8;
/** A drag over fewer pixels than this is a click. */
const LEAST_DRAG = 4;

function optionsFor(
  host: HTMLElement,
  width: number,
  height: number,
  points: boolean,
  sync: string,
  text: number,
  current: { readonly current: Props },
): uPlot.Options {
  const style = getComputedStyle(host);
  const colour = styleColoursOf(host);
  const axis = {
    stroke: colour('--dim'),
    font: `${text}px ${style.fontFamily}`,
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
  };
  const { range, isLog = false } = current.current;
  const y = isLog ? { distr: 3 as const, range: aroundAll } : { range: range === undefined ? fromZero : [...range] };
  return {
    width,
    height,
    padding: [12, 16, 0, 0],
    legend: { show: false },
    scales: {
      x: { time: false, auto: false },
      y: y as uPlot.Scale,
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: text + 13,
        gap: 6,
        space: text * 5.5,
        incrs: WHOLE,
        values: (_, splits) => splits.map((value) => current.current.formatX(value)),
      },
      {
        ...axis,
        // The labels have room for `100 %`. The room is equal in all charts, so that their x axes
        // align.
        size: text * 3.6 + LABEL_GAP,
        gap: LABEL_GAP,
        space: text * 2.4,
        // On a logarithmic axis, most splits are `null` and have no label.
        values: (_, splits: (number | null)[]) =>
          splits.map((value) => (value === null ? '' : current.current.formatY(value))),
      },
    ],
    series: [
      {},
      {
        stroke: colour('--faint'),
        width: 1,
        show: !points,
        points: { show: false },
      },
      {
        stroke: colour('--ink'),
        width: points ? 1.5 : 2,
        spanGaps: true,
        points: points ? { show: true, size: 6, fill: colour('--ink'), stroke: colour('--ink') } : { show: false },
      },
    ],
    cursor: {
      sync: { key: sync, scales: ['x', null] },
      y: false,
      points: { size: 7, fill: colour('--accent'), stroke: colour('--accent') },
      drag: { x: true, y: false, setScale: false },
      bind: {
        dblclick: () => () => {
          current.current.shown.value = null;
          return null;
        },
      },
    },
    hooks: {
      setSelect: [
        (plot) => {
          const { left, width: wide } = plot.select;
          if (wide < LEAST_DRAG) return;
          current.current.shown.value = { min: plot.posToVal(left, 'x'), max: plot.posToVal(left + wide, 'x') };
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
      setCursor: [(plot) => current.current.onhover(plot.cursor.idx ?? null)],
      draw: [(plot) => drawMarks(plot, current.current.marks, text, colour)],
    },
  };
}

/**
 * Draws the marks. A mark with a label is a faint line; its label is only shown if there is room. A
 * mark without a label is a notch.
 */
function drawMarks(plot: uPlot, marks: readonly ChartMark[], text: number, colour: (name: string) => string): void {
  const { ctx, bbox } = plot;
  const scale = uPlot.pxRatio;
  const gap = 4 * scale;
  const right = bbox.left + bbox.width;
  const bottom = bbox.top + bbox.height;
  let free = bbox.left;
  ctx.save();
  ctx.font = `${text * scale}px ${getComputedStyle(plot.root).fontFamily}`;
  ctx.textAlign = 'left';
  ctx.textBaseline = 'top';
  ctx.fillStyle = colour('--dim');
  ctx.strokeStyle = colour('--faint');
  ctx.lineWidth = scale;
  for (const { x, label } of marks) {
    const at = Math.round(plot.valToPos(x, 'x', true));
    if (at < bbox.left || at > right) continue;
    if (label === null) {
      drawNotch(ctx, at, bottom, gap);
      continue;
    }
    ctx.setLineDash([2 * scale, 4 * scale]);
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bottom);
    ctx.stroke();
    const width = ctx.measureText(label).width;
    const start = at + gap + width <= right ? at + gap : at - gap - width;
    if (start < free) continue;
    ctx.fillText(label, start, bbox.top);
    free = start + width + 2 * gap;
  }
  ctx.restore();
}

/** Draws a small triangle on the x axis. */
function drawNotch(ctx: CanvasRenderingContext2D, x: number, bottom: number, size: number): void {
  ctx.beginPath();
  ctx.moveTo(x - size, bottom);
  ctx.lineTo(x, bottom - 1.6 * size);
  ctx.lineTo(x + size, bottom);
  ctx.fill();
}

/** Ticks of steps and seconds are integers. */
const WHOLE = [1, 2, 5]
  .flatMap((lead) => Array.from({ length: 9 }, (_, power) => lead * 10 ** power))
  .sort((a, b) => a - b);

/** Returns a range of a logarithmic axis that includes all values. */
function aroundAll(_: uPlot, min: number | null, max: number | null): uPlot.Range.MinMax {
  return min === null || max === null || min <= 0 ? [0.1, 10] : uPlot.rangeLog(min, max, 10, false);
}

/** Returns a range that includes zero and all values, with a small margin at the top. */
function fromZero(_: uPlot, min: number | null, max: number | null): uPlot.Range.MinMax {
  if (min === null || max === null) return [0, 1];
  return [Math.min(0, min), max > 0 ? max * 1.05 : 1];
}
