/** Creates the plan of a collective with the algorithm that `costModel.ts` chooses. */
import { Algorithm } from '../../protocol/frame.ts';
import { chooseAllGather, chooseAllReduce, chooseRooted } from './costModel.ts';
import type { Codec } from '../codecs.ts';
import type { TypedArray } from '../dtypes.ts';
import type { RootedOptions } from '../options.ts';
import {
  bruckAllGather,
  chainBroadcast,
  chainReduce,
  directBroadcast,
  directReduce,
  halvingDoubling,
  recursiveDoubling,
  ringAllGather,
  ringAllReduce,
  treeBroadcast,
  treeReduce,
  twoLevelAllReduce,
  type Displacements,
  type Planner,
} from './plans.ts';

/** The algorithm and the plan of a call. */
export interface Choice {
  readonly algorithm: Algorithm;
  readonly plan: Planner;
}

type RootedPlanner = typeof chainBroadcast;

const ALL_REDUCE_PLANS: Partial<Record<Algorithm, typeof ringAllReduce>> = {
  [Algorithm.RING]: ringAllReduce,
  [Algorithm.HALVING_DOUBLING]: halvingDoubling,
  [Algorithm.DOUBLING]: recursiveDoubling,
  [Algorithm.TWO_LEVEL]: twoLevelAllReduce,
};
const REDUCE_PLANS: Partial<Record<Algorithm, RootedPlanner>> = {
  [Algorithm.RING]: chainReduce,
  [Algorithm.TREE]: treeReduce,
  [Algorithm.DIRECT]: directReduce,
};
const BROADCAST_PLANS: Partial<Record<Algorithm, RootedPlanner>> = {
  [Algorithm.RING]: chainBroadcast,
  [Algorithm.TREE]: treeBroadcast,
  [Algorithm.DIRECT]: directBroadcast,
};

/** Chooses the algorithm for an all-reduce of `tensor` over `n` ranks. */
export function allReduceOf({ length, byteLength }: TypedArray, n: number, codec: Codec | null = null): Choice {
  const algorithm = chooseAllReduce(n, byteLength, codec?.bytesOf(length));
  const planOf = ALL_REDUCE_PLANS[algorithm]!;
  return { algorithm, plan: (rank) => planOf(rank, n, length) };
}

/** Chooses the algorithm for an all-gather of n parts. */
export function allGatherOf({ byteLength }: TypedArray, displacements: Displacements): Choice {
  const n = displacements.length - 1;
  const algorithm = chooseAllGather(n, byteLength);
  const planOf = algorithm === Algorithm.RING ? ringAllGather : bruckAllGather;
  return { algorithm, plan: (rank) => planOf(rank, n, displacements) };
}

/** Chooses the algorithm for a reduce of `tensor` to `root`. */
export function reduceOf(tensor: TypedArray, root: number, n: number, options: RootedOptions): Choice {
  return rootedOf(REDUCE_PLANS, tensor, root, n, options);
}

/** Chooses the algorithm for a broadcast of `tensor` from `root`. */
export function broadcastOf(tensor: TypedArray, root: number, n: number, options: RootedOptions): Choice {
  return rootedOf(BROADCAST_PLANS, tensor, root, n, options);
}

function rootedOf(
  plans: Partial<Record<Algorithm, RootedPlanner>>,
  { length, byteLength }: TypedArray,
  root: number,
  n: number,
  options: RootedOptions,
): Choice {
  const algorithm = options.algorithm === 'direct' ? Algorithm.DIRECT : chooseRooted(n, byteLength);
  const planOf = plans[algorithm]!;
  return { algorithm, plan: (rank) => planOf(rank, n, root, length) };
}
