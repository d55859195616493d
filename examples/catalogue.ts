/**
 * The list of examples. An example is loaded only when it runs, so that a list of their names needs
 * no example's code.
 */
import type { Example } from './example.ts';

export interface CatalogueEntry {
  /** Name of the example, and of its file without `.ts`. */
  name: string;
  about: string;
  /** Whether the example can train on MNIST's files. */
  takesData?: true;
  load: () => Promise<Example>;
}

export const CATALOGUE: readonly CatalogueEntry[] = [
  {
    name: 'sampler',
    about: 'DistributedSampler divides 24 samples between two ranks, in batches of four',
    load: () => import('./sampler.ts'),
  },
  {
    name: 'toyModel',
    about: "PyTorch's DDP tutorial: the 10-10-5 ToyModel under DistributedDataParallel",
    load: () => import('./toyModel.ts'),
  },
  {
    name: 'pointToPoint',
    about: 'rank 0 sends a tensor to rank 1, blocking and non-blocking',
    load: () => import('./pointToPoint.ts'),
  },
  {
    name: 'allReduceGroup',
    about: 'an all-reduce in a group of two ranks',
    load: () => import('./allReduceGroup.ts'),
  },
  {
    name: 'partitionedMnist',
    about: 'data-parallel training by hand: DataPartitioner and averageGradients',
    takesData: true,
    load: () => import('./partitionedMnist.ts'),
  },
  {
    name: 'dataParallel',
    about: "PyTorch's DataParallel tutorial: a batch of 30 split between 1, 2 and 3 replicas of one tab",
    load: () => import('./dataParallel.ts'),
  },
  {
    name: 'modelFit',
    about: "TensorFlow.js's model.fit before and after distribute",
    load: () => import('./modelFit.ts'),
  },
  {
    name: 'avgMetric',
    about: 'AvgMetric collects (acc, num) on each rank, and all ranks sum up the pairs',
    load: () => import('./avgMetric.ts'),
  },
  {
    name: 'asyncUpdate',
    about: 'a parameter server updates asynchronously: in a lucky order, and with stale gradients',
    load: () => import('./asyncUpdate.ts'),
  },
  {
    name: 'objects',
    about: 'gather, broadcast and scatter any plain data',
    load: () => import('./objects.ts'),
  },
];
