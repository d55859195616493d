/**
 * Estimates the time of a step with each method, and chooses a method. The same figures have the
 * same result on all ranks.
 */
import { codecOf } from '../../collectives/codecs.ts';
import type { MethodComparison } from '../../protocol/runResult.ts';
import { METHOD_NAMES, changesLearning, type MethodName } from '../../spec/methods.ts';
import { DILOCO_STEPS, STREAMING } from '../localSteps/periods.ts';
import { sentShare } from '../sparse/ownerRanges.ts';
import { PAYLOAD_SHARE } from '../sparse/sparseMean.ts';
import type { LinkFigures } from './measureLinks.ts';

export interface Measured extends LinkFigures {
  worldSize: number;
  learner: Learner;
  /** Number of parameters, and bytes of PowerSGD's matrices. */
  size: number;
  powerSgdBytes: number;
  /** Number of steps between two exchanges of SparseLoCo. */
  sparseSteps: number;
  /** Milliseconds of a step without communication, on the slowest rank. */
  ownMs: number;
  /**
   * Milliseconds of this step in which the rank's thread computes, so that frames wait. 0 on a GPU.
   */
  busyMs: number;
}

type MethodCost = MethodComparison['costs'][number];

/** Kinds of models that need different numbers of steps. */
export type Learner = 'classifier' | 'language model';

/**
 * Number of steps until a goal is reached, as a multiple of those of `ddp`; measured with 4 ranks
 * and each strategy's default settings.
 */
const STEPS_TO_GOAL: Record<Learner, Record<MethodName, number>> = {
  /** An mlp with 256 hidden units on MNIST, batches of 32, until 90 % accuracy; mean of 8 seeds. */
  classifier: {
    ddp: 1,
    'ddp-int8': 1,
    'ddp-powersgd': 1.8,
    diloco: 2.5,
    'streaming-diloco': 2.1,
    sparseloco: 2.6,
  },
  /**
   * The job gpt with the preset tiny, until 2.2 nats per character of held-out text. `diloco` did
   * not reach this loss in 1600 steps; its number is for 2.4 nats.
   */
  'language model': {
    ddp: 1,
    'ddp-int8': 1,
    'ddp-powersgd': 2.2,
    diloco: 4.5,
    'streaming-diloco': 1.9,
    sparseloco: 1.7,
  },
};
/** Measured time of encoding and decoding on one core, milliseconds per byte of gradient. */
const CODING_MS_PER_BYTE = { int8: 2e-6, powersgd: 1e-5, sparse: 1.2e-5 };
/**
 * A method that changes more must save more than a tenth of the time, because estimates are not
 * more exact.
 */
const WORTH = 0.9;

/** Returns the costs of all methods, in the order of {@link METHOD_NAMES}. */
export function methodCosts(measured: Measured): MethodCost[] {
  const { worldSize: n, learner, size, powerSgdBytes, sparseSteps, ownMs, busyMs, latencyMs, bytesPerMs } = measured;
  const bytes = size * Float32Array.BYTES_PER_ELEMENT;
  const int8Bytes = codecOf('int8')!.bytesOf(size);
  /** Bytes that a rank sends in an all-reduce of so many bytes, and their time. */
  const sent = (reduced: number): number => (2 * (n - 1) * reduced) / n;
  const wireMs = (reduced: number): number => sent(reduced) / bytesPerMs;
  const codingMs = (codec: keyof typeof CODING_MS_PER_BYTE): number =>
    n === 1 ? 0 : bytes * CODING_MS_PER_BYTE[codec];
  const period = DILOCO_STEPS / STREAMING.fragments;
  // A fragment travels during steps. At each hop, it waits for half a step on average.
  const hops = 2 * (n - 1);
  const fragmentMs =
    2 * (latencyMs + (hops * busyMs) / 2) + (wireMs(int8Bytes) + codingMs('int8')) / STREAMING.fragments;
  const sparse = sentShare(n, PAYLOAD_SHARE).share * bytes;
  // An exchange of local steps also all-reduces the samples and losses.
  const steps: Record<MethodName, [stepMs: number, bytesPerStep: number]> = {
    ddp: [ownMs + latencyMs + wireMs(bytes), sent(bytes)],
    'ddp-int8': [ownMs + latencyMs + wireMs(int8Bytes) + codingMs('int8'), sent(int8Bytes)],
    // PowerSGD has two all-reduces, one after the other.
    'ddp-powersgd': [ownMs + 2 * latencyMs + wireMs(powerSgdBytes) + codingMs('powersgd'), sent(powerSgdBytes)],
    diloco: [
      ownMs + (2 * latencyMs + wireMs(int8Bytes) + codingMs('int8')) / DILOCO_STEPS,
      sent(int8Bytes) / DILOCO_STEPS,
    ],
    // Ranks compute while a fragment travels.
    'streaming-diloco': [
      ownMs + Math.max(0, fragmentMs - STREAMING.delay * ownMs) / period,
      sent(int8Bytes) / DILOCO_STEPS,
    ],
    // Two all-gathers have together the hops of an all-reduce.
    sparseloco: [
      ownMs + (2 * latencyMs + sparse / bytesPerMs + codingMs('sparse')) / sparseSteps,
      sparse / sparseSteps,
    ],
  };
  const stepsToGoal = STEPS_TO_GOAL[learner];
  const least = Math.min(...METHOD_NAMES.map((method) => steps[method][0] * stepsToGoal[method]));
  return METHOD_NAMES.map((method) => {
    const [stepMs, bytesPerStep] = steps[method];
    return { method, stepMs, bytesPerStep, timeToGoal: (stepMs * stepsToGoal[method]) / least };
  });
}

/**
 * Returns the methods that reach a goal soonest, of all and of those that learn what `ddp` learns.
 */
export function chooseMethods(costs: readonly MethodCost[]): { best: MethodName; unchanged: MethodName } {
  const soonest = (all: readonly MethodCost[]): MethodName =>
    all.reduce((best, next) => (next.timeToGoal < WORTH * best.timeToGoal ? next : best)).method;
  return { best: soonest(costs), unchanged: soonest(costs.filter(({ method }) => !changesLearning(method))) };
}
