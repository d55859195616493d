/** Estimates how long ranks take to average a gradient, with each codec. */
import { codecByName, encodedBytes } from '../../collectives/codecs.ts';
import { ringStepCount } from '../../collectives/plans/ringPlan.ts';
import { CODEC_NAMES, CODECS, isCollectiveCodec, type JobCodecName } from '../../spec/codecs.ts';
import type { Variable } from '../backward/flatten.ts';
import { GRADIENT_CODECS } from '../ddp/gradientCodecs.ts';
import type { ExchangeSpeed } from './measureExchangeSpeed.ts';

export interface EncodedGradient {
  bytes: number;
  /** Milliseconds of encoding and decoding. */
  codingMs: number;
}

/** For each codec: size and coding time of a gradient. */
export type EncodedGradients = Readonly<Record<JobCodecName, EncodedGradient>>;

/**
 * Returns sizes and coding times of a model's gradient.
 *
 * @param matrixRank rank of PowerSGD's matrices.
 */
export function encodedGradients(parameters: readonly Variable[], matrixRank: number): EncodedGradients {
  const elements = parameters.reduce((sum, { size }) => sum + size, 0);
  const plainBytes = elements * Float32Array.BYTES_PER_ELEMENT;
  return valuesByCodec((codec) => ({
    bytes: isCollectiveCodec(codec)
      ? encodedBytes(codecByName(codec), elements)
      : GRADIENT_CODECS[codec].bytesOf(parameters, matrixRank),
    codingMs: plainBytes * CODECS[codec].codingMsPerByte(matrixRank),
  }));
}

export function valuesByCodec<Value>(valueOf: (codec: JobCodecName) => Value): Record<JobCodecName, Value> {
  return Object.fromEntries(CODEC_NAMES.map((codec) => [codec, valueOf(codec)])) as Record<JobCodecName, Value>;
}

/** Returns the number of bytes that a rank sends in an all-reduce of `bytes` bytes. */
export function bytesSentInAllReduce(worldSize: number, bytes: number): number {
  return (ringStepCount(worldSize) * bytes) / worldSize;
}

/** Returns the milliseconds that ranks need to average a gradient; 0 for a rank that is alone. */
export function gradientExchangeMs(
  codec: JobCodecName,
  gradients: EncodedGradients,
  worldSize: number,
  { latencyMs, bytesPerMs }: ExchangeSpeed,
): number {
  if (worldSize === 1) return 0;
  const { bytes, codingMs } = gradients[codec];
  return CODECS[codec].exchanges * latencyMs + bytesSentInAllReduce(worldSize, bytes) / bytesPerMs + codingMs;
}
