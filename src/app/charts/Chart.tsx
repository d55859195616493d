/**
 * One curve over steps or time, in ink on paper: faint raw values under a smoothed line, or points where somebody
 * measured. uPlot draws; drag zooms, double click shows all, and the crosshair is shared by all charts of a page.
 */
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { useSize } from '../parts/useSize.ts';
import { smallText, theme, zoom } from '../theme.ts';

export interface ChartData {
  x: readonly number[];
  /** Drawn faint; leave out for points. */
  raw?: readonly (number | null)[];
  /** The line to follow. */
  line: readonly (number | null)[];
}

/** A place on x where something changed, in a few letters. */
export interface Mark {
  x: number;
  label: string;
}

interface Props {
  /** Which quantity: the crosshairs of charts with the same one move together. */
  sync: string;
  data: ChartData;
  marks: readonly Mark[];
  height: number;
  points: boolean;
  /** Fixed range of y; otherwise what the data need. */
  range?: readonly [number, number];
  formatX: (value: number) => string;
  formatY: (value: number) => string;
  /** The point under the crosshair, if any. */
  onhover: (index: number | null) => void;
  label: string;
}

export function Chart(props: Props) {
  const { data, marks, points, sync, label } = props;
  const height = Math.round(props.height * zoom.value);
  const box = useRef<HTMLDivElement>(null);
  const { width } = useSize(box);
  const plot = useRef<uPlot | null>(null);
  const current = useRef(props);
  current.current = props;
  const colours = theme.value;
  const text = smallText.value;
  useEffect(() => {
    const host = box.current;
    if (host === null || width === 0) return undefined;
    const made = new uPlot(
      optionsFor(host, width, height, points, sync, text, current),
      aligned(current.current.data),
      host,
    );
    plot.current = made;
    return () => {
      plot.current = null;
      made.destroy();
    };
  }, [box, width, height, points, sync, colours, text]);
  useEffect(() => {
    // Zoomed in, new data must not throw the reader out again.
    const made = plot.current;
    if (made !== null) made.setData(aligned(data), !isZoomed(made));
    if (made !== null && isZoomed(made)) made.redraw();
  }, [data, marks]);
  return <div class="chart" ref={box} role="img" aria-label={label} style={{ height: `${height}px` }} />;
}

function aligned({ x, raw, line }: ChartData): uPlot.AlignedData {
  return [x as number[], (raw ?? line) as number[], line as number[]];
}

function isZoomed(plot: uPlot): boolean {
  const { min, max } = plot.scales['x'] ?? {};
  const xs = plot.data[0];
  const first = xs[0];
  const last = xs.at(-1);
  if (!zoomed.has(plot) || first === undefined || last === undefined) return false;
  return (min ?? first) > first || (max ?? last) < last;
}

/** Charts whose user dragged a range, until a double click. */
const zoomed = new WeakSet<uPlot>();

/** Pixels between the labels of y and the curve. */
const LABEL_GAP = 8;

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
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour('--dim'),
    font: `${text}px ${style.fontFamily}`,
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
  };
  const range = current.current.range;
  return {
    width,
    height,
    padding: [12, 16, 0, 0],
    legend: { show: false },
    scales: {
      x: { time: false },
      y: range === undefined ? { range: fromZero } : { range: [range[0], range[1]] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: text + 13,
        gap: 6,
        space: text * 6,
        incrs: WHOLE,
        values: (_, splits) => splits.map((value) => current.current.formatX(value)),
      },
      {
        ...axis,
        // `100 %` beside the gap, also where digits are wide; the same in all charts, so that their x axes line up.
        size: text * 3.6 + LABEL_GAP,
        gap: LABEL_GAP,
        space: text * 2.4,
        values: (_, splits) => splits.map((value) => current.current.formatY(value)),
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
      drag: { x: true, y: false },
    },
    hooks: {
      setSelect: [(plot) => zoomed.add(plot)],
      setCursor: [(plot) => current.current.onhover(plot.cursor.idx ?? null)],
      draw: [(plot) => drawMarks(plot, current.current.marks, text, colour)],
    },
  };
}

/** A faint line at each mark, and its label beside it where no other label is in the way. */
function drawMarks(plot: uPlot, marks: readonly Mark[], text: number, colour: (name: string) => string): void {
  const { ctx, bbox } = plot;
  const scale = uPlot.pxRatio;
  const gap = 4 * scale;
  const right = bbox.left + bbox.width;
  let free = bbox.left;
  ctx.save();
  ctx.font = `${text * scale}px ${getComputedStyle(plot.root).fontFamily}`;
  ctx.textAlign = 'left';
  ctx.textBaseline = 'top';
  ctx.fillStyle = colour('--dim');
  ctx.strokeStyle = colour('--faint');
  ctx.lineWidth = scale;
  ctx.setLineDash([2 * scale, 4 * scale]);
  for (const { x, label } of marks) {
    const at = Math.round(plot.valToPos(x, 'x', true));
    if (at < bbox.left || at > right) continue;
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
    const width = ctx.measureText(label).width;
    const start = at + gap + width <= right ? at + gap : at - gap - width;
    if (start < free) continue;
    ctx.fillText(label, start, bbox.top);
    free = start + width + 2 * gap;
  }
  ctx.restore();
}

/** Steps and seconds are whole. */
const WHOLE = [1, 2, 5]
  .flatMap((lead) => Array.from({ length: 9 }, (_, power) => lead * 10 ** power))
  .sort((a, b) => a - b);

/** From zero to a little over the highest value, outliers included: nothing is cut off. */
function fromZero(_: uPlot, min: number | null, max: number | null): uPlot.Range.MinMax {
  if (min === null || max === null) return [0, 1];
  return [Math.min(0, min), max > 0 ? max * 1.05 : 1];
}
