/**
 * Turns the plans of all ranks of an all-reduce into steps, for pictures: which rank sends which
 * chunks to which rank in each step, and whether the receiver adds or copies them. The moves are
 * those of the plans that the executor runs, so a picture always matches the algorithm. The
 * functions are pure.
 */
import { twoLevelGroupSize, type AllReduceName } from '../../spec/algorithms.ts';
import { allReducePlanner, chunkCountOf } from './algorithms.ts';
import { planStepNumbers } from './plans.ts';

/**
 * The purpose of a step. `fold` and `unfold`: with a number of ranks that is not a power of two,
 * some ranks send their tensor to a neighbour first, and receive the result at the end. `exchange`:
 * pairs add up each other's whole tensors.
 */
export type PlanStepPhase =
  | 'reduce-scatter'
  | 'all-gather'
  | 'group-reduce-scatter'
  | 'across-reduce-scatter'
  | 'across-all-gather'
  | 'group-all-gather'
  | 'fold'
  | 'halving'
  | 'doubling'
  | 'exchange'
  | 'unfold';

/** One transfer of a plan, with both of its ends. */
export interface PlanTransfer {
  readonly from: number;
  readonly to: number;
  /** The chunks `first` .. `first + count - 1`. */
  readonly first: number;
  readonly count: number;
  /** Whether the receiver adds the chunks to its own. Otherwise it copies them. */
  readonly reduces: boolean;
}

/** Transfers of all ranks that happen at the same time. */
export interface PlanStep {
  /** The number of the step in the plan, as in moves and traces. The numbers may have gaps. */
  readonly planStep: number;
  readonly phase: PlanStepPhase;
  /** The index of the step in its phase, from 0, and the number of steps of the phase. */
  readonly hop: number;
  readonly hops: number;
  /** Sorted by sender. A rank sends at most once in a step. */
  readonly transfers: readonly PlanTransfer[];
}

/** All steps of an all-reduce over `n` ranks. */
export interface AllReduceSteps {
  readonly algorithm: AllReduceName;
  readonly n: number;
  /** The number of chunks that the tensor is cut into. */
  readonly chunks: number;
  readonly steps: readonly PlanStep[];
}

/** Returns the steps of an all-reduce. The tensor has one element for each chunk. */
export function allReduceSteps(algorithm: AllReduceName, n: number): AllReduceSteps {
  const chunks = chunkCountOf(algorithm, n);
  const planner = allReducePlanner(algorithm, n, chunks);
  const byStep = new Map<number, PlanTransfer[]>();
  // A single rank sends nothing.
  const ranks = n > 1 ? Array.from({ length: n }, (_, rank) => rank) : [];
  for (const from of ranks) {
    for (const { kind, peer, step, start, end, how } of planner(from)) {
      if (kind === 'receive') continue;
      const transfers = byStep.get(step) ?? [];
      transfers.push({ from, to: peer, first: start, count: end - start, reduces: how !== 'copy' });
      byStep.set(step, transfers);
    }
  }
  const numbered = [...byStep].sort(([a], [b]) => a - b);
  const phases = numbered.map(([planStep, transfers]) => phaseOf(algorithm, n, planStep, transfers[0]!));
  const steps = numbered.map(([planStep, transfers], i): PlanStep => {
    const phase = phases[i]!;
    const first = phases.indexOf(phase);
    return { planStep, phase, hop: i - first, hops: phases.lastIndexOf(phase) - first + 1, transfers };
  });
  return { algorithm, n, chunks, steps };
}

function phaseOf(algorithm: AllReduceName, n: number, planStep: number, transfer: PlanTransfer): PlanStepPhase {
  const { from, to, reduces } = transfer;
  switch (algorithm) {
    case 'ring':
      return reduces ? 'reduce-scatter' : 'all-gather';
    case 'two-level': {
      const size = twoLevelGroupSize(n);
      const isWithin = Math.floor(from / size) === Math.floor(to / size);
      if (isWithin) return reduces ? 'group-reduce-scatter' : 'group-all-gather';
      return reduces ? 'across-reduce-scatter' : 'across-all-gather';
    }
    case 'halving-doubling':
    case 'doubling': {
      // Steps before and after those of the largest power of two.
      if (planStep === 0) return 'fold';
      if (algorithm === 'doubling') return reduces ? 'exchange' : 'unfold';
      if (reduces) return 'halving';
      return planStep > 2 * Math.floor(Math.log2(n)) ? 'unfold' : 'doubling';
    }
    default:
      return algorithm satisfies never;
  }
}

/** Returns the numbers of the plan's steps in which `rank` sends or receives, in order. */
export function planStepNumbersOfRank(algorithm: AllReduceName, n: number, rank: number): number[] {
  return planStepNumbers(allReducePlanner(algorithm, n, chunkCountOf(algorithm, n))(rank));
}
