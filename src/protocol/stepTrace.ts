/**
 * Timing of a step: its durations, the hops of its all-reduces, and the segments of its timeline.
 */
import * as v from 'valibot';
import { ALL_REDUCE_NAMES } from '../spec/algorithms.ts';
import { SEGMENT_KINDS } from '../spec/names.ts';
import { count, finite, MAX_WORLD_SIZE } from './scalars.ts';

/** The largest number of hops: the ring steps in the largest world. Other algorithms have fewer. */
export const MAX_HOPS = 2 * (MAX_WORLD_SIZE - 1);

/**
 * One step of an all-reduce's plan as this rank saw it. The plan states what the rank sent and
 * received in the step: with the ring, one chunk each.
 */
export const HopEvent = v.object({
  /** The number of the step in the plan. With the ring, it is the ring step, 0 .. 2(n-1)-1. */
  planStep: count,
  /** When the last byte was passed to the link; `null` if nothing was sent. */
  sentAt: v.nullable(finite),
  /**
   * When the last byte had arrived and was added or copied; `null` if nothing was received.
   */
  receivedAt: v.nullable(finite),
  /**
   * How many milliseconds this rank took to add or copy the received values before `receivedAt`.
   * Missing if not measured.
   */
  reduceMs: v.exactOptional(finite),
});
export type HopEvent = v.InferOutput<typeof HopEvent>;

/** Durations of the parts of one optimizer step, in milliseconds. */
export const StepTimes = v.object({
  total: finite,
  /**
   * From the start of the step until this rank's samples are read. Samples that were read ahead
   * take no time.
   */
  data: finite,
  /**
   * From the start of the pass until the first bucket's gradients are read. Without buckets: until
   * all gradients are read.
   */
  compute: finite,
  /**
   * From the end of `compute` until the last bucket's gradients are read. The GPU may still compute
   * these gradients in this time.
   */
  readback: finite,
  /** From the start of the first all-reduce to the end of the last all-reduce. */
  communicate: finite,
  /** The part of `communicate` that does not overlap with computation. */
  exposed: finite,
  /** Optimizer and upload of the parameters. */
  update: finite,
});
export type StepTimes = v.InferOutput<typeof StepTimes>;

export type SegmentKind = (typeof SEGMENT_KINDS)[number];

/** An interval of a step, milliseconds since the step began. */
const Segment = v.object({
  kind: v.picklist(SEGMENT_KINDS),
  start: finite,
  end: finite,
  /** The pass of a pipeline, if `kind` is `forward` or `backward`. */
  pass: v.exactOptional(v.object({ stage: count, microBatch: count })),
});
export type Segment = v.InferOutput<typeof Segment>;

/** Commands that WebGPU received in a step. Missing on other backends. */
export const GpuCommands = v.object({
  /** Compute shaders that were started. */
  dispatches: count,
  /** Submissions to the GPU's queue. */
  submits: count,
});
export type GpuCommands = v.InferOutput<typeof GpuCommands>;

/** The timeline of one step of one rank. */
export const StepLane = v.object({
  step: count,
  /** Start of the step, by the clock of the rank that took it. */
  startedAt: finite,
  duration: finite,
  /**
   * Segments, sorted by start. A segment of computation may overlap with a segment of
   * communication.
   */
  segments: v.array(Segment),
  commands: v.exactOptional(GpuCommands),
});
export type StepLane = v.InferOutput<typeof StepLane>;

/** The all-reduce of one bucket in one step, as this rank saw it. */
export const RecordedTrace = v.object({
  step: count,
  bucket: count,
  bytes: count,
  algorithm: v.picklist(ALL_REDUCE_NAMES),
  startedAt: finite,
  hops: v.pipe(v.array(HopEvent), v.maxLength(MAX_HOPS)),
});
export type RecordedTrace = v.InferOutput<typeof RecordedTrace>;
