import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { rmsNorm } from '../../../src/gpu/kernels/rmsNorm.ts';

test('a program reads float32 tensors that were cast from int32', async () => {
  const rows = tf.tensor2d([0, 1, 0, 0, 2, 2, 2, 2], [2, 4], 'int32').mul(1);
  const y = rmsNorm(rows.cast('float32'), tf.ones([4]), 0);
  expect([...(await y.data())].map((value) => Math.round(value * 1000) / 1000)).toEqual([0, 2, 0, 0, 1, 1, 1, 1]);
  tf.dispose([rows, y]);
});
