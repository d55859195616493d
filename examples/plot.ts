/** Draws the curves of an example. */
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';

const HEIGHT = 240;
/** CSS variables of the curves' colours. */
const COLOURS = ['--rank-0', '--rank-5', '--rank-2', '--rank-3'];

/**
 * Draws curves over the number of their step, counted from 1. The drawing follows the width of
 * `host` and the colours of the page.
 */
export function drawPlot(host: HTMLElement, title: string, curves: Readonly<Record<string, readonly number[]>>): void {
  const colour = (name: string) => () => getComputedStyle(host).getPropertyValue(name).trim();
  const values = Object.values(curves);
  const steps = Array.from({ length: Math.max(...values.map(({ length }) => length)) }, (_, i) => i + 1);
  const axis = {
    stroke: colour('--dim'),
    font: `12px ${getComputedStyle(host).fontFamily}`,
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
    gap: 8,
  };
  const plot = new uPlot(
    {
      title,
      width: host.clientWidth,
      height: HEIGHT,
      legend: { live: false },
      cursor: { show: false },
      scales: { x: { time: false } },
      axes: [{ ...axis, incrs: [1, 2, 5, 10, 20, 50, 100] }, axis],
      series: [
        { label: 'step' },
        ...Object.keys(curves).map((label, i) => ({
          label,
          stroke: colour(COLOURS[i % COLOURS.length]!),
          width: 2,
          points: { show: false },
        })),
      ],
    },
    [steps, ...values.map((curve) => [...curve])],
    host,
  );
  new ResizeObserver(() => plot.setSize({ width: host.clientWidth, height: HEIGHT })).observe(host);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => plot.redraw());
}
