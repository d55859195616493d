/** The list of examples. Each is loaded on demand, so that listing them costs nothing. */
import type { ProcessGroup } from '../src/index.ts';

/** Exports of an example's file. */
export interface Example {
  /** Default number of tabs. */
  worldSize: number;
  /** Runs on every rank; `print` shows a line of this rank. */
  main: (group: ProcessGroup, print: (line: string) => void) => Promise<void>;
}

export interface CatalogueEntry {
  /** Also the name of its file, without `.ts`. */
  name: string;
  about: string;
  load: () => Promise<Example>;
}

export const CATALOGUE: readonly CatalogueEntry[] = [
  {
    name: 'sampler',
    about: 'DistributedSampler deals 24 samples to two ranks, in batches of four',
    load: () => import('./sampler.ts'),
  },
  {
    name: 'toyModel',
    about: "PyTorch's DDP tutorial: the 10-10-5 ToyModel under DistributedDataParallel",
    load: () => import('./toyModel.ts'),
  },
  {
    name: 'pointToPoint',
    about: 'rank 0 sends to rank 1, blocking and non-blocking',
    load: () => import('./pointToPoint.ts'),
  },
  {
    name: 'allReduceGroup',
    about: 'ones summed over a group of two ranks',
    load: () => import('./allReduceGroup.ts'),
  },
  {
    name: 'partitionedMnist',
    about: 'data-parallel training by hand: DataPartitioner and averageGradients',
    load: () => import('./partitionedMnist.ts'),
  },
  {
    name: 'averagedMetric',
    about: "every rank's accuracy averaged, over ranks and over samples",
    load: () => import('./averagedMetric.ts'),
  },
  {
    name: 'objects',
    about: 'gather, broadcast and scatter of any plain data',
    load: () => import('./objects.ts'),
  },
];
