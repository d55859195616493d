/** The divisor that turns a step's sums into averages. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { MismatchError } from '../../util/errors.ts';

/** Sums are divided by `ranks` if it is set, otherwise by the number of samples of all ranks. */
export interface GradientDivisorOptions {
  ranks?: number;
  /** Number of samples of all ranks, if the caller knows it; see `PassOptions`. */
  totalSamples?: number;
}

/**
 * Relative tolerance when two total numbers of samples are compared. It is needed because the tally
 * is float32, and numbers of samples may be fractions.
 */
const TOTAL_TOLERANCE = 1e-5;

/**
 * Returns the divisor. Codecs and hooks need it before gradients are sent. If the caller does not
 * know the total, all ranks sum their numbers of samples.
 */
export async function gradientDivisorOf(
  group: ProcessGroup,
  samples: number,
  { ranks, totalSamples }: GradientDivisorOptions,
): Promise<number> {
  const known = ranks ?? totalSamples;
  if (known !== undefined) return known;
  const [counted] = await group.allReduce(Float32Array.of(samples));
  return counted!;
}

/**
 * Aborts the group if this rank divided by a wrong total: other ranks may have divided by the right
 * one.
 *
 * @throws MismatchError if `totalSamples` is not `counted`.
 */
export function checkTotalSamples(
  group: ProcessGroup,
  counted: number,
  { totalSamples }: GradientDivisorOptions,
): void {
  if (totalSamples === undefined || Math.abs(counted - totalSamples) <= TOTAL_TOLERANCE * totalSamples) return;
  const { rank, worldSize } = group;
  const error = new MismatchError(
    `All ranks together had ${counted} samples in this step, but totalSamples is ${totalSamples} on rank ${rank}. Pass the sum of ` +
      '`samples` over all ranks, including those of noSync.',
    { rank, worldSize, op: 'backward' },
  );
  group.abort(error);
  throw error;
}
