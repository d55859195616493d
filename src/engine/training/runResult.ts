/**
 * Creates the result of a run. It is the same on every rank, except for times, the device,
 * `restarts`, and the algorithm of a rank that has taken no step.
 */
import type { Progress } from '../../parallel/recovery/progress.ts';
import type { Device } from '../../protocol/room.ts';
import type { RunResult } from '../../protocol/runResult.ts';
import type { TrainingPlan } from '../../spec/plan.ts';
import type { EvaluationResult } from '../tasks/evaluation.ts';
import type { MethodTest } from './measuring/methodTest.ts';
import type { RangeTest } from './measuring/rangeTest.ts';
import type { JobCodec } from '../../spec/codecs.ts';
import type { RunStrategy } from './runStrategy.ts';
import type { StateComparison } from './stateComparison.ts';
import type { StepReporter } from './telemetry/stepReporter.ts';

/** What the result is made from: the state of a run on this rank at its end. */
export interface RunEnd {
  plan: TrainingPlan;
  device: Device;
  progress: Progress;
  strategy: Pick<RunStrategy, 'gradientBytes'> & { elastic: { codec: JobCodec } | null };
  reporter: StepReporter;
  tested: EvaluationResult | null;
  comparison: StateComparison;
  rangeTest: RangeTest | null;
  methodTest: Pick<MethodTest, 'comparison'> | null;
  /** The ranks' shares; see `WorkBalance.outcome`. */
  shares: readonly number[] | null;
}

export function resultOf(
  { plan, device, progress, strategy, reporter, tested, comparison, rangeTest, methodTest, shares }: RunEnd,
  end: Pick<RunResult, 'worldSize' | 'transport' | 'restarts' | 'ms' | 'pipeline'>,
): RunResult {
  const { step, position, verdicts } = progress;
  const { statistics } = comparison;
  const { choice, figures } = reporter;
  // The loss that ends a range test may be NaN or infinite, so it is left out.
  const losses = progress.losses.filter(Number.isFinite);
  const verdict = verdicts.at(-1);
  return {
    worldSize: end.worldSize,
    strategy: plan.strategy,
    ...(shares && { shares: [...shares] }),
    ...(end.pipeline && { pipeline: end.pipeline }),
    algorithm: figures.algorithm,
    codec: strategy.elastic?.codec ?? (plan.codec === 'auto' ? 'fp32' : plan.codec),
    ...(choice && { choice }),
    backend: device.backend,
    adapter: device.adapter,
    transport: end.transport,
    steps: step,
    epochs: position.epoch + (position.offset > 0 ? 1 : 0),
    loss: losses.at(-1)!,
    accuracy: tested?.accuracy ?? null,
    ...(tested?.metrics && { metrics: tested.metrics }),
    valLoss: tested?.loss ?? null,
    ...(verdict && { best: { step: verdict.bestStep, valLoss: verdict.best } }),
    ...(tested?.confusion && { confusion: tested.confusion }),
    stateHash: [...comparison.hashes],
    bytesSentPerRank: statistics.map(({ gradientBytesSent }) => gradientBytesSent),
    bytesReceivedPerRank: statistics.map(({ gradientBytesReceived }) => gradientBytesReceived),
    otherBytesSentPerRank: statistics.map(({ otherBytesSent }) => otherBytesSent),
    gradientBytes: strategy.gradientBytes,
    memoryBytesPerRank: statistics.map(({ memoryBytes }) => memoryBytes),
    stepMs: figures.stepMs,
    losses,
    ...(rangeTest && { rateTest: rangeTest.resultOf(losses) }),
    ...(methodTest?.comparison && { methods: methodTest.comparison }),
    restarts: end.restarts,
    ms: end.ms,
  };
}
