/** Runs the training loops in a worker. */
import * as tf from '@tensorflow/tfjs';
import type { WebGPUMemoryInfo } from '@tensorflow/tfjs-backend-webgpu/dist/backend_webgpu';
import { mediansOfFields } from '../../src/util/statistics.ts';
import { webgpuBackend } from '../../src/gpu/backend.ts';
import {
  LOOPS,
  type Batch,
  type ByLoop,
  type LoopFigures,
  type LoopName,
  type ModelFigures,
  type StepFigures,
} from './args.ts';
import { gpuTimeOf } from './gpuTime.ts';
import { createLoop, type Loop } from './loops.ts';

/** Turns of each loop, and measured steps in a turn. */
const TURNS = 20;
const STEPS = 3;
/**
 * Milliseconds after which no turn begins, so that all models fit into ten minutes, and turns that
 * are measured even if they take longer.
 */
const LIMIT_MS = 20_000;
const MIN_TURNS = 2;
/**
 * Shaders are compiled in the first step, and buckets have their order from the second step on.
 * Then two passes are recorded and compared, and later passes are replayed.
 */
const WARM_UP_STEPS = 5;
/** Steps with timestamps. */
const TIMED_STEPS = 2;

/** Measures all loops in turn, a few steps each. */
export async function takeTurns({ model, batch }: Batch): Promise<ModelFigures> {
  const loops: [LoopName, Loop][] = [];
  for (const name of LOOPS) loops.push([name, await createLoop(name, model, batch)]);
  for (const [, loop] of loops) await take(loop, WARM_UP_STEPS);
  const taken: ByLoop<StepFigures[]> = { plain: [], stock: [], own: [] };
  const startedAt = performance.now();
  for (let turn = 0; turn < TURNS; turn++) {
    if (turn >= MIN_TURNS && performance.now() - startedAt > LIMIT_MS) break;
    for (const [name, loop] of loops) taken[name].push(...(await take(loop, STEPS)));
  }
  const figures: [LoopName, LoopFigures][] = [];
  for (const [name, loop] of loops) {
    const gpuMs = await gpuTimeOf(webgpuBackend()!.device, () => take(loop, TIMED_STEPS));
    figures.push([name, { ...mediansOfFields(taken[name]), gpuMs: gpuMs === null ? null : gpuMs / TIMED_STEPS }]);
  }
  const { parameters, tokens } = loops[0]![1].model;
  const notReplayed = loops.map(([, loop]) => loop.notReplayed()).find((reason) => reason !== null) ?? null;
  return { parameters, tokens, loops: Object.fromEntries(figures) as ByLoop<LoopFigures>, notReplayed };
}

/**
 * Takes the first steps of one loop, and returns the bytes of GPU buffers that TensorFlow.js holds
 * then, pooled buffers included. Call it in a fresh browser, which has no other buffers.
 */
export async function memoryOf({ loop, model, batch }: Batch & { loop: LoopName }): Promise<number> {
  await take(await createLoop(loop, model, batch), WARM_UP_STEPS);
  return (tf.memory() as unknown as WebGPUMemoryInfo).numBytesAllocatedInGPU;
}

async function take(loop: Loop, count: number): Promise<StepFigures[]> {
  const steps: StepFigures[] = [];
  for (let step = 0; step < count; step++) steps.push(await loop.step());
  return steps;
}
