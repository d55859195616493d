/**
 * The contract with TensorFlow.js's WebGPU backend. Each test names members that its types hide, or
 * whose behaviour is not documented, and what src/gpu and src/parallel rely on.
 */
import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { openCommandEncoder, webgpuBackend } from '../../src/gpu/backend.ts';

/** Larger than the tensors that TensorFlow.js computes on the CPU. */
const LENGTH = 5000;

test('tensorMap has the buffer of a tensor on the GPU, and no buffer of a tensor on the CPU', () => {
  const backend = webgpuBackend()!;
  const onCpu = tf.tensor1d(new Float32Array(LENGTH).fill(3));
  expect(backend.tensorMap.get(onCpu.dataId)).toMatchObject({ values: expect.any(Float32Array) as unknown });
  expect(backend.tensorMap.get(onCpu.dataId).resource).toBeFalsy();
  const onGpu = onCpu.square();
  const { resource, values } = backend.tensorMap.get(onGpu.dataId);
  expect((resource as GPUBuffer).size).toBe(4 * LENGTH);
  expect(values).toBeFalsy();
  backend.uploadToGPU(onCpu.dataId);
  expect(backend.tensorMap.get(onCpu.dataId).resource).toBeTruthy();
  tf.dispose([onCpu, onGpu]);
});

test('a variable returns new values after its buffer was written and its cached values were removed', async () => {
  const backend = webgpuBackend()!;
  const variable = tf.variable(tf.zeros([LENGTH]));
  const twice = variable.mul(2);
  await Promise.all([variable.data(), twice.data()]);
  backend.uploadToGPU(variable.dataId);
  const data = backend.tensorMap.get(variable.dataId);
  backend.queue.writeBuffer(data.resource as GPUBuffer, 0, new Float32Array(LENGTH).fill(7));
  (data as { values: unknown }).values = null;
  expect((await variable.data())[LENGTH - 1]).toBe(7);
  tf.dispose([variable, twice]);
});

test('refCount counts tensors that share a buffer; after incRef the buffer stays until disposeData', () => {
  const backend = webgpuBackend()!;
  const x = tf.ones([LENGTH]).square();
  const { dataId } = x;
  expect(backend.refCount(dataId)).toBe(1);
  const view = x.reshape([LENGTH, 1]);
  expect(backend.refCount(dataId)).toBe(2);
  view.dispose();
  backend.incRef(dataId);
  x.dispose();
  expect(backend.refCount(dataId)).toBe(1);
  expect(backend.disposeData(dataId)).toBe(true);
});

test('commandEncoder records ops until submitQueue; a copy recorded after an op reads the result of this op', async () => {
  const backend = webgpuBackend()!;
  const y = tf.ones([LENGTH]).mul(5);
  const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
  const copy = backend.device.createBuffer({ size: 4 * LENGTH, usage });
  const encoder = openCommandEncoder(backend);
  expect(encoder).toBe(backend.commandEncoder);
  encoder.copyBufferToBuffer(backend.tensorMap.get(y.dataId).resource as GPUBuffer, 0, copy, 0, 4 * LENGTH);
  backend.submitQueue();
  expect(backend.commandEncoder).toBeNull();
  await copy.mapAsync(GPUMapMode.READ);
  expect(new Float32Array(copy.getMappedRange())[LENGTH - 1]).toBe(5);
  copy.destroy();
  y.dispose();
});

test('pipelineCache has a single pipeline for equal shaders', () => {
  const backend = webgpuBackend()!;
  const x = tf.ones([LENGTH]);
  const pipelines = (): number => Object.keys(backend.pipelineCache).length;
  tf.dispose(x.atanh());
  const before = pipelines();
  tf.dispose([x.atanh(), tf.ones([LENGTH + 1]).atanh()]);
  expect(pipelines()).toBe(before);
  expect(before).toBeGreaterThan(0);
  x.dispose();
});
