/** Creates the plan of a collective, with the caller's algorithm or the cost model's. */
import { Algorithm } from '../../protocol/frame.ts';
import { chooseAllGather, chooseAllReduce, chooseRooted } from './costModel.ts';
import type { Codec } from '../codecs.ts';
import type { TypedArray } from '../dtypes.ts';
import type { RootedOptions } from '../options.ts';
import type { AlgorithmName } from '../../spec/algorithms.ts';
import {
  bruckAllGather,
  chainBroadcast,
  chainReduce,
  directBroadcast,
  directReduce,
  evenDisplacements,
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

const ALL_REDUCE_CODES: Record<Exclude<AlgorithmName, 'auto'>, Algorithm> = {
  ring: Algorithm.RING,
  'two-level': Algorithm.TWO_LEVEL,
  'halving-doubling': Algorithm.HALVING_DOUBLING,
  doubling: Algorithm.DOUBLING,
};
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

/**
 * The algorithm and the plan of an all-reduce. `chunks` are the parts of the tensor; one rank sums
 * each part.
 */
export interface AllReduceChoice extends Choice {
  readonly chunks: Displacements;
}

/**
 * Returns the plan of an all-reduce of `tensor` over `n` ranks.
 *
 * @param name an algorithm that `misfitOfAlgorithm` accepts.
 */
export function allReduceOf(
  { length, byteLength }: TypedArray,
  n: number,
  name: AlgorithmName = 'auto',
  codec: Codec | null = null,
): AllReduceChoice {
  const bytes = codec?.bytesOf(length) ?? byteLength;
  const algorithm = name === 'auto' ? chooseAllReduce(n, bytes, codec !== null) : ALL_REDUCE_CODES[name];
  const planOf = ALL_REDUCE_PLANS[algorithm]!;
  const parts = algorithm === Algorithm.HALVING_DOUBLING ? 2 ** Math.floor(Math.log2(n)) : n;
  return { algorithm, plan: (rank) => planOf(rank, n, length), chunks: evenDisplacements(length, parts) };
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
