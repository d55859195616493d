import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { startCountingGpuCommands } from '../../src/engine/training/telemetry/countGpuCommands.ts';

const LENGTH = 5000;

test('the commands of a step are its dispatches and submits', async () => {
  const x = tf.ones([LENGTH]);
  await x.square().data();
  const commandsSince = startCountingGpuCommands();
  const y = tf.tidy(() => x.square().add(x));
  expect(commandsSince()).toEqual({ dispatches: 2, submits: 0 });
  await y.data();
  expect(commandsSince()).toEqual({ dispatches: 2, submits: 1 });
  tf.dispose([x, y]);
});

test('backends other than webgpu report no commands', async () => {
  const commandsSince = startCountingGpuCommands();
  await tf.setBackend('cpu');
  expect(commandsSince()).toBeNull();
  expect(startCountingGpuCommands()()).toBeNull();
  await tf.setBackend('webgpu');
});
