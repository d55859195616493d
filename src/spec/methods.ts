/**
 * The methods that a measuring run compares: strategies and codecs that differ in
 * how much they send.
 */
import type { PlannedCodec } from './codecs.ts';
import type { StrategyName } from './strategies.ts';

/** From those that change least what is learned to those that change most. */
export const METHOD_NAMES = ['ddp', 'ddp-int8', 'ddp-powersgd', 'diloco', 'streaming-diloco', 'sparseloco'] as const;
export type MethodName = (typeof METHOD_NAMES)[number];

/** The fields of a job that choose the method. */
export const METHOD_FIELDS: Record<MethodName, { strategy: StrategyName; codec: PlannedCodec }> = {
  ddp: { strategy: 'ddp', codec: 'fp32' },
  'ddp-int8': { strategy: 'ddp', codec: 'int8' },
  'ddp-powersgd': { strategy: 'ddp', codec: 'powersgd' },
  diloco: { strategy: 'diloco', codec: 'int8' },
  'streaming-diloco': { strategy: 'streaming-diloco', codec: 'int8' },
  sparseloco: { strategy: 'sparseloco', codec: 'fp32' },
};

/**
 * Returns whether a method learns something other than `ddp` does. With a codec, `ddp` still
 * averages all gradients in every step, and residuals are sent later.
 */
export function changesLearning(method: MethodName): boolean {
  return METHOD_FIELDS[method].strategy !== 'ddp';
}
