import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { differentiatePassAlone } from '../../src/parallel/backward/pass.ts';
import type { ComputedGradients } from '../../src/parallel/backward/flatten.ts';
import { openCommandEncoder, webgpuBackend } from '../../src/gpu/backend.ts';
import { CapturedPass, gpuRecordingDifference, type PinnedBuffers } from '../../src/gpu/capture.ts';
import { recordGpuCommands, type GpuCommandRecorder } from '../../src/gpu/recording.ts';
import { createRng } from '../../src/util/rng.ts';
import { read } from '../replayCases.ts';

const bufferOf = ({ dataId }: tf.Tensor): GPUBuffer => {
  const backend = webgpuBackend()!;
  backend.uploadToGPU(dataId);
  return backend.tensorMap.get(dataId).resource as GPUBuffer;
};

interface Recorded {
  gradients: ComputedGradients;
  recorder: GpuCommandRecorder;
  pinned: PinnedBuffers;
}

function recordPass(loss: () => tf.Scalar, variables: tf.Variable[], inputs: tf.Tensor[]): Recorded {
  const backend = webgpuBackend()!;
  const pinned = { parameters: variables.map(bufferOf), inputs: inputs.map(bufferOf) };
  const { result, recorder } = recordGpuCommands(backend, () =>
    differentiatePassAlone(loss, { model: null, parameters: variables }),
  );
  return { gradients: result, recorder, pinned };
}

const wrap = (capture: CapturedPass, recorded: tf.Tensor): tf.Tensor =>
  tf.tensor({ buffer: capture.bufferOf(bufferOf(recorded))!, zeroCopy: true }, recorded.shape, 'float32');

const difference = (a: Recorded, b: Recorded): string | null =>
  gpuRecordingDifference([a.recorder.commands, a.pinned], [b.recorder.commands, b.pinned]);

test('a replayed pass of a dense network equals the eager pass bit for bit in 20 steps', async () => {
  const rng = createRng(3);
  const random = (...shape: number[]): tf.Tensor =>
    tf.tensor(
      Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => rng.next() - 0.5),
      shape,
    );
  const variables = [random(20, 16), random(16), random(16, 5), random(5)].map((t) => tf.variable(t));
  const [w1, b1, w2, b2] = variables as [tf.Variable, tf.Variable, tf.Variable, tf.Variable];
  const lossOf = (x: tf.Tensor, labels: tf.Tensor) => (): tf.Scalar => {
    const logits = tf.add(tf.matMul(tf.relu(tf.add(tf.matMul(x, w1), b1)), w2), b2);
    return tf.neg(tf.sum(tf.mul(tf.logSoftmax(logits), tf.cast(tf.oneHot(labels as tf.Tensor1D, 5), 'float32'))));
  };
  const batch = (): [tf.Tensor, tf.Tensor] => [
    random(8, 20),
    tf.tensor1d(
      Array.from({ length: 8 }, () => rng.below(5)),
      'int32',
    ),
  ];
  const recordNext = (): Recorded => {
    const [x, labels] = batch();
    return recordPass(lossOf(x, labels), variables, [x, labels]);
  };
  const first = recordNext();
  await read(first.gradients);
  const second = recordNext();
  expect(second.recorder.problem).toBeNull();
  expect(difference(first, second)).toBeNull();
  const capture = new CapturedPass(webgpuBackend()!, second.recorder.commands, second.pinned);
  for (let step = 0; step < 20; step++) {
    const [x, labels] = batch();
    for (const variable of variables) {
      const values = Float32Array.from({ length: variable.size }, () => rng.next() - 0.5);
      webgpuBackend()!.queue.writeBuffer(bufferOf(variable), 0, values);
    }
    const values = await Promise.all([x.data(), labels.data()]);
    capture.replay(values as Float32Array<ArrayBuffer>[], () => {});
    const outputs = {
      value: wrap(capture, second.gradients.value) as tf.Scalar,
      gradients: second.gradients.gradients.map((gradient) => wrap(capture, gradient)),
    };
    const replayed = await read(outputs);
    tf.dispose([outputs.value, outputs.gradients]);
    const eager = differentiatePassAlone(lossOf(x, labels), { model: null, parameters: variables });
    expect(replayed).toEqual(await read(eager));
    eager.dispose();
    tf.dispose([x, labels]);
  }
  second.gradients.dispose();
  first.gradients.dispose();
  capture.dispose();
  tf.dispose(variables);
}, 60_000);

test('recordings of a pass differ if its constants change, and the reason says so', () => {
  const x = tf.ones([30, 40]);
  const weights = tf.tidy(() => tf.variable(tf.ones([40, 3])));
  const recordWith = (factor: number): Recorded =>
    recordPass(() => tf.sum(tf.mul(tf.matMul(x, weights), factor)), [weights], [x]);
  const [one, again, other] = [recordWith(2), recordWith(2), recordWith(3)];
  expect(difference(one, again)).toBeNull();
  expect(difference(one, other)).toMatch(/^after \d+ shaders, values that the pass computes on the CPU changed$/);
  for (const { gradients } of [one, again, other]) gradients.dispose();
  tf.dispose([x, weights]);
});

test('a pass that reads a tensor other than parameters and inputs cannot be captured', () => {
  const x = tf.ones([30, 40]);
  const weights = tf.tidy(() => tf.variable(tf.ones([40, 3])));
  const hidden = tf.ones([30, 40]);
  bufferOf(hidden);
  const loss = (): tf.Scalar => tf.sum(tf.matMul(tf.mul(x, hidden), weights));
  const { recorder, pinned, gradients } = recordPass(loss, [weights], [x]);
  expect(() => new CapturedPass(webgpuBackend()!, recorder.commands, pinned)).toThrow(
    'neither a parameter nor an input',
  );
  gradients.dispose();
  tf.dispose([x, weights, hidden]);
});

test('a replay reports each mark between the same commands as in the recording', async () => {
  const x = tf.ones([30, 40]);
  const weights = tf.tidy(() => tf.variable(tf.ones([40, 3])));
  const backend = webgpuBackend()!;
  const pinned = { parameters: [bufferOf(weights)], inputs: [bufferOf(x)] };
  const { result, recorder } = recordGpuCommands(backend, (active) => {
    const product = tf.matMul(x, weights);
    active.mark(7);
    return [product, tf.sum(product)] as const;
  });
  const capture = new CapturedPass(backend, recorder.commands, pinned);
  const submits: number[] = [];
  capture.replay([new Float32Array(30 * 40).fill(2)], (value) => {
    submits.push(value);
    openCommandEncoder(backend);
    backend.submitQueue();
  });
  expect(submits).toEqual([7]);
  const sum = wrap(capture, result[1]);
  expect((await sum.data())[0]).toBe(2 * 40 * 30 * 3);
  tf.dispose([x, weights, ...result, sum]);
  capture.dispose();
});
