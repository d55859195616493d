/** Draws charts to a PNG file: uPlot renders them on a page of a headless browser. */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { launchBrowser } from '../../launcher/browser/browser.ts';

export interface Panel {
  title: string;
  /** Labels of the axes. */
  x: string;
  y: string;
  isLogarithmic?: true;
  /** Labels of the positions on the x axis, if these are not steps. Values are drawn as dots. */
  names?: readonly string[];
  /** Positions of the values on a logarithmic x axis. Default: steps 1, 2, ... */
  xs?: readonly number[];
  /**
   * The curves in the order in which they are drawn. Each has one value per step from step 1 on,
   * and all have the same length.
   */
  curves: readonly {
    label: string;
    colour: string;
    width: number;
    dash: readonly number[];
    values: readonly number[];
  }[];
}

/** Size of one panel in CSS pixels, and the pixel ratio. */
const PANEL = { width: 640, height: 460 };
const SCALE = 2;
const FONT = '14px sans-serif';

/** Draws the panels side by side on a white background into a PNG file. */
export async function drawPanels(panels: readonly Panel[], file: string): Promise<void> {
  const [script, style] = await Promise.all([readUplot('uPlot.iife.min.js'), readUplot('uPlot.min.css')]);
  const browser = await launchBrowser();
  try {
    const viewport = { width: PANEL.width * panels.length, height: PANEL.height };
    const page = await browser.newPage({ viewport, deviceScaleFactor: SCALE });
    await page.setContent(`<style>${style} ${PAGE_STYLE}</style><div id="panels"></div>`);
    await page.addScriptTag({ content: script });
    // A string and not a function: the transpiler would add helpers to a function, which the page
    // does not have.
    await page.evaluate(`(${DRAW})(${JSON.stringify({ panels, size: PANEL, font: FONT })})`);
    await page.locator('#panels').screenshot({ path: file });
  } finally {
    await browser.close();
  }
}

function readUplot(name: string): Promise<string> {
  return readFile(createRequire(import.meta.url).resolve(`uplot/dist/${name}`), 'utf8');
}

const PAGE_STYLE = `
  body { margin: 0; background: white; }
  #panels { display: flex; width: max-content; background: white; font: ${FONT}; color: #1c2430; }
  .panel { width: ${PANEL.width}px; padding-bottom: 12px; }
  .u-title { font-size: 16px; padding: 12px 0 4px; }
  .u-legend { font: ${FONT}; text-align: center; }
  .u-legend .u-series th { padding: 2px 2px; font-weight: normal; }
  .u-legend .u-marker { width: 22px; height: 4px; border-radius: 2px; }
`;

/** A function as source text. It runs in the page. */
const DRAW = `({ panels, size, font }) => {
  const marker = ({ colour, dash: [on, off] }) =>
    on === undefined ? colour : \`repeating-linear-gradient(90deg, \${colour} 0 \${on}px, white \${on}px \${on + off}px)\`;
  for (const { title, x, y, isLogarithmic, names, xs, curves } of panels) {
    const box = document.createElement('div');
    box.className = 'panel';
    document.querySelector('#panels').append(box);
    const axis = { font, labelFont: font, stroke: '#1c2430', grid: { stroke: '#e3e7ee', width: 1 }, ticks: { show: false } };
    const steps = xs ?? curves[0].values.map((_, i) => i + 1);
    const lows = Math.min(...curves.flatMap(({ values }) => values));
    const highs = Math.max(...curves.flatMap(({ values }) => values));
    new uPlot({
      width: size.width, height: size.height - 90, title,
      padding: [8, 24, 0, 0],
      cursor: { show: false },
      legend: { live: false, markers: { width: 0, fill: (plot, i) => marker(curves[i - 1]) } },
      scales: {
        x: xs ? { time: false, distr: 3, log: 2 } : { time: false, ...(names && { range: () => [0.5, names.length + 0.5] }) },
        y: isLogarithmic ? { distr: 3, range: () => [lows / 1.15, highs * 1.1] } : { range: () => [0, highs * 1.05] },
      },
      axes: [
        { ...axis, label: x, size: 36, labelSize: 24,
          ...(names ? { splits: () => steps, values: (plot, splits) => splits.map((step) => names[step - 1] ?? '') } : {}),
          ...(xs ? { splits: () => xs, filter: (plot, splits) => splits, values: (plot, splits) => splits.map(String) } : {}) },
        {
          ...axis, label: y, size: 52, labelSize: 24,
          ...(isLogarithmic ? { splits: () => [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200].filter((v) => v >= lows / 1.15 && v <= highs * 1.1),
            filter: (plot, splits) => splits } : {}),
          values: (plot, splits) => splits.map((value) => String(value)),
        },
      ],
      series: [{ label: x }, ...curves.map(({ label, colour, width, dash }) => ({
        label, stroke: colour, width, dash: dash.length > 0 ? dash : undefined,
        // Names have no order, so no line leads from one to the next.
        ...(names ? { paths: () => null, points: { show: true, size: 12, fill: colour } } : { points: { show: false } }),
      }))],
    }, [steps, ...curves.map(({ values }) => values)], box);
  }
}`;
