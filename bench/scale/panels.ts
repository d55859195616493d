/** Pictures of how an all-reduce of 4 MB grows, a panel for each network. */
import type { Panel } from '../plot.ts';
import { ALGORITHMS, NETWORKS, type AlgorithmName, type GrowthRow } from './growth.ts';

const DRAWN_BYTES = 4_000_000;
const COLOURS: Record<AlgorithmName, string> = {
  ...{ ring: '#1f6feb', 'two-level': '#2da44e', 'halving-doubling': '#bf3989', doubling: '#9a6700' },
};

export function panelsOf(growth: readonly GrowthRow[]): Panel[] {
  return NETWORKS.map((network) => {
    const rows = growth.filter((row) => row.network === network && row.bytes === DRAWN_BYTES);
    return {
      ...{ title: `All-reduce of 4 MB, ${network}`, x: 'ranks', y: 'seconds', isLogarithmic: true },
      xs: rows.map(({ n }) => n),
      curves: (Object.keys(ALGORITHMS) as AlgorithmName[]).map((label) => ({
        ...{ label, colour: COLOURS[label], width: 2, dash: [] },
        values: rows.map(({ ms }) => ms[label]! / 1000),
      })),
    };
  });
}
