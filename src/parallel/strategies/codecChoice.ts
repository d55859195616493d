/**
 * Which codec a run needs, from how its first steps went: the one that takes least away from
 * gradients and keeps communication a small part of a step. A pure function of numbers that all
 * ranks have, so all choose the same.
 */
import { USUAL_COSTS } from '../../collectives/plans/costModel.ts';
import { ringStepCount } from '../../collectives/plans/ringPlan.ts';
import type { CodecChoice } from '../../protocol/runResult.ts';
import { CODEC_NAMES, type JobCodec } from '../../spec/names.ts';

/** Of steps that sent fp32; medians. */
export type MeasuredSteps = Pick<CodecChoice, 'ownMs' | 'communicateMs' | 'exposedMs'>;

/** Communication may take this part of a step: to save more is not worth rounding gradients. */
const ENOUGH = 0.2;
/** A codec that loses more has to make steps so much shorter. */
const WORTH = 0.9;
/** Beyond this part of a step, ranks should talk more seldom. */
const TOO_MUCH = 0.5;
/** Local SGD talks in one of so many steps (its default); DiLoCo in one of hundreds. */
const LOCAL_SGD_STEPS = 8;
/** Measured steps may be so many times off, in either direction. */
const DOUBT = 2;
/**
 * Encoding and decoding on one core, milliseconds a byte of gradient, as measured. PowerSGD
 * multiplies: this is what rank 8 takes.
 */
const CODING_MS_PER_BYTE: Record<JobCodec, number> = { fp32: 0, fp16: 4e-6, int8: 2e-6, powersgd: 2e-5 };
/** All-reduces that wait for each other. */
const EXCHANGES: Record<JobCodec, number> = { fp32: 1, fp16: 1, int8: 1, powersgd: 2 };

/** @param bytes of one gradient by each codec. */
export function chooseCodec(worldSize: number, bytes: Record<JobCodec, number>, steps: MeasuredSteps): CodecChoice {
  const { ownMs, communicateMs, exposedMs } = steps;
  const hops = ringStepCount(worldSize);
  // Where all took less than so many hops usually do, they were quicker here.
  const latencyMs = Math.min(communicateMs / 2, hops * USUAL_COSTS.hopMs);
  const wireMs = communicateMs - latencyMs;
  const hiddenMs = communicateMs - exposedMs;
  const expectedMs = byCodec((codec) => {
    const codingMs = bytes.fp32 * CODING_MS_PER_BYTE[codec];
    const ms = EXCHANGES[codec] * latencyMs + (wireMs * bytes[codec]) / bytes.fp32 + codingMs;
    return Math.max(0, ms - hiddenMs);
  });
  const shareOf = (ms: number): number => ms / (ownMs + ms);
  const codec = CODEC_NAMES.find((one) => shareOf(expectedMs[one]) <= ENOUGH) ?? quickest(ownMs, expectedMs);
  const isTooMuch = shareOf(expectedMs[codec]) > TOO_MUCH;
  const isSeldomEnough = shareOf(exposedMs / LOCAL_SGD_STEPS) <= ENOUGH;
  return {
    ...{ codec, ownMs, communicateMs, exposedMs, bytesPerMs: (hops * bytes.fp32) / worldSize / wireMs, expectedMs },
    suggestion: isTooMuch ? (isSeldomEnough ? 'local-sgd' : 'diloco') : null,
  };
}

/**
 * Whether the choice would be the same if communication took a few times more, or less, than it
 * seemed to.
 */
export function isBeyondDoubt(worldSize: number, bytes: Record<JobCodec, number>, steps: MeasuredSteps): boolean {
  const { ownMs, communicateMs, exposedMs } = steps;
  const chosen = [1 / DOUBT, 1, DOUBT].map((times) => {
    const more = (times - 1) * communicateMs;
    const scaled = { ownMs, communicateMs: communicateMs + more, exposedMs: Math.max(0, exposedMs + more) };
    return chooseCodec(worldSize, bytes, scaled).codec;
  });
  return new Set(chosen).size === 1;
}

/** Of those that make steps about as short, the one that loses least. */
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
