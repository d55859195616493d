/** The codecs that replace a gradient by smaller tensors. The hooks of DDP implement them. */
import type { CollectiveCodecName, JobCodecName } from '../../spec/codecs.ts';
import type { CodecOptions } from '../../spec/plan.ts';
import type { Variable } from '../backward/flatten.ts';
import type { CommHook } from './commHooks.ts';
import { powerSgdCompressedSize, createPowerSgdHook } from './powerSgd.ts';

export interface HookOptions extends CodecOptions {
  /** Rank of PowerSGD's matrices. */
  matrixRank: number;
  /** Number of uncompressed steps at the start. */
  plainSteps: number;
}

interface GradientCodec {
  /** Returns the number of bytes that the hook sends for the gradients of these parameters. */
  bytesOf(parameters: readonly Pick<Variable, 'shape'>[], matrixRank: number): number;
  createHook(options: HookOptions): CommHook;
}

export const GRADIENT_CODECS: Readonly<Record<Exclude<JobCodecName, CollectiveCodecName>, GradientCodec>> = {
  powersgd: {
    bytesOf: (parameters, matrixRank) =>
      parameters.reduce((sum, { shape }) => sum + powerSgdCompressedSize(shape, matrixRank), 0) *
      Float32Array.BYTES_PER_ELEMENT,
    createHook: ({ matrixRank, plainSteps, errorFeedback }) =>
      createPowerSgdHook({
        matrixApproximationRank: matrixRank,
        startPowerSgdIter: plainSteps,
        useErrorFeedback: errorFeedback,
      }),
  },
};
