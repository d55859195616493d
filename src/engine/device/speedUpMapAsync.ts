/**
 * Makes `GPUBuffer.mapAsync` fast in browsers that wait for a timer before they resolve it. Firefox
 * checks only every 100 ms and at every submission whether the GPU has finished (Mozilla bug
 * 1870699). Without this module, a read of gradients takes up to 100 ms there, and all ranks wait
 * for it.
 */
import type { Clock } from '../../util/clock.ts';
import { withinDeadline } from '../../util/deadline.ts';
import { DeviceError } from '../../util/errors.ts';

/**
 * If a browser maps a buffer of an idle GPU within this number of milliseconds, `mapAsync` is not
 * changed. The limit is well below Firefox's timer, and well above the few milliseconds of
 * Chromium.
 */
const PROMPT_MS = 20;
/**
 * Number of measured maps. The time of the fastest one is used, because other work of the machine
 * may delay single maps.
 */
const MEASURED_MAPS = 2;
/** Milliseconds after which the GPU counts as broken. */
const MAP_TIMEOUT_MS = 10_000;

/**
 * Measures `mapAsync` on an idle GPU. If it is slow, measures again while empty command lists are
 * submitted to the GPU. If that at least halves the time, `mapAsync` of all readable buffers that
 * `gpu` creates later also submits empty command lists until the buffer is mapped. Returns whether
 * `mapAsync` was changed.
 *
 * @throws (rejects) DeviceError if the GPU does not respond.
 */
export async function speedUpMapAsync(gpu: GPUDevice, clock: Clock): Promise<boolean> {
  // The first map is not measured: it ends at a random time between two ticks of a timer.
  await timeMap(gpu, clock);
  const alone = await fastestMap(gpu, clock);
  if (alone < PROMPT_MS) return false;
  const submitter = new EmptySubmitter(gpu, clock);
  const helped = await fastestMap(gpu, clock, submitter);
  if (helped > alone / 2) return false;

  const create = gpu.createBuffer.bind(gpu);
  gpu.createBuffer = (descriptor) => {
    const buffer = create(descriptor);
    if ((descriptor.usage & GPUBufferUsage.MAP_READ) !== 0) {
      const map = buffer.mapAsync.bind(buffer);
      buffer.mapAsync = (...range) => submitter.during(map(...range));
    }
    return buffer;
  };
  return true;
}

/** Submits an empty command list in every timer task while promises are pending. */
class EmptySubmitter {
  readonly #gpu: GPUDevice;
  readonly #clock: Clock;
  #pending = 0;
  #isScheduled = false;
  #isLost = false;

  constructor(gpu: GPUDevice, clock: Clock) {
    this.#gpu = gpu;
    this.#clock = clock;
    void gpu.lost.then(() => (this.#isLost = true));
  }

  /** Submits until `mapped` settles or the GPU is lost. Returns `mapped`. */
  during<T>(mapped: Promise<T>): Promise<T> {
    const settled = (): number => (this.#pending -= 1);
    this.#pending += 1;
    void mapped.then(settled, settled);
    if (!this.#isScheduled) this.#schedule();
    return mapped;
  }

  #schedule(): void {
    this.#isScheduled = true;
    this.#clock.after(0, () => {
      this.#isScheduled = false;
      if (this.#pending === 0 || this.#isLost) return;
      this.#gpu.queue.submit([]);
      this.#schedule();
    });
  }
}

async function fastestMap(gpu: GPUDevice, clock: Clock, submitter?: EmptySubmitter): Promise<number> {
  let fastest = Infinity;
  for (let i = 0; i < MEASURED_MAPS; i++) fastest = Math.min(fastest, await timeMap(gpu, clock, submitter));
  return fastest;
}

/** Maps a small buffer and returns the duration in milliseconds. */
async function timeMap(gpu: GPUDevice, clock: Clock, submitter?: EmptySubmitter): Promise<number> {
  const buffer = gpu.createBuffer({ size: 4, usage: GPUBufferUsage.MAP_READ });
  const startedAt = clock.now();
  const mapped = buffer.mapAsync(GPUMapMode.READ);
  try {
    await withinDeadline(
      clock,
      MAP_TIMEOUT_MS,
      submitter ? submitter.during(mapped) : mapped,
      () => new DeviceError(`the GPU did not map a buffer within ${MAP_TIMEOUT_MS / 1000} s.`),
    );
    return clock.now() - startedAt;
  } finally {
    buffer.destroy();
  }
}
