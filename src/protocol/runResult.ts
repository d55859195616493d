/** The result of a run, for the event `finished` and the launcher's files. */
import * as v from 'valibot';
import { Confusion } from './confusion.ts';
import { count, finite, hash, perRank, text, worldSize } from './scalars.ts';
import { Device } from './room.ts';
import { MAX_PROMPT } from '../spec/gpt.ts';
import { Metrics } from '../spec/measures.ts';
import { CODEC_NAMES, STRATEGY_NAMES } from '../spec/names.ts';

/** Characters: a byte-pair token may be a long word. */
const MAX_SAMPLE_LENGTH = 4000;

/** The reason for the ranks' choice of a codec: medians of the first steps, with fp32. */
export const CodecChoice = v.object({
  codec: v.picklist(CODEC_NAMES),
  /** Milliseconds of a step in which a rank computes, reads gradients back and updates. */
  ownMs: finite,
  /** Milliseconds of communication, and the exposed part. */
  communicateMs: finite,
  exposedMs: finite,
  /** Throughput of a rank's line, bytes per millisecond. */
  bytesPerMs: finite,
  /** Expected exposed communication of a step with each codec, milliseconds. */
  expectedMs: v.object({ fp32: finite, fp16: finite, int8: finite, powersgd: finite }),
  /**
   * A strategy to try, if communication takes longer than computation with any codec. It is not
   * chosen automatically.
   */
  suggestion: v.nullable(v.picklist(['local-sgd', 'diloco'])),
});
export type CodecChoice = v.InferOutput<typeof CodecChoice>;

/** A text that a language model generated during training. */
export const WrittenSample = v.object({
  /** Steps taken before it, and the loss of the last. */
  steps: count,
  loss: finite,
  /** The prompt. */
  prompt: text(MAX_PROMPT),
  text: text(MAX_SAMPLE_LENGTH),
});
export type WrittenSample = v.InferOutput<typeof WrittenSample>;

/** The result of a range test. */
export const RateTest = v.object({
  /** Learning rates of all steps with a loss. */
  rates: v.array(finite),
  /** Smoothed losses of the same steps. */
  losses: v.array(finite),
  /** The rate at which the loss fell most steeply; `null` if no rate was found, for `reason`. */
  suggested: v.nullable(finite),
  /** `flat`: the loss did not fall clearly. `short`: there were too few steps. */
  reason: v.nullable(v.picklist(['flat', 'short'])),
});
export type RateTest = v.InferOutput<typeof RateTest>;

export const RunResultSchema = v.object({
  worldSize,
  strategy: v.picklist(STRATEGY_NAMES),
  /** The codec at the end, and the reason if ranks chose it. */
  codec: v.picklist(CODEC_NAMES),
  choice: v.optional(CodecChoice),
  ...Device.entries,
  /**
   * The links between ring neighbours: `memory` if all are inside one browser, `mixed` if some are,
   * `none` in a world of one, `unknown` for a Trainer's group without ring links.
   */
  transport: v.picklist(['webrtc', 'memory', 'mixed', 'none', 'unknown']),
  steps: count,
  /** Epochs, complete or started. */
  epochs: count,
  /** Mean training loss over the last step's samples, all ranks; with a Trainer's regularizers. */
  loss: finite,
  /**
   * Share of held-out samples classified correctly, over all ranks; `null` if there are none, or
   * the task does not classify.
   */
  accuracy: v.nullable(finite),
  /** Other metrics of held-out samples that the job asks for; for amounts, `rmse` by default. */
  metrics: v.optional(Metrics),
  /** Mean loss over the held-out samples; `null` if there are none. */
  valLoss: v.nullable(finite),
  /** In runs with `patience`: the lowest such loss, and the number of steps before it. */
  best: v.exactOptional(v.object({ step: count, valLoss: finite })),
  /** The confusion matrix of all held-out samples, if there are few classes. */
  confusion: v.optional(Confusion),
  /** One per rank, in rank order. */
  stateHash: perRank(hash),
  /**
   * Bytes of frames sent for gradients (or parameters, depending on the strategy), one per rank.
   * Headers are included; start-up, statistics and evaluation are not.
   */
  bytesSentPerRank: perRank(count),
  /** Bytes of such frames received, one per rank. */
  bytesReceivedPerRank: perRank(count),
  /** Bytes sent for everything else (parameters, hashes, statistics, evaluation), one per rank. */
  otherBytesSentPerRank: perRank(count),
  /**
   * Bytes of one gradient in one exchange, with the codec; for PowerSGD, in its compressed steps.
   */
  gradientBytes: count,
  /** Bytes of tensors at the end, one per rank; on a GPU, of the buffers there. */
  memoryBytesPerRank: perRank(count),
  /**
   * Job `gpt` only: the loss of a bigram model on the held-out text, in nats per character as all
   * losses of this job, and the generated texts.
   */
  bigramLoss: v.optional(finite),
  samples: v.optional(v.array(WrittenSample)),
  stepMs: v.object({ median: finite, p95: finite, compute: finite, communicate: finite, exposed: finite }),
  /** Mean loss of every step, over all ranks' samples. */
  losses: v.array(finite),
  /** Result of a range test, which evaluates no held-out samples and restores the model. */
  rateTest: v.optional(RateTest),
  /** Changes of the ranks since this rank began. */
  restarts: count,
  ms: finite,
});
export interface RunResult extends v.InferOutput<typeof RunResultSchema> {}
