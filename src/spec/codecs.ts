/**
 * The codecs: encodings of the gradients that ranks exchange. Rows are sorted from lossless to most
 * lossy, because `auto` chooses the first codec that makes communication short enough. Forms,
 * checks and cost models read the facts about a codec in its row, and the number of encoded bytes
 * in `Codec.bytesOf` of `src/collectives/codecs.ts` or in `GRADIENT_CODECS`.
 */

export interface CodecFacts {
  /** Its name in texts. */
  title: string;
  /**
   * Size of the encoded values as a share of their size as float32; `null` if nothing is encoded or
   * if the share varies.
   */
  share: string | null;
  /**
   * Where the codec encodes. `hop`: each all-reduce encodes the values that it sends, by a `Codec`
   * of `src/collectives/codecs.ts`. `gradient`: a hook of DDP replaces a gradient by smaller
   * tensors, which travel as float32. `null`: nothing is encoded.
   */
  encodes: 'hop' | 'gradient' | null;
  /** Number of all-reduces of a step that run one after the other. */
  exchanges: number;
  /**
   * Returns the measured time on one core to encode with a residual and to decode with `addTo`, in
   * milliseconds per byte of gradient.
   *
   * @param matrixRank rank of PowerSGD's matrices. Other codecs ignore it.
   */
  codingMsPerByte: (matrixRank: number) => number;
  /**
   * Whether the values that stages of a pipeline exchange can be encoded with this codec. Its
   * errors must be small, because pipelines have no error feedback.
   */
  fitsPipelines: boolean;
}

export const CODECS = {
  fp32: { title: 'fp32', share: null, encodes: null, exchanges: 1, codingMsPerByte: () => 0, fitsPipelines: true },
  fp16: { title: 'fp16', share: '1/2', encodes: 'hop', exchanges: 1, codingMsPerByte: () => 4e-6, fitsPipelines: true },
  int8: {
    title: 'int8',
    share: '1/4',
    encodes: 'hop',
    exchanges: 1,
    codingMsPerByte: () => 2e-6,
    fitsPipelines: false,
  },
  powersgd: {
    title: 'PowerSGD',
    share: null,
    encodes: 'gradient',
    exchanges: 2,
    codingMsPerByte: (matrixRank) => 7e-6 + 1.6e-6 * matrixRank,
    fitsPipelines: false,
  },
} as const satisfies Record<string, CodecFacts>;

/** A run's codec. */
export type JobCodecName = keyof typeof CODECS;

/** The codecs that all-reduces implement. With `fp32`, values are sent unchanged. */
export type CollectiveCodecName = {
  [Name in JobCodecName]: (typeof CODECS)[Name]['encodes'] extends 'gradient' ? never : Name;
}[JobCodecName];

export const CODEC_NAMES = Object.keys(CODECS) as JobCodecName[];

/** Whether all-reduces implement the codec. */
export function isCollectiveCodec(codec: CodecSetting): codec is CollectiveCodecName {
  return codec !== 'auto' && CODECS[codec].encodes !== 'gradient';
}

/** The codecs of all-reduces. */
export const COLLECTIVE_CODECS = CODEC_NAMES.filter(isCollectiveCodec);

export const PIPELINE_CODECS = CODEC_NAMES.filter((name) => CODECS[name].fitsPipelines);

/**
 * The codecs that a job can name. With `auto`, the ranks measure their first steps and then choose
 * one of {@link CODEC_NAMES} together.
 */
export type CodecSetting = JobCodecName | 'auto';
export const CODEC_SETTINGS: readonly CodecSetting[] = [...CODEC_NAMES, 'auto'];
