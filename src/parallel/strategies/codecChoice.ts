/**
 * Chooses a codec from measured steps: the one with the least rounding that keeps communication a
 * small part of a step. If no codec does that, a codec with about the shortest steps is chosen. All
 * ranks compute the choice from the same numbers, so all choose the same codec.
 */
import { LOCAL_SGD_STEPS } from '../localSteps/periods.ts';
import { USUAL_COSTS } from '../../collectives/plans/costModel.ts';
import { ringStepCount } from '../../collectives/plans/ringPlan.ts';
import type { CodecChoice } from '../../protocol/runResult.ts';
import { CODEC_NAMES, CODECS, type JobCodec } from '../../spec/codecs.ts';

/** Median times of steps with fp32, combined over all ranks. */
export type MeasuredSteps = Pick<CodecChoice, 'ownMs' | 'communicateMs' | 'exposedMs'>;

/** Share of a step that communication may take. A smaller share is not worth more rounding. */
const ENOUGH = 0.2;
/**
 * If no codec keeps communication within `ENOUGH`, a codec with more rounding is chosen only if its
 * steps take less than this share of the time that steps take with less rounding.
 */
const WORTH = 0.9;
/** If communication takes more than this share of a step, ranks should communicate less often. */
const TOO_MUCH = 0.5;
/** Factor by which the measured communication time may be too high or too low. */
const DOUBT = 2;

/**
 * Chooses the codec of the next steps.
 *
 * @param bytes number of bytes of one gradient with each codec.
 */
export function chooseCodec(worldSize: number, bytes: Record<JobCodec, number>, steps: MeasuredSteps): CodecChoice {
  const { ownMs, communicateMs, exposedMs } = steps;
  const hops = ringStepCount(worldSize);
  // Latency is at most half of the measured time: if communication took less than twice the usual
  // latency of its hops, hops are faster in this group.
  const latencyMs = Math.min(communicateMs / 2, hops * USUAL_COSTS.hopMs);
  const wireMs = communicateMs - latencyMs;
  const hiddenMs = communicateMs - exposedMs;
  const expectedMs = byCodec((codec) => {
    const { exchanges, codingMsPerByte } = CODECS[codec];
    const codingMs = bytes.fp32 * codingMsPerByte;
    const ms = exchanges * latencyMs + (wireMs * bytes[codec]) / bytes.fp32 + codingMs;
    return Math.max(0, ms - hiddenMs);
  });
  const shareOf = (ms: number): number => ms / (ownMs + ms);
  const codec = CODEC_NAMES.find((name) => shareOf(expectedMs[name]) <= ENOUGH) ?? quickest(ownMs, expectedMs);
  const isTooMuch = shareOf(expectedMs[codec]) > TOO_MUCH;
  const isSeldomEnough = shareOf(exposedMs / LOCAL_SGD_STEPS) <= ENOUGH;
  return {
    codec,
    ownMs,
    communicateMs,
    exposedMs,
    bytesPerMs: (hops * bytes.fp32) / worldSize / wireMs,
    expectedMs,
    suggestion: isTooMuch ? (isSeldomEnough ? 'local-sgd' : 'diloco') : null,
  };
}

/** Whether the choice stays the same if communication takes half or twice the measured time. */
export function isBeyondDoubt(worldSize: number, bytes: Record<JobCodec, number>, steps: MeasuredSteps): boolean {
  const { ownMs, communicateMs, exposedMs } = steps;
  const chosen = [1 / DOUBT, 1, DOUBT].map((times) => {
    const more = (times - 1) * communicateMs;
    const scaled = { ownMs, communicateMs: communicateMs + more, exposedMs: Math.max(0, exposedMs + more) };
    return chooseCodec(worldSize, bytes, scaled).codec;
  });
  return new Set(chosen).size === 1;
}

/** Returns the codec with the least rounding among the codecs with about the shortest steps. */
function quickest(ownMs: number, expectedMs: Record<JobCodec, number>): JobCodec {
  const stepOf = (codec: JobCodec): number => ownMs + expectedMs[codec];
  return CODEC_NAMES.reduce((best, next) => (stepOf(next) < WORTH * stepOf(best) ? next : best));
}

function byCodec(msOf: (codec: JobCodec) => number): Record<JobCodec, number> {
  return {
    fp32: msOf('fp32'),
    fp16: msOf('fp16'),
    int8: msOf('int8'),
    powersgd: msOf('powersgd'),
  };
}
