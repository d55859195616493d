/** The list of examples. It contains no code of theirs, because the launcher only prints it. */

export interface CatalogueEntry {
  /** Name of the example, and of its file without `.ts`. */
  name: string;
  about: string;
  /** Whether the example can train on MNIST's files. */
  takesData?: true;
}

export const CATALOGUE: readonly CatalogueEntry[] = [
  {
    name: 'sampler',
    about: 'DistributedSampler divides 24 samples between two ranks, in batches of four',
  },
  {
    name: 'toyModel',
    about: "PyTorch's DDP tutorial: the 10-10-5 ToyModel under DistributedDataParallel",
  },
  {
    name: 'modelParallel',
    about: "PyTorch's model parallel tutorial: each of two ranks has one layer of the ToyModel",
  },
  {
    name: 'modelParallelDdp',
    about: 'two replicas of a model, each on two ranks: a mesh of 2 x 2',
  },
  {
    name: 'zeroRedundancy',
    about: "ZeroRedundancyOptimizer: each rank has Adam's averages of a part of the parameters",
  },
  {
    name: 'pointToPoint',
    about: 'rank 0 sends a tensor to rank 1, blocking and non-blocking',
  },
  {
    name: 'allReduceGroup',
    about: 'an all-reduce in a group of two ranks',
  },
  {
    name: 'partitionedMnist',
    about: 'data-parallel training by hand: DataPartitioner and averageGradients',
    takesData: true,
  },
  {
    name: 'dataParallel',
    about: "PyTorch's DataParallel tutorial: a batch of 30 split between 1, 2 and 3 replicas of one tab",
  },
  {
    name: 'modelFit',
    about: "TensorFlow.js's model.fit before and after distribute",
  },
  {
    name: 'avgMetric',
    about: 'AvgMetric collects (acc, num) on each rank, and all ranks sum up the pairs',
  },
  {
    name: 'asyncUpdate',
    about: 'a parameter server updates asynchronously: in a lucky order, and with stale gradients',
  },
  {
    name: 'objects',
    about: 'gather, broadcast and scatter any plain data',
  },
];
