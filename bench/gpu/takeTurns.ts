/** Runs the training loops in a worker. */
import * as tf from '@tensorflow/tfjs';
import type { WebGPUMemoryInfo } from '@tensorflow/tfjs-backend-webgpu/dist/backend_webgpu';
import { median } from '../../src/util/statistics.ts';
import { webgpuBackend } from '../../src/gpu/backend.ts';
import {
  LOOPS,
  type Batch,
  type ByLoop,
  type FirstSteps,
  type LoopFigures,
  type LoopName,
  type ModelFigures,
  type Turns,
} from './args.ts';
import { gpuTimeOf } from './gpuTime.ts';
import { Loop } from './loops.ts';

/** Turns that are measured even if they take long. */
const MIN_TURNS = 2;
/**
 * Shaders are compiled in the first step, and buckets have their order from the second step on.
 * Then two passes are recorded and compared, and later passes are replayed.
 */
const WARM_UP_STEPS = 5;
/** Steps with timestamps. */
const TIMED_STEPS = 2;
/** Steps after those of the warm-up in a fresh browser. */
const LATER_STEPS = 3;

/** Measures all loops in turn, a few steps each. */
export async function takeTurns({ model, batch, turns, steps, limitMs }: Batch & Turns): Promise<ModelFigures> {
  const loops: [LoopName, Loop][] = [];
  for (const name of LOOPS) loops.push([name, await Loop.create(name, model, batch)]);
  const figures = Object.fromEntries(
    LOOPS.map((name) => [name, { steps: [], gpuMs: null }]),
  ) as unknown as ByLoop<LoopFigures>;
  for (const [, loop] of loops) for (let step = 0; step < WARM_UP_STEPS; step++) await loop.step();
  const startedAt = performance.now();
  for (let turn = 0; turn < turns; turn++) {
    if (turn >= MIN_TURNS && performance.now() - startedAt > limitMs) break;
    for (const [name, loop] of loops) {
      for (let step = 0; step < steps; step++) figures[name].steps.push(await loop.step());
    }
  }
  for (const [name, loop] of loops) {
    const ms = await gpuTimeOf(webgpuBackend()!.device, async () => {
      for (let step = 0; step < TIMED_STEPS; step++) await loop.step();
    });
    figures[name].gpuMs = ms === null ? null : ms / TIMED_STEPS;
  }
  const { parameters, multiplyAdds, tokens } = loops[0]![1].model;
  const notReplayed = loops.map(([, loop]) => loop.notReplayed).find((reason) => reason !== null) ?? null;
  return { parameters, multiplyAdds, tokens, loops: figures, notReplayed };
}

/** Takes the first steps of one loop. Call it in a fresh browser, which has no pipelines. */
export async function firstSteps({ loop: name, model, batch }: Batch & { loop: LoopName }): Promise<FirstSteps> {
  const loop = await Loop.create(name, model, batch);
  const { ms: firstMs } = await loop.step();
  for (let step = 1; step < WARM_UP_STEPS; step++) await loop.step();
  const later: number[] = [];
  for (let step = 0; step < LATER_STEPS; step++) later.push((await loop.step()).ms);
  const { numBytesAllocatedInGPU } = tf.memory() as unknown as WebGPUMemoryInfo;
  return { firstMs, laterMs: median(later), gpuBytes: numBytesAllocatedInGPU };
}
