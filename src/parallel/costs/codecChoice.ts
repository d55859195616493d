/**
 * Chooses a codec from measured steps: the one with the least rounding that keeps communication a
 * small part of a step. If no codec does that, a codec with about the shortest steps is chosen. All
 * ranks compute the choice from the same numbers, so all choose the same codec.
 */
import { DEFAULT_NETWORK_COSTS } from '../../collectives/plans/costModel.ts';
import { ringStepCount } from '../../collectives/plans/ringPlan.ts';
import type { CodecChoice } from '../../protocol/runResult.ts';
import { CODEC_NAMES, type JobCodecName } from '../../spec/codecs.ts';
import { STRATEGIES, STRATEGY_NAMES, type StrategyName } from '../../spec/strategies.ts';
import { valuesByCodec, gradientExchangeMs, bytesSentInAllReduce, type EncodedGradients } from './exchangeCosts.ts';

/** Median times of steps with fp32, combined over all ranks. */
export type MeasuredSteps = Pick<CodecChoice, 'ownMs' | 'communicateMs' | 'exposedMs'>;

/**
 * A codec is good enough if communication takes at most this share of a step. Less communication
 * would not be worth more rounding.
 */
const ENOUGH = 0.2;
/**
 * Used if no codec keeps communication within `ENOUGH`. A codec with more rounding is then chosen
 * only if it shortens a step to less than this share.
 */
const WORTH = 0.9;
/** If communication takes more than this share of a step, ranks should communicate less often. */
const TOO_MUCH = 0.5;
/** Factor by which the measured communication time may be too high or too low. */
const DOUBT = 2;

/** Chooses the codec of the next steps. */
export function chooseCodec(worldSize: number, gradients: EncodedGradients, steps: MeasuredSteps): CodecChoice {
  const { ownMs, communicateMs, exposedMs } = steps;
  // The latency is that of usual hops, but at most half of the measured time. If communication took
  // less than twice the usual latency, the hops of this group are faster than usual.
  const latencyMs = Math.min(communicateMs / 2, ringStepCount(worldSize) * DEFAULT_NETWORK_COSTS.hopMs);
  const bytesPerMs = bytesSentInAllReduce(worldSize, gradients.fp32.bytes) / (communicateMs - latencyMs);
  const hiddenMs = communicateMs - exposedMs;
  const expectedMs = valuesByCodec((codec) =>
    Math.max(0, gradientExchangeMs(codec, gradients, worldSize, { latencyMs, bytesPerMs }) - hiddenMs),
  );
  const shareOf = (ms: number): number => ms / (ownMs + ms);
  const codec = CODEC_NAMES.find((name) => shareOf(expectedMs[name]) <= ENOUGH) ?? quickest(ownMs, expectedMs);
  const isTooMuch = shareOf(expectedMs[codec]) > TOO_MUCH;
  const suggestion = isTooMuch ? seldomEnough((period) => shareOf(exposedMs / period) <= ENOUGH) : null;
  return { codec, ownMs, communicateMs, exposedMs, bytesPerMs, expectedMs, suggestion };
}

/**
 * Returns the first strategy that exchanges seldom enough. If none does, returns the strategy
 * with the longest period between exchanges.
 */
function seldomEnough(isEnough: (period: number) => boolean): StrategyName {
  const local = STRATEGY_NAMES.filter((name) => STRATEGIES[name].local !== null);
  const longest = local.reduce((best, next) => (periodOf(next) > periodOf(best) ? next : best));
  return local.find((name) => isEnough(periodOf(name))) ?? longest;
}

/** Whether the choice stays the same if communication takes half or twice the measured time. */
export function isCodecChoiceCertain(worldSize: number, gradients: EncodedGradients, steps: MeasuredSteps): boolean {
  const { ownMs, communicateMs, exposedMs } = steps;
  const chosen = [1 / DOUBT, 1, DOUBT].map((times) => {
    const more = (times - 1) * communicateMs;
    const scaled = { ownMs, communicateMs: communicateMs + more, exposedMs: Math.max(0, exposedMs + more) };
    return chooseCodec(worldSize, gradients, scaled).codec;
  });
  return new Set(chosen).size === 1;
}

/** Returns the codec with the least rounding among the codecs with about the shortest steps. */
function quickest(ownMs: number, expectedMs: Record<JobCodecName, number>): JobCodecName {
  const stepOf = (codec: JobCodecName): number => ownMs + expectedMs[codec];
  return CODEC_NAMES.reduce((best, next) => (stepOf(next) < WORTH * stepOf(best) ? next : best));
}

function periodOf(name: StrategyName): number {
  return STRATEGIES[name].syncEvery ?? 1;
}
