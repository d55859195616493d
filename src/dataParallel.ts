/**
 * Several replicas of a model in one tab. They have an entry of their own because bundlers build
 * the replicas' worker, with TensorFlow.js, for every page that reaches it.
 *
 * @module peergrad/data-parallel
 */
export {
  DataParallel,
  type DataParallelOptions,
  type OutputLoss,
  type ReplicaMemory,
} from './library/dataParallel/dataParallel.ts';
