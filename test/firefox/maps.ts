/** A page that opens the GPU as the engine does and maps buffers. */
import { speedUpMapAsync } from '../../src/engine/device/speedUpMapAsync.ts';
import { systemClock } from '../../src/util/clock.ts';

/** Maps that are measured before and after. */
const MAPS = 9;

interface Maps {
  /** Median durations of a map in milliseconds, before and after `speedUpMapAsync`. */
  before: number;
  after: number;
  /** Whether empty command lists are submitted. */
  isHelped: boolean;
}

declare global {
  var measureMaps: () => Promise<Maps>;
}

async function medianMap(gpu: GPUDevice): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < MAPS; i++) {
    const buffer = gpu.createBuffer({ size: 16, usage: GPUBufferUsage.MAP_READ });
    const startedAt = performance.now();
    await buffer.mapAsync(GPUMapMode.READ);
    times.push(performance.now() - startedAt);
    buffer.destroy();
  }
  return times.sort((a, b) => a - b)[MAPS >> 1]!;
}

globalThis.measureMaps = async () => {
  const adapter = await navigator.gpu.requestAdapter();
  const gpu = await adapter!.requestDevice();
  const before = await medianMap(gpu);
  const isHelped = await speedUpMapAsync(gpu, systemClock);
  const after = await medianMap(gpu);
  gpu.destroy();
  return { before, after, isHelped };
};
