/**
 * Timing of a step: its durations, the hops of its all-reduces, and the segments of its timeline.
 */
import * as v from 'valibot';
import { ALL_REDUCE_NAMES } from '../spec/algorithms.ts';
import { STEP_SEGMENT_KINDS } from '../spec/names.ts';
import { countSchema, finiteSchema, MAX_WORLD_SIZE } from './scalars.ts';

/** The largest number of hops: the ring steps in the largest world. Other algorithms have fewer. */
export const MAX_HOPS = 2 * (MAX_WORLD_SIZE - 1);

/**
 * One step of an all-reduce's plan as this rank saw it. The plan states what the rank sent and
 * received in the step: with the ring, one chunk each.
 */
export const HopEvent = v.object({
  /** The number of the step in the plan. With the ring, it is the ring step, 0 .. 2(n-1)-1. */
  planStep: countSchema,
  /** When the last byte was passed to the link; `null` if nothing was sent. */
  sentAt: v.nullable(finiteSchema),
  /**
   * When the last byte had arrived and was added or copied; `null` if nothing was received.
   */
  receivedAt: v.nullable(finiteSchema),
  /**
   * How many milliseconds this rank took to add or copy the received values before `receivedAt`.
   * Missing if not measured.
   */
  reduceMs: v.exactOptional(finiteSchema),
});
export type HopEvent = v.InferOutput<typeof HopEvent>;

/** Durations of the parts of one optimizer step, in milliseconds. */
export const StepTimes = v.object({
  total: finiteSchema,
  /**
   * From the start of the step until this rank's samples are read. Samples that were read ahead
   * take no time.
   */
  data: finiteSchema,
  /**
   * From the start of the pass until the first bucket's gradients are read. Without buckets: until
   * all gradients are read.
   */
  compute: finiteSchema,
  /**
   * From the end of `compute` until the last bucket's gradients are read. The GPU may still compute
   * these gradients in this time.
   */
  readback: finiteSchema,
  /** From the start of the first all-reduce to the end of the last all-reduce. */
  communicate: finiteSchema,
  /** The part of `communicate` that does not overlap with computation. */
  exposed: finiteSchema,
  /** Optimizer and upload of the parameters. */
  update: finiteSchema,
});
export type StepTimes = v.InferOutput<typeof StepTimes>;

export type StepSegmentKind = (typeof STEP_SEGMENT_KINDS)[number];

/** An interval of a step, milliseconds since the step began. */
const StepSegment = v.object({
  kind: v.picklist(STEP_SEGMENT_KINDS),
  start: finiteSchema,
  end: finiteSchema,
  /** The pass of a pipeline, if `kind` is `forward` or `backward`. */
  pass: v.exactOptional(v.object({ stage: countSchema, microBatch: countSchema })),
});
export type StepSegment = v.InferOutput<typeof StepSegment>;

/** Commands that WebGPU received in a step. Missing on other backends. */
export const StepCommandCounts = v.object({
  /** Compute shaders that were started. */
  dispatches: countSchema,
  /** Submissions to the GPU's queue. */
  submits: countSchema,
});
export type StepCommandCounts = v.InferOutput<typeof StepCommandCounts>;

/** The timeline of one step of one rank. */
export const StepLane = v.object({
  step: countSchema,
  /** Start of the step, by the clock of the rank that took it. */
  startedAt: finiteSchema,
  duration: finiteSchema,
  /**
   * Segments, sorted by start. A segment of computation may overlap with a segment of
   * communication.
   */
  segments: v.array(StepSegment),
  commands: v.exactOptional(StepCommandCounts),
});
export type StepLane = v.InferOutput<typeof StepLane>;

/** The all-reduce of one bucket in one step, as this rank saw it. */
export const AllReduceTraceRecord = v.object({
  step: countSchema,
  bucket: countSchema,
  bytes: countSchema,
  algorithm: v.picklist(ALL_REDUCE_NAMES),
  startedAt: finiteSchema,
  hops: v.pipe(v.array(HopEvent), v.maxLength(MAX_HOPS)),
});
export type AllReduceTraceRecord = v.InferOutput<typeof AllReduceTraceRecord>;
