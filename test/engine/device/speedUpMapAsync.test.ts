/** Maps of GPU buffers in browsers that resolve them at once, on a timer, or late. Virtual time. */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { speedUpMapAsync } from '../../../src/engine/device/speedUpMapAsync.ts';
import { createDeferred } from '../../../src/util/deferred.ts';
import { ManualClock } from '../../manualClock.ts';

const READ = 1;
const UNIFORM = 64;

beforeAll(() => {
  vi.stubGlobal('GPUBufferUsage', { MAP_READ: READ, UNIFORM });
  vi.stubGlobal('GPUMapMode', { READ });
});
afterAll(() => vi.unstubAllGlobals());

interface FakeOptions {
  /** A finished map is reported at multiples of this time. */
  everyMs: number;
  /** Whether a submission also reports finished maps. */
  reportsAtSubmission?: boolean;
}

/** A GPU that finishes all work at once, and reports it as `options` say. */
class FakeGpu {
  readonly clock = new ManualClock();
  readonly loss = createDeferred<GPUDeviceLostInfo>();
  readonly lost = this.loss.promise;
  readonly #waiting = new Set<(error?: Error) => void>();
  readonly #reportsAtSubmission: boolean;
  submitted = 0;

  readonly queue = {
    submit: (lists: unknown[]): void => {
      expect(lists).toEqual([]);
      this.submitted += 1;
      if (this.#reportsAtSubmission) this.#report();
    },
  };

  constructor({ everyMs, reportsAtSubmission = false }: FakeOptions) {
    this.#reportsAtSubmission = reportsAtSubmission;
    const tick = (): void => {
      this.#report();
      this.clock.after(everyMs, tick);
    };
    this.clock.after(everyMs, tick);
  }

  createBuffer(_descriptor: { size: number; usage: number }) {
    const pending = new Set<(error?: Error) => void>();
    return {
      mapAsync: (_mode: number): Promise<void> => {
        const { promise, resolve, reject } = createDeferred();
        const settle = (error?: Error): void => (error ? reject(error) : resolve());
        pending.add(settle);
        this.#waiting.add(settle);
        return promise;
      },
      destroy: (): void => {
        for (const settle of pending) {
          if (this.#waiting.delete(settle)) settle(new Error('destroyed'));
        }
      },
    };
  }

  #report(): void {
    for (const settle of this.#waiting) settle();
    this.#waiting.clear();
  }

  get device(): GPUDevice {
    return this as unknown as GPUDevice;
  }

  /** Lets time pass, 1 ms at a time, until `promise` settles. */
  async pass<T>(promise: Promise<T>): Promise<T> {
    const over = new AbortController();
    const stop = (): void => over.abort();
    promise.then(stop, stop);
    for (let ms = 0; ms < 60_000; ms++) {
      await new Promise(setImmediate);
      if (over.signal.aborted) break;
      this.clock.advance(1);
    }
    return promise;
  }

  /** Milliseconds until a new buffer is mapped. */
  async timeMap(usage = READ): Promise<number> {
    const startedAt = this.clock.now();
    await this.pass(this.device.createBuffer({ size: 16, usage }).mapAsync(READ));
    return this.clock.now() - startedAt;
  }
}

/**
 * Timers of 0 ms would fire without end in one step of the virtual time; browsers delay them by up
 * to 4 ms.
 */
const prompt = (gpu: FakeGpu): Promise<boolean> => {
  const after = gpu.clock.after.bind(gpu.clock);
  gpu.clock.after = (ms, fn) => after(Math.max(ms, 4), fn);
  return gpu.pass(speedUpMapAsync(gpu.device, gpu.clock));
};

test('submissions let a slow browser map a buffer within a few milliseconds, and end with the map', async () => {
  const gpu = new FakeGpu({ everyMs: 100, reportsAtSubmission: true });
  expect(await gpu.timeMap()).toBeGreaterThan(90);
  expect(await prompt(gpu)).toBe(true);
  expect(await gpu.timeMap()).toBeLessThan(10);
  const { submitted } = gpu;
  gpu.clock.advance(1000);
  expect(gpu.submitted).toBe(submitted);
});

test('several maps at the same time share the submissions', async () => {
  const gpu = new FakeGpu({ everyMs: 100, reportsAtSubmission: true });
  await prompt(gpu);
  const { submitted } = gpu;
  const buffers = Array.from({ length: 8 }, () => gpu.device.createBuffer({ size: 16, usage: READ }));
  await gpu.pass(Promise.all(buffers.map((buffer) => buffer.mapAsync(READ))));
  expect(gpu.submitted - submitted).toBe(1);
});

test('mapping a buffer that is not for reading submits no commands', async () => {
  const gpu = new FakeGpu({ everyMs: 100, reportsAtSubmission: true });
  await prompt(gpu);
  expect(await gpu.timeMap(UNIFORM)).toBeGreaterThan(90);
});

test('a browser that maps buffers quickly gets no submissions', async () => {
  const gpu = new FakeGpu({ everyMs: 2, reportsAtSubmission: true });
  expect(await prompt(gpu)).toBe(false);
  await gpu.timeMap();
  expect(gpu.submitted).toBe(0);
});

test('a browser in which submissions do not speed up maps gets no submissions', async () => {
  const gpu = new FakeGpu({ everyMs: 100 });
  expect(await prompt(gpu)).toBe(false);
  const { submitted } = gpu;
  await gpu.timeMap();
  expect(gpu.submitted).toBe(submitted);
});

test('submissions end when the map is rejected or the GPU is lost', async () => {
  const gpu = new FakeGpu({ everyMs: 100, reportsAtSubmission: true });
  await prompt(gpu);
  // From now on the GPU has no results.
  gpu.queue.submit = () => void (gpu.submitted += 1);
  /** Starts a map, ends it with `end`, and returns how many submissions followed each. */
  const during = async (end: (buffer: GPUBuffer) => unknown): Promise<[number, number]> => {
    const buffer = gpu.device.createBuffer({ size: 16, usage: READ });
    const mapped = buffer.mapAsync(READ).catch(() => {});
    const before = gpu.submitted;
    gpu.clock.advance(20);
    const { submitted } = gpu;
    await end(buffer);
    await new Promise(setImmediate);
    gpu.clock.advance(20);
    const counts: [number, number] = [submitted - before, gpu.submitted - submitted];
    buffer.destroy();
    await mapped;
    return counts;
  };
  expect(await during((buffer) => buffer.destroy())).toEqual([5, 0]);
  expect(await during(() => gpu.loss.resolve({} as GPUDeviceLostInfo))).toEqual([5, 0]);
});

test('a GPU that never answers causes an error after 10 s', async () => {
  const gpu = new FakeGpu({ everyMs: 1_000_000 });
  await expect(prompt(gpu)).rejects.toThrow('the GPU did not map a buffer within 10 s.');
});
