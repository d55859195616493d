/** Runs one rank's passes of a pipeline plan. */
import * as tf from '@tensorflow/tfjs';
import type { Clock, EventLoopYielder } from '../../util/clock.ts';
import type { Tensor } from '../backward/flatten.ts';
import type { IncomingStageValue, StageBoundary, StageBoundaryShapes } from './boundary.ts';
import { rankOfStage, type PassKind, type PipelinePlan, type StagePass, type TimedStagePass } from './schedules.ts';

/** Number of values that a rank is ready to receive, in addition to the one that it needs next. */
const RECEIVES_AHEAD = 2;

export interface PipelinePlanRunOptions {
  plan: PipelinePlan;
  /** The number of this rank in the pipeline. */
  rank: number;
  boundary: StageBoundary;
  clock: Clock;
  /** Yields between passes, so that messages travel. */
  yielder: EventLoopYielder;
  /** Shapes of the output that stage `stage - 1` passes to stage `stage`, for a micro-batch. */
  shapesBefore: (stage: number, microBatch: number) => StageBoundaryShapes;
  /**
   * Computes a forward pass. `input` is the output of the previous stage, with its padding mask, if
   * there is one; `null` at stage 0. Returns the output in the same way; `null` at the last stage.
   */
  forward: (stage: number, microBatch: number, input: readonly Tensor[] | null) => Promise<Tensor[] | null>;
  /**
   * Computes a backward pass, and disposes of `dy`, the gradient of the output (`null` at the last
   * stage). Returns the gradient of the input; `null` at stage 0.
   */
  backward: (stage: number, microBatch: number, dy: readonly Tensor[] | null) => Promise<Tensor[] | null>;
  /** Does a pass, from the arrival of its input until its result is read from the device. */
  during?: (pass: () => Promise<void>) => Promise<void>;
}

/**
 * Runs the passes of this rank in the order of the plan, and sends their results.
 *
 * @returns when each pass began and ended, in milliseconds of the clock. A pass ends when its
 *   result is read from the device, unless nothing is sent.
 * @throws (rejects) errors of the passes; TimeoutError and PeerGoneError of messages.
 */
export async function runPipelinePlan(run: PipelinePlanRunOptions): Promise<TimedStagePass[]> {
  const { plan, rank, boundary, clock, during = (pass) => pass() } = run;
  const passes = plan.passes[rank]!;
  const remote = passes.filter((pass) => {
    const source = sourceOf(plan, pass);
    return source !== null && rankOfStage(plan, source) !== rank;
  });
  const arrivals = new Map<StagePass, IncomingStageValue>();
  let received = 0;
  const receiveAhead = (): void => {
    for (const pass of remote.slice(arrivals.size, received + 1 + RECEIVES_AHEAD)) {
      const { kind, stage, microBatch } = pass;
      const source = sourceOf(plan, pass)!;
      const { value, padding } = run.shapesBefore(Math.max(source, stage), microBatch);
      // A padding mask has no gradient, so a backward pass receives none.
      const shapes = { value, padding: kind === 'forward' ? padding : null };
      arrivals.set(pass, boundary.receive({ kind, stage: source }, shapes, rankOfStage(plan, source)));
    }
  };
  /** Values for another stage on this same rank. They are not sent. */
  const local = new Map<string, Tensor[]>();
  const inputOf = async (pass: StagePass): Promise<Tensor[] | null> => {
    const source = sourceOf(plan, pass);
    if (source === null) return null;
    if (remote[received] === pass) {
      received += 1;
      return arrivals.get(pass)!.tensors();
    }
    const key = keyOf(pass.kind, source, pass.microBatch);
    const value = local.get(key)!;
    local.delete(key);
    return value;
  };
  const timed: TimedStagePass[] = [];
  try {
    for (const pass of passes) {
      receiveAhead();
      const { kind, stage, microBatch } = pass;
      const input = await inputOf(pass);
      const start = clock.now();
      await during(async () => {
        const output = await run[kind](stage, microBatch, input);
        if (!output) return;
        const to = rankOfStage(plan, kind === 'forward' ? stage + 1 : stage - 1);
        if (to === rank) {
          local.set(keyOf(kind, stage, microBatch), output);
          return;
        }
        try {
          await boundary.send({ kind, stage }, output, to);
        } finally {
          tf.dispose(output);
        }
      });
      timed.push({ ...pass, start, end: clock.now() });
      await run.yielder.yieldIfDue();
    }
    await boundary.flush();
    return timed;
  } finally {
    tf.dispose([...local.values()]);
  }
}

/** Returns the stage whose result a pass needs; `null` at the ends of the pipeline. */
function sourceOf({ stages }: PipelinePlan, { kind, stage }: StagePass): number | null {
  if (kind === 'forward') return stage === 0 ? null : stage - 1;
  return stage === stages - 1 ? null : stage + 1;
}

function keyOf(kind: PassKind, stage: number, microBatch: number): string {
  return `${kind}/${stage}/${microBatch}`;
}
