/** Draws loss curves of peergrad and PyTorch on top of each other. */
import { drawPanels, type Panel } from '../report/plot.ts';
import type { Difference } from './parity.ts';

/** PyTorch's curve is wide, so that it is visible under peergrad's. */
const TORCH = { label: 'PyTorch', colour: '#f4a582', width: 8, dash: [] };
const PEERGRAD = { label: 'peergrad', colour: '#053061', width: 2, dash: [] };

/** The drawn world. The curves of others look the same. */
const DRAWN = /, 4 ranks: losses$/;

/** Draws a panel for each optimizer to a PNG file. */
export async function plotCurves(cases: readonly Difference[], file: string): Promise<void> {
  const panels = cases.flatMap(({ case: name, difference, curves }): Panel[] => {
    if (!curves || !DRAWN.test(name)) return [];
    return [
      {
        title: `${name.replace(': losses', '')}: largest difference ${difference.toExponential(1)}`,
        x: 'step',
        y: 'loss',
        curves: [
          { ...TORCH, values: curves.torch },
          { ...PEERGRAD, values: curves.ours },
        ],
      },
    ];
  });
  await drawPanels(panels, file);
}
