/**
 * The codecs: encodings of the gradients that ranks exchange, from lossless to most lossy. All that
 * forms, checks and cost models know about a codec is in its row.
 */

/** Facts about a codec. */
export interface CodecFacts {
  /**
   * Where it encodes. `hop`: each all-reduce encodes the values that it sends, by a `Codec` of
   * `src/collectives/codecs.ts`. `gradient`: a hook of DDP replaces a gradient by smaller tensors,
   * which travel as float32. `null`: nothing is encoded.
   */
  encodes: 'hop' | 'gradient' | null;
  /** Number of all-reduces of a step, one after the other. */
  exchanges: number;
  /**
   * Measured time of encoding and decoding on one core, milliseconds per byte of gradient. PowerSGD
   * multiplies matrices; its value is for matrix rank 8.
   */
  codingMsPerByte: number;
  /** Whether values between the stages of a pipeline can have it. */
  fitsPipelines: boolean;
}

export const CODECS = {
  fp32: { encodes: null, exchanges: 1, codingMsPerByte: 0, fitsPipelines: true },
  fp16: { encodes: 'hop', exchanges: 1, codingMsPerByte: 4e-6, fitsPipelines: true },
  int8: { encodes: 'hop', exchanges: 1, codingMsPerByte: 2e-6, fitsPipelines: false },
  powersgd: { encodes: 'gradient', exchanges: 2, codingMsPerByte: 2e-5, fitsPipelines: false },
} as const satisfies Record<string, CodecFacts>;

/** A run's codec. */
export type JobCodec = keyof typeof CODECS;

/** The codecs that all-reduces implement. With `fp32`, values are sent unchanged. */
export type CodecName = {
  [Name in JobCodec]: (typeof CODECS)[Name]['encodes'] extends 'gradient' ? never : Name;
}[JobCodec];

export const CODEC_NAMES = Object.keys(CODECS) as JobCodec[];

/** Whether all-reduces implement the codec. */
export function isCollectiveCodec(codec: PlannedCodec): codec is CodecName {
  return codec !== 'auto' && CODECS[codec].encodes !== 'gradient';
}

/** The codecs of all-reduces. */
export const COLLECTIVE_CODECS = CODEC_NAMES.filter(isCollectiveCodec);

/**
 * The codecs that a job can name. With `auto`, the ranks measure their first steps and then choose
 * one of {@link CODEC_NAMES} together.
 */
export type PlannedCodec = JobCodec | 'auto';
export const PLANNED_CODECS: readonly PlannedCodec[] = [...CODEC_NAMES, 'auto'];
