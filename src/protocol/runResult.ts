/** The result of a run, for the event `finished` and the launcher's files. */
import * as v from 'valibot';
import { ConfusionMatrix } from './confusion.ts';
import { countSchema, finiteSchema, hashSchema, perRankSchema, textSchema, worldSizeSchema } from './scalars.ts';
import { ReportedDevice } from './room.ts';
import { MAX_PROMPT_LENGTH } from '../spec/gpt.ts';
import { MetricValues } from '../spec/measures.ts';
import { RUN_ALGORITHM_NAMES } from '../spec/algorithms.ts';
import { LEARNING_METHOD_NAMES } from '../spec/methods.ts';
import { CODEC_NAMES } from '../spec/codecs.ts';
import { STRATEGY_NAMES } from '../spec/strategies.ts';

/**
 * The longest generated text, in characters. Texts have few tokens, but a byte-pair token may be a
 * long word.
 */
const MAX_SAMPLE_LENGTH = 4000;

/** The longest name of a layer, in characters. */
export const MAX_LAYER_NAME_LENGTH = 200;

/**
 * Why the ranks chose a codec. Each rank measures the medians of the first steps, which use fp32.
 */
export const CodecChoice = v.object({
  codec: v.picklist(CODEC_NAMES),
  /**
   * Milliseconds per step in which the slowest rank computes, reads gradients back and updates
   * parameters.
   */
  ownMs: finiteSchema,
  /**
   * Milliseconds of communication per step, and the part that does not overlap with computation:
   * the shortest times of all ranks, because the times of other ranks include waiting.
   */
  communicateMs: finiteSchema,
  exposedMs: finiteSchema,
  /** Throughput of a rank's connection, in bytes per millisecond. */
  bytesPerMs: finiteSchema,
  /** For each codec: the expected exposed communication of a step, in milliseconds. */
  expectedMs: v.object(v.entriesFromList(CODEC_NAMES, finiteSchema)),
  /**
   * A strategy to try if communication takes longer than computation even with the best codec. It
   * is never chosen automatically.
   */
  suggestion: v.nullable(v.picklist(STRATEGY_NAMES)),
});
export type CodecChoice = v.InferOutput<typeof CodecChoice>;

/** A text that a language model generated during training. */
export const WrittenSample = v.object({
  /** The number of steps before the text was generated, and the loss of the last of these steps. */
  steps: countSchema,
  loss: finiteSchema,
  prompt: textSchema(MAX_PROMPT_LENGTH),
  text: textSchema(MAX_SAMPLE_LENGTH),
});
export type WrittenSample = v.InferOutput<typeof WrittenSample>;

export const RangeTestResult = v.object({
  /** The learning rates of the steps that have a finite loss. */
  rates: v.array(finiteSchema),
  /** The smoothed losses of these steps. */
  losses: v.array(finiteSchema),
  /**
   * The rate at which the loss fell most steeply; `null` if no rate was found. `reason` then says
   * why.
   */
  suggested: v.nullable(finiteSchema),
  /** `flat`: the loss did not fall clearly. `short`: there were too few steps. */
  reason: v.nullable(v.picklist(['flat', 'short'])),
});
export type RangeTestResult = v.InferOutput<typeof RangeTestResult>;

/** The result of a run that measures methods. All ranks have the same result. */
export const MethodTestResult = v.object({
  /** Milliseconds that a step takes on the slowest rank, without communication. */
  ownMs: finiteSchema,
  /** Milliseconds that an all-reduce takes if each rank has one value. */
  latencyMs: finiteSchema,
  /** Bytes per millisecond that a rank sends in an all-reduce; `null` if there is one rank. */
  bytesPerMs: v.nullable(finiteSchema),
  /** Expected costs of each method; see `methodCosts.ts`. */
  costs: v.array(
    v.object({
      method: v.picklist(LEARNING_METHOD_NAMES),
      /** Milliseconds of a step. */
      stepMs: finiteSchema,
      /** Bytes that a rank sends per step, on average. */
      bytesPerStep: finiteSchema,
      /** Time until the method reaches a goal, divided by the time of the quickest method. */
      timeToGoal: finiteSchema,
    }),
  ),
  /**
   * `best`: the method that reaches a goal soonest. `unchanged`: the one that reaches it soonest
   * among the methods that average all gradients in every step: `ddp` with any codec.
   */
  best: v.picklist(LEARNING_METHOD_NAMES),
  unchanged: v.picklist(LEARNING_METHOD_NAMES),
});
export type MethodTestResult = v.InferOutput<typeof MethodTestResult>;

/**
 * Number of links between ring neighbours, by kind: WebRTC, through the signaling server, and
 * inside one browser. A world of two ranks has one link. A Trainer's group may lack links of the
 * ring.
 */
export const RingLinkCounts = v.object({ webrtc: countSchema, server: countSchema, memory: countSchema });
export type RingLinkCounts = v.InferOutput<typeof RingLinkCounts>;

export const RunResultSchema = v.object({
  worldSize: worldSizeSchema,
  strategy: v.picklist(STRATEGY_NAMES),
  /**
   * Share of each rank in a step at the end of the run, in quarters of the batch size: 4 is an
   * equal share. Missing if this run never divides samples by speed.
   */
  shares: v.exactOptional(perRankSchema(countSchema)),
  /**
   * The algorithm that sent the most bytes of gradients in the last world in which this rank took a
   * step. `none`: this rank was alone in that world, or has not taken any step.
   */
  algorithm: v.picklist(RUN_ALGORITHM_NAMES),
  /** The codec at the end of the run. If the ranks chose it, `choice` says why. */
  codec: v.picklist(CODEC_NAMES),
  choice: v.optional(CodecChoice),
  ...ReportedDevice.entries,
  /** The pipeline, if ranks of the run hold stages of the model. */
  pipeline: v.exactOptional(
    v.object({
      stages: countSchema,
      replicas: countSchema,
      microBatches: countSchema,
      /** Names of the layers of each rank. Ranks without a stage have none. */
      layers: perRankSchema(v.array(textSchema(MAX_LAYER_NAME_LENGTH))),
      /**
       * The share of time in which ranks waited for other stages: measured, and expected from the
       * plan.
       */
      idle: v.object({ measured: finiteSchema, plan: finiteSchema }),
    }),
  ),
  transport: RingLinkCounts,
  steps: countSchema,
  /** Number of epochs that the run has begun. */
  epochs: countSchema,
  /**
   * Mean training loss over the final step's samples of all ranks, including a Trainer's
   * regularizers.
   */
  loss: finiteSchema,
  /**
   * Share of all held-out samples that are classified correctly; `null` if there are no held-out
   * samples, or the task is not a classification.
   */
  accuracy: v.nullable(finiteSchema),
  /**
   * The job's other metrics on held-out samples. If the job names no metrics and predicts numbers,
   * this is `rmse`.
   */
  metrics: v.optional(MetricValues),
  /** Mean loss over the held-out samples; `null` if there are no held-out samples. */
  valLoss: v.nullable(finiteSchema),
  /**
   * In runs with `patience`: the lowest held-out loss, and the step after which it was measured.
   */
  best: v.exactOptional(v.object({ step: countSchema, valLoss: finiteSchema })),
  /** The confusion matrix of all held-out samples, if there are few classes. */
  confusion: v.optional(ConfusionMatrix),
  /** The state hash of each rank, in rank order. */
  stateHash: perRankSchema(hashSchema),
  /**
   * Bytes of frames that each rank has sent for gradients (or for parameters, depending on the
   * strategy). Headers are included; start-up, statistics and evaluation are not.
   */
  bytesSentPerRank: perRankSchema(countSchema),
  /** Bytes of frames that each rank has received for gradients (or parameters). */
  bytesReceivedPerRank: perRankSchema(countSchema),
  /**
   * Bytes that each rank has sent for everything else, such as initial parameters, hashes,
   * statistics and evaluation.
   */
  otherBytesSentPerRank: perRankSchema(countSchema),
  /**
   * Encoded bytes of one rank's gradient in one exchange; for PowerSGD, in a step that compresses.
   */
  gradientBytes: countSchema,
  /** Bytes of each rank's tensors at the end of the run; on a GPU, of its buffers. */
  memoryBytesPerRank: perRankSchema(countSchema),
  /**
   * Job `gpt` only: the generated texts, and the loss of a bigram model on the held-out text. Like
   * all losses of this job, it is in nats per character.
   */
  bigramLoss: v.optional(finiteSchema),
  samples: v.optional(v.array(WrittenSample)),
  stepMs: v.object({
    median: finiteSchema,
    p95: finiteSchema,
    data: finiteSchema,
    compute: finiteSchema,
    communicate: finiteSchema,
    exposed: finiteSchema,
  }),
  /**
   * For every step, the mean loss over the samples of all ranks. Losses that are not finite are
   * left out.
   */
  losses: v.array(finiteSchema),
  /**
   * The result of a range test. A range test evaluates no held-out samples and restores the model.
   */
  rateTest: v.optional(RangeTestResult),
  methods: v.optional(MethodTestResult),
  /** How often the run has continued in another generation since this rank entered the run. */
  restarts: countSchema,
  ms: finiteSchema,
});
export interface RunResult extends v.InferOutput<typeof RunResultSchema> {}
