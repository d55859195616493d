/** Creates the plan of a collective, with the caller's algorithm or the cost model's. */
import type { ServedPairs } from '../../protocol/control.ts';
import { AlgorithmCode } from '../../protocol/frame.ts';
import {
  allReduceRounds,
  chooseAllGatherAlgorithm,
  chooseAllReduceAlgorithm,
  chooseRootedAlgorithm,
  estimateRoundsMs,
  NO_SERVED_PAIRS,
  DEFAULT_NETWORK_COSTS,
} from './costModel.ts';
import type { Codec } from '../codecs.ts';
import type { TypedArray } from '../dtypes.ts';
import type { RootedOptions } from '../options.ts';
import type { AlgorithmName, AllReduceName } from '../../spec/algorithms.ts';
import {
  planBruckAllGather,
  planChainBroadcast,
  planChainReduce,
  planDirectBroadcast,
  planDirectReduce,
  evenDisplacements,
  planHalvingDoublingAllReduce,
  planRecursiveDoublingAllReduce,
  planRingAllGather,
  planRingAllReduce,
  planTreeBroadcast,
  planTreeReduce,
  planTwoLevelAllReduce,
  type Displacements,
  type CollectivePlanner,
} from './plans.ts';

/** The algorithm and the plan of a call. */
export interface AlgorithmChoice {
  readonly algorithm: AlgorithmCode;
  readonly plan: CollectivePlanner;
}

type RootedPlanner = typeof planChainBroadcast;

const ALL_REDUCE_CODES: Record<AllReduceName, AlgorithmCode> = {
  ring: AlgorithmCode.RING,
  'two-level': AlgorithmCode.TWO_LEVEL,
  'halving-doubling': AlgorithmCode.HALVING_DOUBLING,
  doubling: AlgorithmCode.DOUBLING,
};
const ALL_REDUCE_PLANS: Partial<Record<AlgorithmCode, typeof planRingAllReduce>> = {
  [AlgorithmCode.RING]: planRingAllReduce,
  [AlgorithmCode.HALVING_DOUBLING]: planHalvingDoublingAllReduce,
  [AlgorithmCode.DOUBLING]: planRecursiveDoublingAllReduce,
  [AlgorithmCode.TWO_LEVEL]: planTwoLevelAllReduce,
};
const ALL_REDUCE_NAMES_BY_CODE = new Map(
  Object.entries(ALL_REDUCE_CODES).map(([name, code]) => [code, name as AllReduceName]),
);
const REDUCE_PLANS: Partial<Record<AlgorithmCode, RootedPlanner>> = {
  [AlgorithmCode.RING]: planChainReduce,
  [AlgorithmCode.TREE]: planTreeReduce,
  [AlgorithmCode.DIRECT]: planDirectReduce,
};
const BROADCAST_PLANS: Partial<Record<AlgorithmCode, RootedPlanner>> = {
  [AlgorithmCode.RING]: planChainBroadcast,
  [AlgorithmCode.TREE]: planTreeBroadcast,
  [AlgorithmCode.DIRECT]: planDirectBroadcast,
};

/**
 * The algorithm and the plan of an all-reduce. `chunks` are the parts of the tensor; one rank sums
 * each part.
 */
export interface AllReduceChoice extends AlgorithmChoice {
  readonly name: AllReduceName;
  readonly chunks: Displacements;
}

/** Returns the plan of an all-reduce of `length` elements over `n` ranks. */
export function allReducePlanner(name: AllReduceName, n: number, length: number): CollectivePlanner {
  const planOf = ALL_REDUCE_PLANS[ALL_REDUCE_CODES[name]]!;
  return (rank) => planOf(rank, n, length);
}

/** Returns the algorithm that `auto` chooses; see {@link chooseAllReduceAlgorithm}. */
export function autoAlgorithm(...options: Parameters<typeof chooseAllReduceAlgorithm>): AllReduceName {
  return ALL_REDUCE_NAMES_BY_CODE.get(chooseAllReduceAlgorithm(...options))!;
}

/** Returns the milliseconds that the cost model expects for an all-reduce. */
export function expectedAllReduceMs(name: AllReduceName, n: number, bytes: number): number {
  return estimateRoundsMs(allReduceRounds(ALL_REDUCE_CODES[name], n, bytes), n, DEFAULT_NETWORK_COSTS);
}

/**
 * Returns the number of chunks of the algorithm. One rank sums a chunk; with halving-doubling, only
 * a power of two of the ranks sum chunks, and with doubling, all ranks sum the whole tensor.
 */
export function chunkCountOf(name: AllReduceName, n: number): number {
  if (name === 'doubling') return 1;
  return name === 'halving-doubling' ? 2 ** Math.floor(Math.log2(n)) : n;
}

/**
 * Returns the plan of an all-reduce of `tensor` over `n` ranks.
 *
 * @param name an algorithm that `whyAlgorithmCannotRun` accepts.
 * @param served the ring's links that go through the signaling server.
 */
export function planAllReduce(
  { length, byteLength }: TypedArray,
  n: number,
  name: AlgorithmName = 'auto',
  codec: Codec | null = null,
  served = NO_SERVED_PAIRS,
): AllReduceChoice {
  const bytes = codec?.bytesOf(length) ?? byteLength;
  const chosen = name === 'auto' ? autoAlgorithm(n, bytes, codec !== null, served) : name;
  return {
    name: chosen,
    algorithm: ALL_REDUCE_CODES[chosen],
    plan: allReducePlanner(chosen, n, length),
    chunks: evenDisplacements(length, chunkCountOf(chosen, n)),
  };
}

/** Chooses the algorithm for an all-gather of n parts. */
export function planAllGather(
  { byteLength }: TypedArray,
  displacements: Displacements,
  served: ServedPairs,
): AlgorithmChoice {
  const n = displacements.length - 1;
  const algorithm = chooseAllGatherAlgorithm(n, byteLength, served);
  const planOf = algorithm === AlgorithmCode.RING ? planRingAllGather : planBruckAllGather;
  return { algorithm, plan: (rank) => planOf(rank, n, displacements) };
}

/** The ranks of a reduce or broadcast, and the links of their ring through the server. */
interface RootedGroup {
  readonly ranks: readonly number[];
  readonly served: ServedPairs;
}

export function planReduce(
  tensor: TypedArray,
  root: number,
  group: RootedGroup,
  options: RootedOptions,
): AlgorithmChoice {
  return rootedOf(REDUCE_PLANS, tensor, root, group, options);
}

export function planBroadcast(
  tensor: TypedArray,
  root: number,
  group: RootedGroup,
  options: RootedOptions,
): AlgorithmChoice {
  return rootedOf(BROADCAST_PLANS, tensor, root, group, options);
}

function rootedOf(
  plans: Partial<Record<AlgorithmCode, RootedPlanner>>,
  { length, byteLength }: TypedArray,
  root: number,
  { ranks, served }: RootedGroup,
  options: RootedOptions,
): AlgorithmChoice {
  const n = ranks.length;
  const algorithm =
    options.algorithm === 'direct' ? AlgorithmCode.DIRECT : chooseRootedAlgorithm(n, byteLength, served);
  const planOf = plans[algorithm]!;
  return { algorithm, plan: (rank) => planOf(rank, n, root, length) };
}
