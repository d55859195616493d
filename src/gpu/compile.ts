/**
 * Compiles shaders in parallel. TensorFlow.js compiles a shader when an op first runs, and waits
 * for it; on a slow GPU driver, the first step then takes seconds.
 */
import * as tf from '@tensorflow/tfjs';
import type { Clock } from '../util/clock.ts';
import { withinDeadline } from '../util/deadline.ts';
import { DeviceError, errorMessageOf } from '../util/errors.ts';
import { webgpuBackend, type WebGpuBackend } from './backend.ts';

/**
 * Compilation fails if no shader is finished for this long. A shader takes less than a second, even
 * on a software adapter, but several tabs may share its cores.
 */
const STALL_MS = 60_000;

const COMPILE_ONLY = 'WEBGPU_ENGINE_COMPILE_ONLY';

export interface CompileShadersOptions {
  clock: Clock;
  /**
   * Called first with `compiled` 0, and then for each compiled shader. Not called if no shader has
   * to be compiled.
   */
  onprogress?: (shaders: { compiled: number; total: number }) => void;
}

/**
 * Calls `record` once and compiles all shaders that its ops need and that are not compiled yet. On
 * backends other than WebGPU it does nothing.
 *
 * @param record runs ops and disposes of their results. It must not read tensors: the ops compute
 *   nothing, so the values of their results are undefined.
 * @throws (rejects) DeviceError if a shader cannot be compiled, or if no shader is finished within
 *   a minute.
 */
export async function compileShadersAhead(
  record: () => void,
  { clock, onprogress }: CompileShadersOptions,
): Promise<void> {
  const backend = webgpuBackend();
  if (!backend) return;
  const pending = pipelinesOf(backend, record);
  const total = pending.length;
  if (total === 0) return;
  let compiled = 0;
  onprogress?.({ compiled, total });
  const all = pending.map(async ([key, promise]) => {
    const pipeline = await promise.catch((error: unknown) => {
      throw new DeviceError(
        `The GPU could not compile the kernel ${key}: ${errorMessageOf(error)}`,
        {},
        { cause: error },
      );
    });
    // Another op may have compiled the same shader in the meantime.
    backend.pipelineCache[key] ??= pipeline;
    compiled += 1;
    onprogress?.({ compiled, total });
  });
  // The promises are awaited in order. One that rejects before its turn must not count as
  // unhandled.
  for (const each of all) each.catch(() => {});
  for (const each of all) {
    await withinDeadline(
      clock,
      STALL_MS,
      each,
      () =>
        new DeviceError(
          `The GPU has compiled ${compiled} of ${total} shaders, and no further one for ${STALL_MS / 1000} s. Reload the page.`,
        ),
    );
  }
}

/**
 * Starts to compile. The promises are removed from TensorFlow.js's cache, because an op that finds
 * a promise there throws an error, and other ops may run while shaders are compiled.
 */
function pipelinesOf(backend: WebGpuBackend, record: () => void): (readonly [string, Promise<GPUComputePipeline>])[] {
  const cache = backend.pipelineCache;
  const pending: [string, Promise<GPUComputePipeline>][] = [];
  tf.env().set(COMPILE_ONLY, true);
  try {
    record();
  } finally {
    tf.env().set(COMPILE_ONLY, false);
    for (const [key, pipeline] of Object.entries(cache)) {
      if (!(pipeline instanceof Promise)) continue;
      // If `record` fails, nobody awaits the promise.
      pipeline.catch(() => {});
      pending.push([key, pipeline]);
      delete cache[key];
    }
  }
  return pending;
}
