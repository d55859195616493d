/** The result of a run, as the event `finished` and the launcher's files have it. */
import * as v from 'valibot';
import { Confusion } from './confusion.ts';
import { count, finite, hash, perRank, text, worldSize } from './scalars.ts';
import { Device } from './room.ts';
import { MAX_PROMPT } from '../spec/gpt.ts';
import { Metrics } from '../spec/measures.ts';
import { CODEC_NAMES, STRATEGY_NAMES } from '../spec/names.ts';

/** Characters: a token of byte pairs may be a long word. */
const MAX_SAMPLE_LENGTH = 4000;

/**
 * Why ranks chose a codec: what their first steps took, sending fp32, by the medians of the rank
 * that knows best.
 */
export const CodecChoice = v.object({
  codec: v.picklist(CODEC_NAMES),
  /**
   * What a rank does by itself in a step: computing, reading gradients back, updating.
   * Milliseconds.
   */
  ownMs: finite,
  /** Communication, and the part of it that nothing else ran beside, milliseconds. */
  communicateMs: finite,
  exposedMs: finite,
  /** What a rank's line moved, bytes per millisecond. */
  bytesPerMs: finite,
  /** What communication was expected to add to a step by each codec, milliseconds. */
  expectedMs: v.object({ fp32: finite, fp16: finite, int8: finite, powersgd: finite }),
  /**
   * A strategy worth a try, where ranks communicate for longer than they compute with any codec; it
   * is not chosen by itself.
   */
  suggestion: v.nullable(v.picklist(['local-sgd', 'diloco'])),
});
export type CodecChoice = v.InferOutput<typeof CodecChoice>;

/** A text that a language model generated during training. */
export const WrittenSample = v.object({
  /** Steps that it had taken, and the loss of the last. */
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
  /** In use at the end, and where ranks chose it, why. */
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
   * Share of held-out samples classified right, all ranks' counts together; `null` where none were,
   * or none are classified.
   */
  accuracy: v.nullable(finite),
  /**
   * What else the job asks to be told of held-out samples; of amounts, `rmse` in any job that does
   * not say.
   */
  metrics: v.optional(Metrics),
  /** Mean loss over the held-out samples; `null` where there are none. */
  valLoss: v.nullable(finite),
  /**
   * In runs that end when they get no better: the lowest such loss, and the steps after which it
   * was.
   */
  best: v.exactOptional(v.object({ step: count, valLoss: finite })),
  /** Where few classes are told apart: which was taken for which, over all held-out samples. */
  confusion: v.optional(Confusion),
  /** One per rank, in rank order. */
  stateHash: perRank(hash),
  /**
   * Bytes of frames sent for gradients (or parameters, as the strategy has it), one per rank:
   * headers included; start-up, statistics and evaluation not.
   */
  bytesSentPerRank: perRank(count),
  /** The same, received. */
  bytesReceivedPerRank: perRank(count),
  /** Bytes sent for all else (parameters, hashes, statistics, evaluation), one per rank. */
  otherBytesSentPerRank: perRank(count),
  /**
   * Bytes of what one exchange carries of one gradient, as the codec has it; of PowerSGD in its
   * compressed steps.
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
  /** Mean loss of every step, all ranks' samples together. */
  losses: v.array(finite),
  /** Result of a range test, which evaluates no held-out samples and restores the model. */
  rateTest: v.optional(RateTest),
  /** Times that the ranks changed since this one began. */
  restarts: count,
  ms: finite,
});
export interface RunResult extends v.InferOutput<typeof RunResultSchema> {}
