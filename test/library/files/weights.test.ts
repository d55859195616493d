/** Saves and loads weights through the public API, on ranks of one process. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { strToU8 } from 'fflate';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  convertSyncBatchNorm,
  createOptimizer,
  DistributedDataParallel,
  loadSafetensors,
  saveCheckpoint,
  saveSafetensors,
  type FileSource,
  type Optimizer,
} from '../../../src/index.ts';
import { loadKerasWeights, saveKerasWeights } from '../../../src/keras.ts';
import { readKeras } from '../../../src/formats/weights/keras.ts';
import { writeSafetensors } from '../../../src/formats/weights/safetensors.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { AbortError, DataError, UsageError } from '../../../src/util/errors.ts';
import { errorOf } from '../../errorOf.ts';
import { weightsOf } from '../../parallel/models.ts';

/** Dense, batch normalization, dense; the values of all weights depend on the seed. */
function network(seed: number, units = 4): tf.Sequential {
  const model = tf.sequential({
    layers: [
      tf.layers.dense({ name: 'first', units, inputShape: [3] }),
      tf.layers.batchNormalization({ name: 'norm' }),
      tf.layers.dense({ name: 'last', units: 2 }),
    ],
  });
  const values = model.getWeights().map(({ shape }, i) => tf.randomUniform(shape, 0, 1, 'float32', seed + i));
  model.setWeights(values);
  tf.dispose(values);
  return model;
}

const keras = readFileSync(path.join(import.meta.dirname, '../../formats/weights/keras.weights.h5'));

let before: tf.MemoryInfo;
const models: tf.LayersModel[] = [];
const keep = <M extends tf.LayersModel>(model: M): M => {
  models.push(model);
  return model;
};
beforeEach(() => {
  before = tf.memory();
});
afterEach(() => {
  for (const model of models.splice(0)) model.dispose();
  const { numTensors, numBytes } = tf.memory();
  expect({ numTensors, numBytes }).toEqual({ numTensors: before.numTensors, numBytes: before.numBytes });
});

/** A Sequential that contains a Functional. */
function nested(seed: number): tf.Sequential {
  const input = tf.input({ shape: [2] });
  const output = tf.layers.dense({ name: 'in', units: 2 }).apply(input) as tf.SymbolicTensor;
  const inner = keep(tf.model({ inputs: input, outputs: output }));
  const model = tf.sequential({ layers: [tf.layers.dense({ name: 'out', units: 2, inputShape: [2] }), inner] });
  const values = model.getWeights().map(({ shape }, i) => tf.randomUniform(shape, 0, 1, 'float32', seed + i));
  model.setWeights(values);
  tf.dispose(values);
  return keep(model);
}

const tensor = (name: string, shape: number[]) => ({ name, shape, values: new Float32Array(shape[0]!) });

const variable = (name: string, value: number, dtype: 'float32' | 'int32' = 'float32'): tf.Variable =>
  tf.tidy(() => tf.variable(tf.scalar(value, dtype), name !== 'b', `${name} of the test`));

const cnn = (): tf.Sequential =>
  tf.sequential({
    layers: [
      tf.layers.conv2d({ filters: 2, kernelSize: 3, inputShape: [4, 4, 1] }),
      tf.layers.flatten(),
      tf.layers.dense({ units: 3 }),
      tf.layers.dense({ units: 2 }),
    ],
  });

const FORMATS = [
  ['safetensors', saveSafetensors, loadSafetensors],
  ['Keras', saveKerasWeights, loadKerasWeights],
] as const;

describe.each(FORMATS)('%s', (_, save, load) => {
  test('restores all weights and buffers bit for bit from bytes, a blob and a URL', async () => {
    const model = keep(network(1));
    const bytes = await save(model, { metadata: { note: 'é' } });
    const address = `data:application/octet-stream;base64,${Buffer.from(bytes).toString('base64')}`;
    const sources: FileSource[] = [bytes, bytes.buffer, new File([bytes], 'mine'), address, new URL(address)];
    for (const source of sources) {
      const again = keep(network(9));
      expect(await load(again, source)).toEqual({ note: 'é' });
      expect(weightsOf(again)).toEqual(weightsOf(model));
    }
  });

  test('saves a DDP on rank 0, and loads the file on all ranks', async () => {
    const saved = await runWorld(3, async (group) => {
      const ddp = await DistributedDataParallel.create(keep(network(group.rank)), group);
      return save(ddp);
    });
    expect(saved.map((bytes) => bytes !== null)).toEqual([true, false, false]);
    const expected = weightsOf(keep(network(0)));
    await runWorld(3, async (group) => {
      const model = keep(network(10 + group.rank));
      const ddp = await DistributedDataParallel.create(model, group);
      await load(ddp, group.rank === 0 ? saved[0]! : null);
      expect(weightsOf(model)).toEqual(expected);
      // The next step begins with the loaded parameters.
      ddp.writeParameters();
      expect(weightsOf(model)).toEqual(expected);
    });
  });

  test('saves the current weights of a DDP, even if these were set by the program', async () => {
    const other = keep(network(5));
    const saved = await runWorld(2, async (group) => {
      const model = keep(network(1));
      const ddp = await DistributedDataParallel.create(model, group);
      model.setWeights(other.getWeights());
      return save(ddp);
    });
    const again = keep(network(9));
    await load(again, saved[0]!);
    expect(weightsOf(again)).toEqual(weightsOf(other));
  });

  test('leaves the model of every rank unchanged if the file does not fit', async () => {
    const bytes = await save(keep(network(1, 5)));
    const errors = await runWorld(2, async (group) => {
      const model = keep(network(3));
      const ddp = await DistributedDataParallel.create(model, group);
      const unchanged = weightsOf(model);
      const error = await errorOf(load(ddp, group.rank === 1 ? bytes : null, { rank: 1 }));
      expect(weightsOf(model)).toEqual(unchanged);
      await group.barrier();
      return error;
    });
    expect(errors[1]).toBeInstanceOf(DataError);
    expect(errors[1]!.message).toMatch(/^The file has "first\/kernel".* of shape \[3, 5\], but .* \[3, 4\]\. Load it/);
    expect(errors[0]).toBeInstanceOf(DataError);
    expect(errors[0]!.message).toMatch(/^Rank 1 could not load the file: The file has .*No rank has changed its model/);
  });

  test('rejects a damaged file, a file that cannot be read, and a missing file', async () => {
    const model = keep(network(1));
    const bytes = await save(model);
    const values = weightsOf(model);
    const at = Buffer.from(bytes).indexOf(Buffer.from(Float32Array.of(values[0]!).buffer));
    const changed = bytes.slice();
    changed[at]! ^= 1;
    for (const wrong of [changed, bytes.slice(0, -1), new Uint8Array()]) {
      expect(await errorOf(load(model, wrong))).toBeInstanceOf(DataError);
    }
    expect((await errorOf(load(model, 'nothing:x'))).message).toMatch(/^nothing:x could not be read/);
    expect(await errorOf(load(model, null))).toBeInstanceOf(UsageError);
    expect(weightsOf(model)).toEqual(values);
  });
});

/** A file whose bytes do not arrive. */
const stuck = (): Blob => Object.assign(new Blob(['x']), { arrayBuffer: () => new Promise<never>(() => {}) });

describe('AbortSignal', () => {
  test.each([
    ['bytes', () => new Uint8Array(8)],
    ['a blob', stuck],
    ['an address', () => 'data:,x'],
  ])('that is already aborted rejects a load from %s', async (_, source) => {
    const error = await errorOf(loadSafetensors([], source(), { signal: AbortSignal.abort(new Error('mine')) }));
    expect(error).toBeInstanceOf(AbortError);
    expect(error.message).toMatch(/was not loaded, because its signal was aborted: mine\.$/);
  });

  test('ends a load that waits for the file', async () => {
    const stop = new AbortController();
    const loading = errorOf(loadSafetensors([], stuck(), { signal: stop.signal }));
    stop.abort();
    expect(await loading).toBeInstanceOf(AbortError);
  });
});

test('reading a file may take longer than the timeout of collectives', async () => {
  const bytes = await saveSafetensors(keep(network(1)));
  const late = async (): Promise<ArrayBuffer> => {
    await new Promise((resolve) => setTimeout(resolve, 300));
    return bytes.buffer;
  };
  await runWorld(2, async (group) => {
    const model = keep(network(2));
    const ddp = await DistributedDataParallel.create(model, group);
    group.timeoutMs = 100;
    const source = group.rank === 0 ? Object.assign(new Blob([bytes]), { arrayBuffer: late }) : null;
    await loadSafetensors(ddp, source);
    expect(weightsOf(model)).toEqual(weightsOf(models[0]!));
  });
});

describe('the limit of 512 MiB', () => {
  const large = /at least \d+ bytes\. A tab can read and write files of at most 536870912 bytes/;

  test('applies to bytes, and to responses without a length', async () => {
    await expect(loadSafetensors([], new Uint8Array(2 ** 29 + 1))).rejects.toThrow(large);
    const chunk = new Uint8Array(2 ** 26);
    let sent = 0;
    const body = new ReadableStream({
      pull: (controller) => {
        sent += 1;
        if (sent > 11) controller.close();
        else controller.enqueue(chunk);
      },
    });
    vi.stubGlobal('fetch', () => Promise.resolve(new Response(body)));
    await expect(loadSafetensors([], 'https://example.com/model').finally(vi.unstubAllGlobals)).rejects.toThrow(large);
    expect(sent).toBeLessThan(11);
  });

  test('applies to weights and checkpoints that would be saved', async () => {
    const weights = tf.tidy(() => tf.variable(tf.zeros([2 ** 27 + 1]), true, 'large'));
    await expect(saveSafetensors([weights])).rejects.toThrow(large);
    weights.dispose();
    const averages = { scalars: new Float64Array(1), slots: [new Float32Array(2 ** 27)] };
    const optimizer = { ...createOptimizer('sgd', { learningRate: 1 }, 1), apply: () => {}, state: () => averages };
    await expect(saveCheckpoint({ model: [], optimizer: optimizer as unknown as Optimizer })).rejects.toThrow(large);
  });
});

test('metadata that are not text are rejected when they are saved', async () => {
  const metadata = { note: 'x', epoch: 3 } as unknown as Record<string, string>;
  for (const save of [saveSafetensors, saveKerasWeights]) {
    const error = await errorOf(save(keep(network(1)), { metadata }));
    expect(error).toBeInstanceOf(UsageError);
    expect(error.message).toMatch(/^The metadata "epoch" is of type number, but must be a text/);
  }
});

describe('loadSafetensors', () => {
  test('rejects a missing tensor, a superfluous tensor, and a dtype that is not a float, by their names', async () => {
    const model = keep(tf.sequential({ layers: [tf.layers.dense({ name: 'one', units: 1, inputShape: [1] })] }));
    const load = async (bytes: Uint8Array<ArrayBuffer>) => (await errorOf(loadSafetensors(model, bytes))).message;
    const bias = tensor('one/bias', [1]);
    const kernel = { ...tensor('one/kernel', [1]), shape: [1, 1] };
    expect(await load(writeSafetensors([bias], {}))).toMatch(/does not contain "one\/kernel".*contains one\/bias/);
    expect(await load(writeSafetensors([bias, kernel, tensor('two', [2])], {}))).toMatch(/contains "two", but/);
    const whole = Buffer.from(writeSafetensors([bias, kernel], {}));
    whole.write('I32', whole.indexOf('F32'));
    expect(await load(new Uint8Array(whole))).toMatch(
      /has "one\/bias" of type I32, but weights must be one of float16/,
    );
  });

  test('accepts a list of variables by their names, and rejects other dtypes', async () => {
    const [a, b, whole] = [variable('a', 1), variable('b', 2), variable('c', 3, 'int32')];
    const bytes = await saveSafetensors([a, b]);
    tf.tidy(() => a.assign(tf.scalar(5)));
    await loadSafetensors([a, b], bytes);
    expect([a.dataSync()[0], b.dataSync()[0]]).toEqual([1, 2]);
    await expect(saveSafetensors([whole])).rejects.toThrow(/"c of the test" is int32/);
    tf.dispose([a, b, whole]);
  });
});

describe('Keras weights', () => {
  test('from a file of Keras are loaded into layers with any names', async () => {
    const model = keep(cnn());
    await loadKerasWeights(model, new Uint8Array(keras));
    for (const [i, weight] of model.getWeights().entries()) {
      expect(weight.dataSync()).toEqual(Float32Array.from({ length: weight.size }, (_, at) => at / 8 - i));
    }
  });

  test('of synchronized batch normalization are those of batch normalization', async () => {
    const model = keep(network(1));
    const plain = keep(network(2));
    await loadKerasWeights(plain, await saveKerasWeights(keep(convertSyncBatchNorm(model))));
    expect(weightsOf(plain)).toEqual(weightsOf(model));
  });

  test('need h5wasm; without it, the error says to install it', async () => {
    const model = keep(network(1));
    vi.doMock('h5wasm', () => {
      throw new Error('missing');
    });
    const error = await errorOf(saveKerasWeights(model)).finally(() => vi.doUnmock('h5wasm'));
    expect(error).toBeInstanceOf(UsageError);
    expect(error.message).toMatch(/need the package h5wasm, which could not be loaded.*Install h5wasm\.$/s);
  });

  test('of nested models have the paths of Keras 3, and can be restored', async () => {
    const [model, other] = [nested(1), nested(9)];
    const bytes = await saveKerasWeights(model);
    await loadKerasWeights(other, bytes);
    const { tensors } = await readKeras('nested', bytes);
    expect([weightsOf(other), tensors.map(({ name }) => name)]).toEqual([
      weightsOf(model),
      ['dense/vars', 'functional/layers/dense/vars'].flatMap((place) => [0, 1].map((i) => `layers/${place}/${i}`)),
    ]);
  });

  test('in a .keras archive are rejected with advice', async () => {
    const error = await errorOf(loadKerasWeights(keep(network(1)), new Uint8Array(strToU8('PK\x03\x04'))));
    expect(error.message).toMatch(/is a zip, as Keras's \.keras files are\. Unpack it/);
  });

  test('cannot be saved for layers that contain other layers, or for lists of variables', async () => {
    const lstm = keep(tf.sequential({ layers: [tf.layers.lstm({ name: 'rnn', units: 1, inputShape: [2, 1] })] }));
    await expect(saveKerasWeights(lstm)).rejects.toThrow(/layer "rnn" \(LSTM\) contains other layers or cells/);
    await expect(saveKerasWeights([])).rejects.toThrow(/need a LayersModel/);
  });
});
