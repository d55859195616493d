/** Measures how long the GPU computes, by timestamps at the start and end of each compute pass. */

/** Passes that can be timed. A query set has at most 4096 queries (WebGPU specification). */
const MAX_PASSES = 2048;
const BYTES = 8;

/**
 * Runs `work`, and resolves with the milliseconds between start and end of all compute passes of
 * `gpu` in that time, added up; `null` if the device has no timestamps. Browsers may round
 * timestamps: Chromium to 0.1 ms, but not with `--enable-unsafe-webgpu` (measured).
 *
 * @throws (rejects) Error if there are more than {@link MAX_PASSES} passes.
 */
export async function gpuTimeOf(gpu: GPUDevice, work: () => Promise<unknown>): Promise<number | null> {
  if (!gpu.features.has('timestamp-query')) return null;
  const querySet = gpu.createQuerySet({ type: 'timestamp', count: 2 * MAX_PASSES });
  let passes = 0;
  const createCommandEncoder = gpu.createCommandEncoder.bind(gpu);
  gpu.createCommandEncoder = (descriptor) => {
    const encoder = createCommandEncoder(descriptor);
    const begin = encoder.beginComputePass.bind(encoder);
    encoder.beginComputePass = (pass) => {
      const beginningOfPassWriteIndex = 2 * passes++;
      const endOfPassWriteIndex = beginningOfPassWriteIndex + 1;
      if (passes > MAX_PASSES)
        throw new Error(`There are more than ${MAX_PASSES} compute passes. Measure fewer steps.`);
      return begin({ ...pass, timestampWrites: { querySet, beginningOfPassWriteIndex, endOfPassWriteIndex } });
    };
    return encoder;
  };
  try {
    await work();
    return passes === 0 ? 0 : await sumOf(gpu, querySet, passes);
  } finally {
    gpu.createCommandEncoder = createCommandEncoder;
    querySet.destroy();
  }
}

async function sumOf(gpu: GPUDevice, querySet: GPUQuerySet, passes: number): Promise<number> {
  const size = 2 * passes * BYTES;
  const resolved = gpu.createBuffer({ size, usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC });
  const read = gpu.createBuffer({ size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  const encoder = gpu.createCommandEncoder();
  encoder.resolveQuerySet(querySet, 0, 2 * passes, resolved, 0);
  encoder.copyBufferToBuffer(resolved, 0, read, 0, size);
  gpu.queue.submit([encoder.finish()]);
  await read.mapAsync(GPUMapMode.READ);
  const times = new BigUint64Array(read.getMappedRange());
  let nanoseconds = 0n;
  for (let pass = 0; pass < passes; pass++) nanoseconds += times[2 * pass + 1]! - times[2 * pass]!;
  for (const buffer of [resolved, read]) buffer.destroy();
  return Number(nanoseconds) / 1e6;
}
