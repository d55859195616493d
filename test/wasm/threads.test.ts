/** Threads that compute parts of the calls of the WebAssembly module. */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { afterAll, describe, expect, test } from 'vitest';
import { MODULE as OPTIM_MODULE } from '../../src/optim/moduleBytes.ts';
import { systemClock } from '../../src/util/clock.ts';
import { compileSimd } from '../../src/util/simdModule.ts';
import { DeviceError } from '../../src/util/errors.ts';
import { createRng } from '../../src/util/rng.ts';
import { CALL_DIVISIONS, type DividedFunctionName } from '../../src/wasm/divisions.ts';
import { instantiateThreadModules } from '../../src/wasm/instance.ts';
import { MODULE } from '../../src/wasm/moduleBytes.ts';
import { withSharedMemory } from '../../src/wasm/sharedMemory.ts';
import { WasmThreads, type ThreadStart } from '../../src/wasm/threads.ts';

const PAGES = 256;
/** Most threads whose memory the calls below leave room for. */
const MOST_THREADS = 4;

const modules = {
  kernels: compileSimd(MODULE, withSharedMemory)!,
  optim: compileSimd(OPTIM_MODULE, withSharedMemory)!,
};

function sharedMemory(): WebAssembly.Memory {
  return new WebAssembly.Memory({ initial: PAGES, maximum: PAGES, shared: true });
}

const { sizes } = instantiateThreadModules(modules, sharedMemory());

/** Reserves places one after the other. The first bytes stay free. */
function placer(): (bytes: number) => number {
  let next = 1024;
  return (bytes) => {
    const at = next;
    next += Math.ceil((bytes + 16) / 16) * 16;
    return at;
  };
}

interface Call {
  name: DividedFunctionName;
  args: number[];
  /** Where the results are, in bytes. */
  results: [at: number, bytes: number][];
}

function product(rows: number, columns: number, depth: number, isTransposed: boolean): Call {
  const place = placer();
  const scratch = place(MOST_THREADS * sizes.scratchBytes);
  const [c, a, b] = [place(4 * rows * columns), place(4 * rows * depth), place(4 * depth * columns)];
  const steps = isTransposed ? [4, 4 * rows, 4, 4 * depth] : [4 * depth, 4, 4 * columns, 4];
  const args = [c, 4 * columns, a, steps[0]!, steps[1]!, b, steps[2]!, steps[3]!, rows, columns, depth, 0, scratch];
  return { name: 'multiply', args, results: [[c, 4 * rows * columns]] };
}

function attention(name: 'attention' | 'attentionGradient', samples: number, context: number, heads: number): Call {
  const size = 12;
  const place = placer();
  const scratch = place(MOST_THREADS * sizes.scratchBytes);
  const probabilities = place(MOST_THREADS * 2 * sizes.attentionBytes(context));
  const width = 4 * samples * context * heads * size;
  const [y, qkv, dqkv] = [place(width), place(3 * width), place(3 * width)];
  const shape = [0, samples * heads, context, heads, size, scratch];
  return name === 'attention'
    ? { name, args: [y, qkv, probabilities, ...shape], results: [[y, width]] }
    : { name, args: [dqkv, qkv, y, probabilities, ...shape], results: [[dqkv, 3 * width]] };
}

function convolution(ofFilter: boolean, stride: number): Call {
  const [batch, side, channels, outChannels, window, pad] = [5, 13, 3, 6, 5, 2];
  const out = Math.floor((side + 2 * pad - window) / stride) + 1;
  const place = placer();
  const scratch = place(MOST_THREADS * sizes.scratchBytes);
  const rows = place(MOST_THREADS * sizes.windowBytes(out, out, window * window * channels));
  const bytes = {
    pictures: 4 * batch * side * side * channels,
    filter: 4 * window * window * channels * outChannels,
  };
  const [pictures, filter, dy] = [
    place(bytes.pictures),
    place(bytes.filter),
    place(4 * batch * out * out * outChannels),
  ];
  return {
    name: 'convolutionGradient',
    args: [
      ...[ofFilter ? 1 : 0, pictures, filter, dy, rows, batch, side, side, channels, out, out, outChannels],
      ...[window, window, stride, stride, pad, pad, scratch],
    ],
    results: [ofFilter ? [filter, bytes.filter] : [pictures, bytes.pictures]],
  };
}

function adam(count: number): Call {
  const place = placer();
  const arrays = Array.from({ length: 4 }, () => place(4 * count));
  const results = [0, 2, 3].map((i): [number, number] => [arrays[i]!, 4 * count]);
  return { name: 'adam', args: [...arrays, count, 0.9, 0.1, 0.999, 0.001, 0.01, 1e-8, 1, 0, 0], results };
}

const CALLS: [string, Call][] = [
  ['a wide product', product(33, 1003, 70, false)],
  ['a high product', product(1003, 33, 70, false)],
  ['a wide product of transposed matrices', product(30, 200, 300, true)],
  ['a high product of transposed matrices', product(201, 30, 300, true)],
  ['attention', attention('attention', 3, 70, 5)],
  ['attention of one sample', attention('attention', 1, 64, 3)],
  ['the gradient of attention', attention('attentionGradient', 3, 70, 5)],
  ["the gradient of a convolution's filter", convolution(true, 1)],
  ["the gradient of a convolution's pictures", convolution(false, 2)],
  ['an update of parameters', adam(20_003)],
];

/** Positive, because roots of means must exist. */
const VALUES = randomValues();

function randomValues(): Float32Array {
  const rng = createRng(7);
  return Float32Array.from({ length: (PAGES * 65_536) / 4 }, () => rng.next() + 0.1);
}

function fill(memory: WebAssembly.Memory): void {
  new Float32Array(memory.buffer).set(VALUES);
}

function resultsOf(memory: WebAssembly.Memory, { results }: Call): Uint8Array[] {
  return results.map(([at, bytes]) => new Uint8Array(memory.buffer, at, bytes).slice());
}

/** The results of a call that is not divided. */
function expectedOf(call: Call): Uint8Array[] {
  const memory = sharedMemory();
  fill(memory);
  instantiateThreadModules(modules, memory).functions[call.name](...call.args);
  return resultsOf(memory, call);
}

describe('parts of a call have the bits of the whole call:', () => {
  test.each(CALLS)('%s', (_, call) => {
    const expected = expectedOf(call);
    const division = CALL_DIVISIONS[call.name];
    const units = division.units(call.args);
    expect(units).toBeGreaterThan(1);
    for (const parts of [2, 3, 7].map((count) => Math.min(count, units))) {
      const memory = sharedMemory();
      fill(memory);
      const own = instantiateThreadModules(modules, memory);
      for (let i = parts - 1; i >= 0; i--) {
        const [from, to] = [Math.floor((units * i) / parts), Math.floor((units * (i + 1)) / parts)];
        const part = { from, to, thread: i % MOST_THREADS, sizes: own.sizes };
        own.functions[call.name](...division.part(call.args, part));
      }
      expect(resultsOf(memory, call)).toEqual(expected);
    }
  });
});

/** Runs the thread's file with tsx, as vitest does not load files of other threads. */
const LOADER = `import('tsx/esm/api').then(({ tsImport }) => tsImport('./threadInNode.ts', ${JSON.stringify(import.meta.url)}))`;
const started: Worker[] = [];

function startThread(start: ThreadStart): void {
  started.push(new Worker(LOADER, { eval: true, workerData: start }));
}

afterAll(() => Promise.all(started.map((worker) => worker.terminate())));

describe('threads', () => {
  test('compute calls with the bits of one thread, while other threads start and sleep', async () => {
    const memory = sharedMemory();
    const threads = new WasmThreads(modules, memory, { clock: systemClock, create: startThread });
    const all = CALLS.map(([, call]) => ({ call, expected: expectedOf(call) }));
    for (const count of [1, 3, 2, 4, 1]) {
      const before = started.length;
      threads.count = count;
      expect(threads.count).toBe(count);
      await Promise.all(started.slice(before).map((worker) => once(worker, 'message')));
      for (const { call, expected } of all) {
        fill(memory);
        threads.run(call.name, call.args);
        expect(resultsOf(memory, call)).toEqual(expected);
      }
    }
  });

  test('compute nothing after a call has failed, because a thread may still write parts of it', () => {
    const threads = new WasmThreads(modules, sharedMemory(), { clock: systemClock, create: () => {} });
    threads.count = 2;
    const outside = product(64, 64, 64, false);
    outside.args[0] = PAGES * 65_536;
    expect(() => threads.run(outside.name, outside.args)).toThrow(WebAssembly.RuntimeError);
    for (const size of [2, 64]) {
      const { name, args } = product(size, size, size, false);
      expect(() => threads.run(name, args)).toThrow(DeviceError);
    }
  });
});

describe('calls are computed by one thread for a while', () => {
  const [, call] = CALLS[0]!;

  /** Returns which of `calls` calls were divided, if the calling thread computes for 1 ms. */
  function dividedCalls(calls: number, waitMs: number): boolean[] {
    // The clock is read before and after the call begins, before and after the own parts, and after
    // those of others.
    const readings = [0, 0, 0, 1, 1 + waitMs];
    let reads = 0;
    const clock = { now: () => readings[reads++ % readings.length]! };
    const threads = new WasmThreads(modules, sharedMemory(), { clock, create: () => {} });
    threads.count = 2;
    return Array.from({ length: calls }, () => {
      const before = reads;
      threads.run(call.name, call.args);
      return reads > before;
    });
  }

  test('if waiting for other threads takes longer than their parts', () => {
    const divided = dividedCalls(256 + 1024 + 1, 0.5);
    expect(divided.indexOf(false)).toBe(256);
    expect(divided.lastIndexOf(false)).toBe(256 + 1024 - 1);
  });

  test('and not otherwise', () => {
    expect(dividedCalls(600, 0)).not.toContain(false);
  });
});

test('instances change nothing in the memory of TensorFlow.js, which begins at 1024', () => {
  const memory = sharedMemory();
  fill(memory);
  const before = new Uint8Array(memory.buffer).slice(1024);
  instantiateThreadModules(modules, memory);
  expect(new Uint8Array(memory.buffer).slice(1024)).toEqual(before);
});

describe('a module with shared memory', () => {
  test('needs a memory with a maximum size', () => {
    // The module `(module (memory 1))`.
    const unlimited = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 5, 3, 1, 0, 1);
    expect(() => withSharedMemory(unlimited)).toThrow(TypeError);
    const limited = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 5, 4, 1, 1, 1, 1);
    expect(withSharedMemory(limited)).toEqual(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 5, 4, 1, 3, 1, 1));
  });
});
