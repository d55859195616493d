/** How a step was spent: its times, the hops of its all-reduces, and the segments of its lane. */
import * as v from 'valibot';
import { SEGMENT_KINDS } from '../spec/names.ts';
import { count, MAX_WORLD_SIZE } from './scalars.ts';

const number = v.pipe(v.number(), v.finite());

/** Steps of the longest ring. */
export const MAX_HOPS = 2 * (MAX_WORLD_SIZE - 1);

/** One ring step of an all-reduce as this rank saw it: a chunk sent, another received. */
export const HopEvent = v.object({
  /** 0 .. 2(n-1)-1: the ring plan's step. */
  ringStep: count,
  /** Chunk that this rank sent to its right neighbour in that ring step. */
  sentChunk: count,
  /** Chunk that this rank received from its left neighbour in that ring step. */
  receivedChunk: count,
  /** When the last byte of the chunk had been handed to the link; `null` if nothing was sent. */
  sentAt: v.nullable(number),
  /** When the last byte had arrived (and, in reduce-scatter, had been summed). */
  receivedAt: v.nullable(number),
  /**
   * Milliseconds of adding up or copying what arrived, within `receivedAt`; left out where nobody
   * measured it.
   */
  reduceMs: v.exactOptional(number),
});
export type HopEvent = v.InferOutput<typeof HopEvent>;

/** Times of one optimizer step, milliseconds. */
export const StepTimes = v.object({
  total: number,
  /** Forward and backward on the GPU, until the first bucket's gradients could be read. */
  compute: number,
  /** Reading gradients back, summed over buckets, the wait for compute excluded. */
  readback: number,
  /** From the first all-reduce issued to the last one done. */
  communicate: number,
  /** The part of `communicate` that nothing else ran beside. */
  exposed: number,
  /** Optimizer and upload of the parameters. */
  update: number,
});
export type StepTimes = v.InferOutput<typeof StepTimes>;

export type SegmentKind = (typeof SEGMENT_KINDS)[number];

/** A stretch of a step, milliseconds since the step began. */
const Segment = v.object({ kind: v.picklist(SEGMENT_KINDS), start: number, end: number });
export type Segment = v.InferOutput<typeof Segment>;

/** One step as one rank spent it. */
export const StepLane = v.object({
  step: count,
  /** On that rank's clock. */
  startedAt: number,
  duration: number,
  /** In order of their start. What a rank does alone and what it does with others may overlap. */
  segments: v.array(Segment),
});
export type StepLane = v.InferOutput<typeof StepLane>;

/** How one bucket of one step went round the ring, as its rank saw it. */
export const RecordedTrace = v.object({
  step: count,
  bucket: count,
  bytes: count,
  startedAt: number,
  hops: v.pipe(v.array(HopEvent), v.maxLength(MAX_HOPS)),
});
export type RecordedTrace = v.InferOutput<typeof RecordedTrace>;
