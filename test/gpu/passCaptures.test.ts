/** Steps of the engine whose passes are replayed on WebGPU. */
import * as tf from '@tensorflow/tfjs';
import { expect, test, vi } from 'vitest';
import { webgpuBackend } from '../../src/gpu/backend.ts';
import { chooseWebGpuKernels } from '../../src/gpu/kernels/index.ts';
import { mlpTask, testReplays, Trainer } from '../replayCases.ts';

type GpuMemory = tf.MemoryInfo & { numBytesInGPU: number; numBytesInGPUAllocated: number };

function heldMemory(): unknown {
  const { numTensors, numBytesInGPU, numBytesInGPUAllocated } = tf.memory() as GpuMemory;
  return { numTensors, numBytesInGPU, numBytesInGPUAllocated };
}

testReplays('values that the pass computes on the CPU changed');

test('after a change of kernels, steps have the bits of eager passes with the new kernels', async () => {
  const trainer = new Trainer(await mlpTask());
  for (let step = 0; step < 5; step++) await trainer.step();
  try {
    chooseWebGpuKernels('stock');
    for (let step = 0; step < 5; step++) await trainer.checkedStep();
  } finally {
    chooseWebGpuKernels('own');
  }
  await trainer.checkedStep();
  // Two recordings and the comparison of the first replay, with each choice of kernels.
  expect(trainer.runs).toBe(6);
  expect(trainer.reasons).toEqual([]);
  trainer.dispose();
}, 60_000);

test('passes stay eager if the GPU lacks memory for a replay; the reason is reported, without an error of the GPU', async () => {
  const { device } = webgpuBackend()!;
  const { numTensors } = tf.memory();
  const trainer = new Trainer(await mlpTask());
  await trainer.checkedStep();
  // The buffers of the replay are created while errors are collected.
  const push = device.pushErrorScope.bind(device);
  const create = device.createBuffer.bind(device);
  let isReplay = false;
  device.pushErrorScope = (filter) => {
    isReplay = true;
    push(filter);
  };
  device.createBuffer = (descriptor) => create(isReplay ? { ...descriptor, size: 2 ** 50 } : descriptor);
  const pop = vi.spyOn(device, 'popErrorScope').mockImplementation(function (this: GPUDevice) {
    isReplay = false;
    return GPUDevice.prototype.popErrorScope.call(this);
  });
  await trainer.step();
  expect(pop).toHaveBeenCalled();
  pop.mockRestore();
  Object.assign(device, { pushErrorScope: push, createBuffer: create });
  expect(trainer.reasons).toEqual([expect.stringContaining('Steps are not replayed: the GPU refused its buffers')]);
  for (let step = 2; step < 5; step++) await trainer.checkedStep();
  expect(trainer.runs).toBe(5);
  trainer.dispose();
  expect(tf.memory().numTensors).toBe(numTensors);
}, 60_000);

test('the memory of tensors and of the GPU does not grow in 200 steps', async () => {
  const trainer = new Trainer(await mlpTask());
  for (let step = 0; step < 5; step++) await trainer.step();
  const before = heldMemory();
  const create = vi.spyOn(webgpuBackend()!.device, 'createBuffer');
  for (let step = 0; step < 195; step++) await trainer.step();
  expect(heldMemory()).toEqual(before);
  // The test itself creates a staging buffer in each step.
  expect(create.mock.calls.length).toBeLessThanOrEqual(195);
  create.mockRestore();
  expect(trainer.runs).toBe(3);
  trainer.dispose();
}, 60_000);
