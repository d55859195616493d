/**
 * Bytes between neighbouring stages of the language model: activations, their gradients, and the
 * gradients of a stage's weights, which it sends to its mirror on the next rank.
 */
import { jobOf } from './jobs.ts';
import { trainInProcess } from './trainInProcess.ts';

const STEPS = 2;
/** Samples of a rank and step. */
const BATCH = 8;

export const CODECS = ['fp32', 'fp16'] as const;
export type BoundaryCodec = (typeof CODECS)[number];
const BYTES_PER_VALUE: Record<BoundaryCodec, number> = { fp32: 4, fp16: 2 };

export interface BoundaryRow {
  stages: number;
  codec: BoundaryCodec;
  /** Bytes of a step over a boundary, in both directions. */
  bytes: number;
  /** 2 d values per token. */
  values: number;
  /** Gradients for the mirror: K/S on average. */
  mirrored: number;
}

/** Returns the bytes of `samples` samples over a boundary: 2 d values per token. */
export function boundaryBytes(
  { context, width }: { context: number; width: number },
  samples: number,
  codec: BoundaryCodec,
): number {
  return 2 * width * context * samples * BYTES_PER_VALUE[codec];
}

/**
 * Trains a pipeline over memory links. It is a ring, so it has as many boundaries as ranks, and all
 * of them have the same width.
 */
export async function measureBoundaries(stages: number, codec: BoundaryCodec): Promise<BoundaryRow> {
  const plan = { batchSize: BATCH, maxSteps: STEPS, hashEvery: 1000 };
  const job = jobOf('gpt', { ...plan, pipeline: stages, microBatches: 2 * stages, codec });
  const [result] = await trainInProcess(stages, job);
  const sent = result!.bytesSentPerRank.reduce((sum, bytes) => sum + bytes, 0);
  const values = boundaryBytes(job.gpt, BATCH * stages, codec);
  return { stages, codec, bytes: sent / STEPS / stages, values, mirrored: result!.gradientBytes / stages };
}
