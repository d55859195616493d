/**
 * Estimates the time of a step with each method, and chooses a method. All ranks get the same
 * result from the same figures.
 */
import { ringStepCount } from '../../collectives/plans/ringPlan.ts';
import type { MethodTestResult } from '../../protocol/runResult.ts';
import {
  methodChangesLearning,
  LEARNING_METHOD_NAMES,
  learningMethodByName,
  type StrategyWithCodec,
} from '../../spec/methods.ts';
import { STRATEGIES, type ModelKind, type StrategyFacts } from '../../spec/strategies.ts';
import { sparseSentShare } from '../sparse/ownerRanges.ts';
import { gradientExchangeMs, bytesSentInAllReduce, type EncodedGradients } from './exchangeCosts.ts';
import type { ExchangeSpeed } from './measureExchangeSpeed.ts';

export interface MeasuredMethodCosts extends ExchangeSpeed {
  worldSize: number;
  learner: ModelKind;
  gradients: EncodedGradients;
  /** Milliseconds of a step without communication, on the slowest rank. */
  ownMs: number;
  /**
   * Milliseconds of {@link ownMs} in which the rank's thread computes, so that frames have to wait;
   * 0 on a GPU.
   */
  busyMs: number;
}

type MethodCost = MethodTestResult['costs'][number];

/**
 * Milliseconds per byte of the gradient that SparseLoCo needs to find, send and apply the largest
 * changes.
 */
const SPARSE_CODING_MS_PER_BYTE = 1.2e-5;
/**
 * A method that changes training more than another method must save more than a tenth of the
 * other's time. Estimates are not more exact than that.
 */
const WORTH = 0.9;

/** Returns the costs of all methods, in the order of {@link LEARNING_METHOD_NAMES}. */
export function methodCosts(measured: MeasuredMethodCosts): MethodCost[] {
  const costs = LEARNING_METHOD_NAMES.map((method) => {
    const { stepMs, bytesPerStep } = stepCost(learningMethodByName(method), measured);
    return {
      method,
      stepMs,
      bytesPerStep,
      timeToGoal: stepMs * learningMethodByName(method).stepsToGoal[measured.learner],
    };
  });
  const least = Math.min(...costs.map(({ timeToGoal }) => timeToGoal));
  return costs.map((cost) => ({ ...cost, timeToGoal: cost.timeToGoal / least }));
}

function stepCost(
  { strategy, codec }: StrategyWithCodec,
  measured: MeasuredMethodCosts,
): { stepMs: number; bytesPerStep: number } {
  const { worldSize, gradients, learner, ownMs, latencyMs } = measured;
  const { local, syncEvery, languageModel }: StrategyFacts = STRATEGIES[strategy];
  const bytes = bytesSentInAllReduce(worldSize, gradients[codec].bytes);
  const allReduceMs = gradientExchangeMs(codec, gradients, worldSize, measured);
  if (local === null) return { stepMs: ownMs + allReduceMs, bytesPerStep: bytes };
  const steps = (learner === 'language model' ? languageModel.syncEvery : null) ?? syncEvery!;
  if (local.isSparse) return sparseStepCost(measured, steps);
  const bytesPerStep = bytes / steps;
  // An exchange has a second all-reduce, of samples and losses. It costs the latency once more.
  if (local.streaming === null) return { stepMs: ownMs + (latencyMs + allReduceMs) / steps, bytesPerStep };
  const { fragments, delay } = local.streaming;
  // Ranks compute while a fragment travels. At each hop, the fragment waits for half of a step's
  // busy time on average.
  const waitMs = (ringStepCount(worldSize) * measured.busyMs) / 2;
  const fragmentMs = 2 * (latencyMs + waitMs) + (allReduceMs - latencyMs) / fragments;
  return { stepMs: ownMs + (Math.max(0, fragmentMs - delay * ownMs) * fragments) / steps, bytesPerStep };
}

function sparseStepCost({ worldSize, gradients, ownMs, latencyMs, bytesPerMs }: MeasuredMethodCosts, steps: number) {
  if (worldSize === 1) return { stepMs: ownMs, bytesPerStep: 0 };
  const sent = sparseSentShare(worldSize).share * gradients.fp32.bytes;
  const codingMs = gradients.fp32.bytes * SPARSE_CODING_MS_PER_BYTE;
  // The two all-gathers of an exchange together have as many hops as one all-reduce. The all-reduce
  // of samples and losses adds as many.
  return { stepMs: ownMs + (2 * latencyMs + sent / bytesPerMs + codingMs) / steps, bytesPerStep: sent / steps };
}

/**
 * Returns the methods that reach a goal soonest: `best` among all methods, and `unchanged` among
 * those that learn the same as `ddp`.
 */
export function chooseMethods(costs: readonly MethodCost[]): { best: string; unchanged: string } {
  const soonest = (all: readonly MethodCost[]): string =>
    all.reduce((best, next) => (next.timeToGoal < WORTH * best.timeToGoal ? next : best)).method;
  return { best: soonest(costs), unchanged: soonest(costs.filter(({ method }) => !methodChangesLearning(method))) };
}
