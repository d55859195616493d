/** DataParallel with replicas over message ports in one process. */
import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { DataParallel } from '../../../src/dataParallel.ts';
import { chunkSizes } from '../../../src/library/dataParallel/dataParallel.ts';
import {
  createOptimizer,
  DeviceError,
  loadCheckpoint,
  loadSafetensors,
  saveCheckpoint,
  saveSafetensors,
  TimeoutError,
  UsageError,
} from '../../../src/index.ts';
import type { ReplicaPort } from '../../../src/library/dataParallel/messages.ts';
import { serveDataParallelReplica } from '../../../src/library/dataParallel/serveDataParallelReplica.ts';
import { errorOf } from '../../errorOf.ts';
import { meanSquare, mlp, normalized, relativeDifference, samplesOf, weightsOf } from '../../parallel/models.ts';

/** Serves a replica in this process; `check` is its device's. */
function openHere(check: () => void = () => {}): ReplicaPort {
  const { port1, port2 } = new MessageChannel();
  serveDataParallelReplica(port1, () => Promise.resolve({ check }));
  return port2;
}

const models: tf.LayersModel[] = [];
const opened: DataParallel[] = [];
const keep = <M extends tf.LayersModel>(model: M): M => {
  models.push(model);
  return model;
};
async function open(model: tf.LayersModel, replicas: number, check?: (replica: number) => void): Promise<DataParallel> {
  const openReplica = (replica: number): ReplicaPort => openHere(() => check?.(replica));
  const parallel = await DataParallel.create(model, { replicas, openReplica });
  opened.push(parallel);
  return parallel;
}

const twoByTwo = (): tf.LayersModel => {
  const [a, b] = [tf.input({ shape: [3] }), tf.input({ shape: [3] })];
  const kernelInitializer = tf.initializers.glorotUniform({ seed: 4 });
  const sum = tf.layers.add().apply([a, b]) as tf.SymbolicTensor;
  const [left, right] = [1, 2].map(
    (units) => tf.layers.dense({ units, kernelInitializer }).apply(sum) as tf.SymbolicTensor,
  );
  return keep(tf.model({ inputs: [a, b], outputs: [left!, right!] }));
};

const secondLoss = (outputs: tf.Tensor[]): tf.Scalar => meanSquare(outputs[1]!);

/** A model with a nested model whose weights are not trained. */
function frozenBase(): tf.Sequential {
  const kernelInitializer = tf.initializers.glorotUniform({ seed: 6 });
  const base = tf.sequential({ layers: [tf.layers.dense({ units: 4, inputShape: [3], kernelInitializer })] });
  base.trainable = false;
  return keep(tf.sequential({ layers: [base, tf.layers.dense({ units: 2, kernelInitializer })] }));
}

const penalized = (outputs: tf.Tensor, kernel: tf.Tensor): tf.Scalar => meanSquare(outputs).add(kernel.square().sum());

const oneLayer = () => keep(tf.sequential({ layers: [tf.layers.dense({ name: 'only', units: 2, inputShape: [3] })] }));

const sorted = (values: Iterable<number>): number[] => Array.from(values).toSorted((a, b) => a - b);

let before: tf.MemoryInfo;
beforeEach(() => {
  before = tf.memory();
});
afterEach(async () => {
  for (const parallel of opened.splice(0)) parallel.dispose();
  for (const model of models.splice(0)) model.dispose();
  await vi.waitFor(() => {
    const { numTensors, numBytes } = tf.memory();
    expect({ numTensors, numBytes }).toEqual({ numTensors: before.numTensors, numBytes: before.numBytes });
  });
});

test.each([
  [30, 1, [30]],
  [30, 2, [15, 15]],
  [30, 3, [10, 10, 10]],
  [10, 4, [3, 3, 3, 1]],
  [5, 4, [2, 2, 1]],
  [4, 3, [2, 2]],
  [1, 3, [1]],
])('%i samples are split into at most %i parts, as by torch.chunk', (batch, chunks, sizes) => {
  expect(chunkSizes(batch, chunks)).toEqual(sizes);
});

describe('training', () => {
  test.each([1, 2, 3])('equals plain training of the whole batch, with %i replicas', async (replicas) => {
    const plain = keep(mlp(3));
    const model = keep(mlp(3));
    const parallel = await open(model, replicas);
    const [reference, optimizer] = [tf.train.adam(0.01), tf.train.adam(0.01)];
    for (let step = 0; step < 10; step++) {
      const xs = samplesOf(0, step, step === 9 ? 10 : 30);
      const wanted = reference.minimize(() => meanSquare(plain.apply(xs, { training: true }) as tf.Tensor), true)!;
      const loss = await parallel.backward(xs, meanSquare);
      parallel.step(optimizer);
      expect(relativeDifference([loss], wanted.dataSync())).toBeLessThan(1e-6);
      expect(relativeDifference(weightsOf(model), weightsOf(plain))).toBeLessThan(1e-6);
      tf.dispose([xs, wanted]);
    }
    reference.dispose();
    optimizer.dispose();
    const rows = parallel.memory().map(({ batch, inputs, outputs }) => [batch, inputs, outputs]);
    const sizes = chunkSizes(10, replicas);
    expect(rows).toEqual(sizes.map((size) => [size, [[size, 3]], [[size, 2]]]));
  });

  test('sends parameters again if they changed while they were sent', async () => {
    const model = oneLayer();
    let onreplicate: (() => void) | null = null;
    const openReplica = (): ReplicaPort => {
      const end = openHere() as MessagePort;
      const post = end.postMessage.bind(end);
      end.postMessage = (message: { type: string }) => {
        post(message);
        if (message.type === 'replicate') onreplicate?.();
      };
      return end;
    };
    const parallel = await DataParallel.create(model, { replicas: 2, openReplica });
    opened.push(parallel);
    const xs = samplesOf(0, 0, 4);
    onreplicate = () => {
      onreplicate = null;
      parallel.parameters.fill(1);
      parallel.writeParameters();
    };
    tf.dispose(await parallel.predict(xs));
    const outputs = (await parallel.predict(xs)) as tf.Tensor;
    const expected = model.predict(xs) as tf.Tensor;
    expect(relativeDifference(outputs.dataSync(), expected.dataSync())).toBeLessThan(1e-6);
    tf.dispose([xs, outputs, expected]);
  });

  test('scatters several inputs and gathers several outputs; the loss may use only some of the outputs', async () => {
    const [plain, model] = [twoByTwo(), twoByTwo()];
    const parallel = await open(model, 3);
    const xs = [samplesOf(0, 0, 7), samplesOf(1, 0, 7)];
    const optimizer = tf.train.sgd(0.5);
    optimizer.minimize(() => secondLoss(plain.apply(xs) as tf.Tensor[]));
    optimizer.dispose();
    await parallel.backward<tf.Tensor[]>(xs, secondLoss);
    parallel.step(createOptimizer('sgd', { learningRate: 0.5 }, parallel.parameters.length));
    expect(relativeDifference(weightsOf(model), weightsOf(plain))).toBeLessThan(1e-6);
    const [expected, actual] = [plain.predict(xs) as tf.Tensor[], (await parallel.predict(xs)) as tf.Tensor[]];
    for (const [i, output] of expected.entries()) {
      expect(relativeDifference(actual[i]!.dataSync(), output.dataSync())).toBeLessThan(1e-6);
    }
    tf.dispose([xs, expected, actual]);
  });

  test('allows a loss that uses weights directly, such as a penalty of their squares', async () => {
    const [plain, model] = [oneLayer(), oneLayer()];
    model.setWeights(plain.getWeights());
    const parallel = await open(model, 2);
    const xs = samplesOf(0, 0, 6);
    const [unchanged, kernels] = [weightsOf(model), [plain, model].map((own) => own.trainableWeights[0]!.read())];
    const optimizer = tf.train.sgd(0.5);
    optimizer.minimize(() => penalized(plain.apply(xs) as tf.Tensor, kernels[0]!));
    optimizer.dispose();
    await parallel.backward(xs, (outputs) => penalized(outputs, kernels[1]!));
    parallel.step(createOptimizer('sgd', { learningRate: 0.5 }, parallel.parameters.length));
    expect(relativeDifference(weightsOf(model), weightsOf(plain))).toBeLessThan(1e-6);
    expect(weightsOf(model)).not.toEqual(unchanged);
    xs.dispose();
  });

  test('uses the same dropout mask forward and backward', async () => {
    const layers = [tf.layers.dropout({ rate: 0.5, inputShape: [8] }), tf.layers.dense({ units: 1, useBias: false })];
    const parallel = await open(keep(tf.sequential({ layers })), 3);
    const xs = samplesOf(0, 0, 9, 8);
    const loss = await parallel.backward(xs, (outputs) => outputs.sum().asScalar());
    // The sum of a linear model's outputs is the product of its weights and their gradient.
    const product = parallel.parameters.reduce((sum, value, i) => sum + value * parallel.gradient[i]!, 0);
    expect(product).toBeCloseTo(loss, 5);
    xs.dispose();
  });

  test('keeps the moving averages of replica 0, and all replicas use these averages to predict', async () => {
    const [plain, model] = [keep(normalized(2)), keep(normalized(2))];
    const parallel = await open(model, 2);
    const xs = samplesOf(0, 0, 8);
    const half = xs.slice(0, 4);
    await parallel.backward(xs, meanSquare);
    tf.dispose(plain.apply(half, { training: true }) as tf.Tensor);
    expect(weightsOf(model)).toEqual(weightsOf(plain));
    const [expected, actual] = [plain.predict(xs) as tf.Tensor, (await parallel.predict(xs)) as tf.Tensor];
    expect(relativeDifference(actual.dataSync(), expected.dataSync())).toBeLessThan(1e-6);
    tf.dispose([xs, half, expected, actual]);
  });

  test('uses weights that are set on the model in all replicas', async () => {
    const [plain, model] = [keep(mlp(9)), keep(mlp(1))];
    const parallel = await open(model, 2);
    const xs = samplesOf(0, 0, 6);
    tf.dispose(await parallel.predict(xs));
    model.setWeights(plain.getWeights());
    const [expected, actual] = [plain.predict(xs) as tf.Tensor, (await parallel.predict(xs)) as tf.Tensor];
    expect(relativeDifference(actual.dataSync(), expected.dataSync())).toBeLessThan(1e-6);
    expect(sorted(parallel.parameters)).toEqual(sorted(weightsOf(plain)));
    tf.dispose([xs, expected, actual]);
  });

  test('leaves the weights of a frozen nested model unchanged in all replicas', async () => {
    const [plain, model] = [frozenBase(), frozenBase()];
    const parallel = await open(model, 2);
    const xs = samplesOf(0, 0, 6);
    const optimizer = tf.train.sgd(0.5);
    optimizer.minimize(() => meanSquare(plain.apply(xs) as tf.Tensor));
    optimizer.dispose();
    await parallel.backward(xs, meanSquare);
    parallel.step(createOptimizer('sgd', { learningRate: 0.5 }, parallel.parameters.length));
    expect(parallel.parameters.length).toBe(4 * 2 + 2);
    expect(relativeDifference(weightsOf(model), weightsOf(plain))).toBeLessThan(1e-6);
    xs.dispose();
  });

  test('saves weights that are set on the model', async () => {
    const [other, model, loaded] = [oneLayer(), oneLayer(), oneLayer()];
    const parallel = await open(model, 2);
    model.setWeights(other.getWeights());
    await loadSafetensors(loaded, await saveSafetensors(parallel));
    expect(weightsOf(loaded)).toEqual(weightsOf(other));
    await loadCheckpoint({ model: parallel }, await saveCheckpoint({ model: oneLayer() }));
    model.setWeights(other.getWeights());
    await loadCheckpoint({ model: loaded }, await saveCheckpoint({ model: parallel }));
    expect(weightsOf(loaded)).toEqual(weightsOf(other));
  });

  test('step throws, and changes no weights, if weights were set or loaded after backward', async () => {
    const [other, model] = [oneLayer(), oneLayer()];
    const parallel = await open(model, 2);
    const optimizer = createOptimizer('sgd', { learningRate: 0.5 }, parallel.parameters.length);
    const xs = samplesOf(0, 0, 6);
    await parallel.backward(xs, meanSquare);
    model.setWeights(other.getWeights());
    expect(() => parallel.step(optimizer)).toThrow(/The weight "only\/.*" was set after backward/);
    expect(weightsOf(model)).toEqual(weightsOf(other));
    await parallel.backward(xs, meanSquare);
    parallel.step(optimizer);
    await parallel.backward(xs, meanSquare);
    await loadSafetensors(parallel, await saveSafetensors(other));
    expect(() => parallel.step(optimizer)).toThrow(/There is no gradient/);
    expect(weightsOf(model)).toEqual(weightsOf(other));
    await parallel.backward(xs, meanSquare);
    await loadCheckpoint({ model: parallel }, await saveCheckpoint({ model: other }));
    expect(() => parallel.step(optimizer)).toThrow(/There is no gradient/);
    xs.dispose();
  });

  test('continues with the same bits from a checkpoint', async () => {
    const xs = samplesOf(0, 0, 6);
    const first = await open(oneLayer(), 2);
    const optimizer = tf.train.adam(0.1);
    await first.backward(xs, meanSquare);
    first.step(optimizer);
    const file = await saveCheckpoint({ model: first, optimizer, progress: { step: 1 } });
    const second = await open(oneLayer(), 2);
    const again = tf.train.adam(0.1);
    expect(await loadCheckpoint({ model: second, optimizer: again }, file)).toEqual({ step: 1 });
    for (const [parallel, own] of [[first, optimizer] as const, [second, again] as const]) {
      await parallel.backward(xs, meanSquare);
      parallel.step(own);
    }
    expect(second.parameters).toEqual(first.parameters);
    tf.dispose(xs);
    optimizer.dispose();
    again.dispose();
  });
});

test('replica 0 needs more memory than the other replicas', async () => {
  const parallel = await open(keep(mlp(1, { units: 50 })), 3);
  const xs = samplesOf(0, 0, 30);
  await parallel.backward(xs, meanSquare);
  const optimizer = createOptimizer('adam', { learningRate: 0.1 }, parallel.parameters.length);
  const flat = parallel.memory()[0]!.bytes;
  parallel.step(optimizer);
  const rows = parallel.memory();
  expect(rows.map(({ replica, batch }) => [replica, batch])).toEqual([0, 1, 2].map((replica) => [replica, 10]));
  const { scalars, slots } = optimizer.state();
  for (const { bytes } of rows.slice(1)) expect(rows[0]!.bytes).toBeGreaterThan(bytes);
  expect(rows[0]!.bytes - flat).toBe(scalars.byteLength + slots.length * parallel.parameters.byteLength);
  for (const { bytes, tensors } of rows)
    expect([bytes > 4 * parallel.parameters.length, tensors > 4]).toEqual([true, true]);
  xs.dispose();
});

const createError = async (model: unknown, timeoutMs = 1000): Promise<UsageError> =>
  errorOf(DataParallel.create(model as tf.LayersModel, { timeoutMs, openReplica: () => openHere() }));

describe('errors', () => {
  test('of a replica name the replica, change nothing, and leave no tensors', async () => {
    let isLost = false;
    const model = keep(mlp(1));
    const parallel = await open(model, 3, (replica) => {
      if (isLost && replica === 2) throw new DeviceError('The GPU was lost.');
    });
    const xs = samplesOf(0, 0, 6);
    await parallel.backward(xs, meanSquare);
    const weights = weightsOf(model);
    const { numTensors } = tf.memory();
    isLost = true;
    for (const call of [() => parallel.backward(xs, meanSquare), () => parallel.predict(xs)]) {
      const error = await errorOf(call());
      expect(error).toBeInstanceOf(DeviceError);
      expect(error.message).toBe('Replica 2 failed: The GPU was lost.');
    }
    expect(() => parallel.step(createOptimizer('sgd', { learningRate: 1 }, 27))).toThrow(/There is no gradient/);
    expect(weightsOf(model)).toEqual(weights);
    await vi.waitFor(() => expect(tf.memory().numTensors).toBe(numTensors));
    isLost = false;
    await parallel.backward(xs, meanSquare);
    xs.dispose();
  });

  test('of the loss are passed on, and leave no tensors', async () => {
    const parallel = await open(keep(mlp(1)), 2);
    const xs = samplesOf(0, 0, 6);
    await parallel.backward(xs, meanSquare);
    const { numTensors } = tf.memory();
    await expect(
      parallel.backward(xs, () => {
        throw new RangeError('mine');
      }),
    ).rejects.toThrow(RangeError);
    await expect(
      parallel.backward(xs, (outputs) => {
        outputs.square().mean();
        throw new RangeError('mine');
      }),
    ).rejects.toThrow(RangeError);
    await expect(parallel.backward(xs, (async () => tf.scalar(1)) as never)).rejects.toThrow(/loss is a promise/);
    await expect(parallel.backward(xs, () => tf.scalar(1))).rejects.toThrow(/does not depend on the outputs/);
    await expect(parallel.backward(xs, (outputs) => outputs as tf.Scalar)).rejects.toThrow(/has shape \[6, 2\]/);
    await vi.waitFor(() => expect(tf.memory().numTensors).toBe(numTensors));
    xs.dispose();
  });

  test('reject arguments of a wrong type', async () => {
    const variable = tf.tidy(() => tf.variable(tf.zeros([1])));
    for (const wrong of [{}, [variable], undefined])
      expect((await createError(wrong)).message).toMatch(/needs a LayersModel/);
    variable.dispose();
    const model = keep(mlp(1));
    for (const timeoutMs of [0, NaN])
      expect((await createError(model, timeoutMs)).message).toMatch(/^timeoutMs is .*above 0/);
    const parallel = await open(model, 2);
    for (const wrong of [[[1, 2, 3]], undefined, 5]) {
      const error = await errorOf(parallel.predict(wrong as never));
      expect(error).toBeInstanceOf(UsageError);
      expect(error.message).toMatch(/^An input is not a tensor/);
    }
  });

  test('about a worker that cannot be loaded contain advice', async () => {
    const { port1, port2 } = new MessageChannel();
    const creating = errorOf(DataParallel.create(keep(mlp(1)), { replicas: 2, openReplica: () => port2 }));
    port2.dispatchEvent(new Event('error'));
    expect((await creating).message).toMatch(/could not be loaded\. Build the page with a bundler/);
    port1.close();
  });

  test('name a replica that does not answer before the deadline', async () => {
    const { port1, port2 } = new MessageChannel();
    const error = await errorOf(
      DataParallel.create(keep(mlp(1)), { replicas: 2, timeoutMs: 20, openReplica: () => port2 }),
    );
    expect(error).toBeInstanceOf(TimeoutError);
    expect(error.message).toMatch(/^Replica 1 did not answer "start" within 0.02 s/);
    port1.close();
  });

  test('name a layer that is missing in a worker', async () => {
    class Own extends tf.layers.Layer {
      static readonly className = 'OwnLayer';
    }
    const layers = [new Own({ inputShape: [1] }), tf.layers.dense({ units: 1 })];
    const error = await errorOf(open(keep(tf.sequential({ layers })), 2));
    expect(error).toBeInstanceOf(UsageError);
    expect(error.message).toMatch(/^Replica 1 failed: The model cannot be rebuilt.*OwnLayer/s);
  });

  test('reject wrong inputs, two calls at the same time, and calls after dispose', async () => {
    const parallel = await open(keep(mlp(1)), 2);
    const [xs, none, text] = [samplesOf(0, 0, 6), tf.zeros([0, 3]), tf.tensor1d(['a'])];
    await expect(parallel.predict([xs, xs])).rejects.toThrow(/has 1 input\(s\), but received 2/);
    await expect(parallel.predict(none)).rejects.toThrow(/shape \[0, 3\].*at least 1/);
    await expect(parallel.predict(text)).rejects.toThrow(/is string/);
    const running = parallel.predict(xs);
    await expect(parallel.predict(xs)).rejects.toThrow(/still computing another call/);
    tf.dispose(await running);
    await expect(DataParallel.create(models[0]!, { replicas: 17 })).rejects.toThrow(/at most 16/);
    parallel.dispose();
    await expect(parallel.predict(xs)).rejects.toThrow(/Replica 1 was disposed of\. Create a new/);
    tf.dispose([xs, none, text]);
  });
});
