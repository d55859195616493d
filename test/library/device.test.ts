/** `openDevice` keeps tensors that a device has. */
import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { openDevice } from '../../src/index.ts';
import '@tensorflow/tfjs-backend-wasm';
import { prepareDevice } from '../../src/library/device.ts';
import { UsageError } from '../../src/util/errors.ts';
import { errorOf } from '../errorOf.ts';

class Gpu extends tf.KernelBackend {
  readonly device: { lost: Promise<unknown> };

  constructor(lost: Promise<unknown>) {
    super();
    this.device = { lost };
  }

  override numDataIds(): number {
    return 2;
  }

  override dispose(): void {}
}

/** Makes a GPU with two tensors the backend, as TensorFlow.js does without peergrad. */
async function useGpu(lost: Promise<unknown>): Promise<void> {
  tf.registerBackend('webgpu', () => new Gpu(lost), 0);
  await tf.setBackend('webgpu');
}

beforeEach(() => {
  vi.stubGlobal('isSecureContext', true);
  vi.stubGlobal('navigator', {});
  vi.stubGlobal('WebAssembly', undefined);
});
afterEach(() => {
  vi.unstubAllGlobals();
  if (tf.findBackend('webgpu')) tf.removeBackend('webgpu');
});

test('a second call of openDevice returns the open device', async () => {
  const first = await openDevice();
  expect(await openDevice()).toBe(first);
});

test('a GPU that TensorFlow.js has opened is not replaced as long as it has tensors', async () => {
  await useGpu(new Promise(() => {}));
  const error = await errorOf(openDevice());
  expect(error).toBeInstanceOf(UsageError);
  expect(error.message).toMatch(/2 tensors on the GPU would be lost\. Call openDevice\(\) before the first tensor/);
  expect(tf.getBackend()).toBe('webgpu');
});

test('a lost GPU is replaced, even if it has tensors', async () => {
  await useGpu(Promise.resolve({}));
  expect((await openDevice()).device.backend).toBe('cpu');
});

test('a page that chooses the WebAssembly backend itself has the kernels for training', async () => {
  await prepareDevice('current');
  expect(tf.getKernel('DepthwiseConv2dNativeBackpropInput', 'wasm')).toBeDefined();
});
