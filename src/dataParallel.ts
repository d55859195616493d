/**
 * Trains several replicas of a model in one tab. This entry is separate from the entry `peergrad`,
 * because bundlers build the replicas' worker, with TensorFlow.js, for every page that imports this
 * module.
 *
 * @module peergrad/data-parallel
 */
export {
  DataParallel,
  type DataParallelOptions,
  type OutputLoss,
  type ReplicaPassReport,
} from './library/dataParallel/dataParallel.ts';
