import * as tf from '@tensorflow/tfjs';
import { describe, expect, expectTypeOf, test } from 'vitest';
import {
  allGather,
  allGatherCoalesced,
  allReduce,
  allReduceCoalesced,
  allToAll,
  broadcast,
  broadcastCoalesced,
  gather,
  reduce,
  reduceScatter,
  scatter,
} from '../../src/library/functionalCollectives.ts';
import { recv, recvAny, send } from '../../src/library/functionalMessages.ts';
import type { Values } from '../../src/library/payload.ts';
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { ReduceOp } from '../../src/protocol/frame.ts';
import { runWorld } from '../../src/testing/index.ts';
import { DeviceError, MismatchError, PeergradError, UsageError } from '../../src/util/errors.ts';
import { createDeferred } from '../../src/util/deferred.ts';
import { errorOf } from '../errorOf.ts';

/** The values, shape and dtype of a result. Disposes of tensors. */
function contents(result: Values | readonly Values[] | null | void): unknown {
  if (Array.isArray(result)) return result.map((one: Values) => contents(one));
  if (!(result instanceof tf.Tensor)) return result && Array.from(result as Float32Array);
  const { shape, dtype } = result;
  const values = Array.from(result.dataSync());
  result.dispose();
  return { shape, dtype, values };
}

/** Runs `n` ranks, and checks that no tensors are left. */
async function inWorld<T>(n: number, main: (group: ProcessGroup) => Promise<T>): Promise<T[]> {
  const before = tf.memory().numTensors;
  const results = await runWorld(n, main);
  expect(tf.memory().numTensors).toBe(before);
  return results;
}

type Op = (of: (rank: number) => Values, group: ProcessGroup) => Promise<Values | readonly Values[] | null>;

/** Every collective, on one value per rank whose first dimension is 6. */
const OPS: Record<string, Op> = {
  allReduce: (of, group) => allReduce(of(group.rank), group),
  'allReduce, MAX, ring': (of, group) => allReduce(of(group.rank), group, { op: ReduceOp.MAX, algorithm: 'ring' }),
  'allReduce, AVG, int8': (of, group) => allReduce(of(group.rank), group, { op: ReduceOp.AVG, codec: 'int8' }),
  'allReduce, PREMUL_SUM': (of, group) => allReduce(of(group.rank), group, { op: ReduceOp.PREMUL_SUM, factor: 0.5 }),
  reduce: (of, group) => reduce(of(group.rank), 1, group),
  broadcast: (of, group) => broadcast(of(group.rank), 2, group),
  allGather: (of, group) => allGather(of(group.rank), group),
  gather: (of, group) => gather(of(group.rank), 2, group),
  scatter: (of, group) => scatter(of(group.rank), 1, group.rank === 1 ? [of(3), of(4), of(5)] : null, group),
  reduceScatter: (of, group) => reduceScatter(of(group.rank), group),
  'reduceScatter, sizes': (of, group) => reduceScatter(of(group.rank), group, { sizes: [3, 1, 2] }),
  allToAll: (of, group) => allToAll(of(group.rank), group),
  'allToAll, splits': (of, group) => {
    const counts = [
      [1, 2, 3],
      [3, 2, 1],
      [0, 6, 0],
    ];
    const inputSplits = counts[group.rank]!;
    return allToAll(of(group.rank), group, { inputSplits, outputSplits: counts.map((row) => row[group.rank]!) });
  },
  'send and recv': async (of, group) => {
    if (group.rank === 0) await send(of(0), 2, group, { tag: 7 });
    return group.rank === 2 ? recv(of(2), 0, group, { tag: 7 }) : null;
  },
  'send and recvAny': async (of, group) => {
    if (group.rank === 1) await send(of(1), 2, group, { tag: 7 });
    if (group.rank !== 2) return null;
    const { values, src } = await recvAny(of(2), group, { tag: 7 });
    expect(src).toBe(1);
    return values;
  },
  allGatherCoalesced: async (of, group) =>
    (await allGatherCoalesced([of(group.rank), of(group.rank + 5)], group)).flat(),
  allReduceCoalesced: (of, group) => allReduceCoalesced([of(group.rank), of(group.rank + 5)], group),
  broadcastCoalesced: (of, group) => broadcastCoalesced([of(group.rank), of(group.rank + 5)], 1, group),
};

const rowOf = (rank: number, row: number): number => 10 * rank + row + 0.5;

describe('Functional collectives', () => {
  test.each(Object.entries(OPS))(
    '%s returns for rows of a tensor what it returns for elements of an array',
    async (_name, op) => {
      const arrays = await inWorld(3, async (group) =>
        contents(await op((rank) => Float32Array.from({ length: 6 }, (_, row) => rowOf(rank, row)), group)),
      );
      const tensors = await inWorld(3, async (group) => {
        const inputs: tf.Tensor[] = [];
        const result = await op((rank) => {
          const rows = Array.from({ length: 6 }, (_, row) => [rowOf(rank, row), rowOf(rank, row)]);
          const input = tf.tensor2d(rows);
          inputs.push(input);
          return input;
        }, group);
        tf.dispose(inputs);
        return contents(result);
      });
      const asRows = (array: unknown): unknown => {
        if (!Array.isArray(array)) return array;
        if (Array.isArray(array[0])) return array.map(asRows);
        const values = (array as number[]).flatMap((value) => [value, value]);
        return { shape: [array.length, 2], dtype: 'float32', values };
      };
      expect(tensors).toEqual(arrays.map(asRows));
    },
  );

  test.each(Object.entries(OPS))('%s does not change its arguments', async (_name, op) => {
    await runWorld(3, async (group) => {
      const arrays = Array.from({ length: 9 }, (_, rank) => new Float32Array(6).fill(rank));
      const tensors = arrays.map((array) => tf.tensor1d(array.slice()));
      await op((rank) => tensors[rank]!, group);
      await op((rank) => arrays[rank]!, group);
      for (const [rank, tensor] of tensors.entries()) {
        expect(tensor.dataSync()).toEqual(new Float32Array(6).fill(rank));
        expect(arrays[rank]).toEqual(new Float32Array(6).fill(rank));
      }
    });
  });

  test('keep dtypes and shapes, including those of scalars and empty tensors', async () => {
    const results = await inWorld(2, async (group) => {
      const inputs = [tf.scalar(1 + group.rank, 'int32'), tf.zeros([2, 0, 3]), tf.tensor3d([[[1, 2]]])];
      const sums = [];
      for (const input of inputs) sums.push(contents(await allReduce(input, group)));
      tf.dispose(inputs);
      return sums;
    });
    expect(results[1]).toEqual([
      { shape: [], dtype: 'int32', values: [3] },
      { shape: [2, 0, 3], dtype: 'float32', values: [] },
      { shape: [1, 1, 2], dtype: 'float32', values: [2, 4] },
    ]);
  });

  test.each([
    ['MIN', [false, false, true]],
    ['MAX', [false, true, true]],
    ['BAND', [false, false, true]],
    ['BOR', [false, true, true]],
    ['BXOR', [false, true, false]],
  ] as const)('combine boolean tensors with %s', async (op, expected) => {
    const results = await inWorld(2, async (group) => {
      // TensorFlow.js takes any number except 0 for true.
      const input = tf.tensor(group.rank === 0 ? Uint8Array.of(0, 0, 2) : Uint8Array.of(0, 1, 1), [3], 'bool');
      const result = contents(await allReduce(input, group, { op: ReduceOp[op] }));
      input.dispose();
      return result;
    });
    for (const result of results) expect(result).toEqual({ shape: [3], dtype: 'bool', values: expected.map(Number) });
  });

  test('accept a variable, and leave its update to the program', async () => {
    await inWorld(2, async (group) => {
      const initial = tf.tensor1d([group.rank, 4]);
      const weight = tf.variable(initial, true, `weight${group.rank}`);
      const mean = await allReduce(weight, group, { op: ReduceOp.AVG });
      expect(mean).not.toBeInstanceOf(tf.Variable);
      expect(Array.from(weight.dataSync())).toEqual([group.rank, 4]);
      weight.assign(mean);
      expect(Array.from(weight.dataSync())).toEqual([0.5, 4]);
      tf.dispose([initial, mean, weight]);
    });
  });

  test('gather tensors with different first dimensions', async () => {
    const results = await inWorld(3, async (group) => {
      const input = tf.ones([group.rank, 2]);
      const all = contents(await allGather(input, group, { sizes: [0, 1, 2] }));
      input.dispose();
      return all;
    });
    expect(results[0]).toEqual([
      { shape: [0, 2], dtype: 'float32', values: [] },
      { shape: [1, 2], dtype: 'float32', values: [1, 1] },
      { shape: [2, 2], dtype: 'float32', values: [1, 1, 1, 1] },
    ]);
  });

  test('coalesce tensors with different shapes and dtypes', async () => {
    const [first] = await inWorld(2, async (group) => {
      const inputs = [tf.ones([2, 2]), tf.scalar(3, 'int32'), Float32Array.of(5)] as const;
      const results = await allReduceCoalesced(inputs, group);
      expectTypeOf(results[1]).toEqualTypeOf<tf.Tensor<tf.Rank.R0>>();
      tf.dispose([inputs[0], inputs[1]]);
      return contents(results);
    });
    expect(first).toEqual([
      { shape: [2, 2], dtype: 'float32', values: [2, 2, 2, 2] },
      { shape: [], dtype: 'int32', values: [6] },
      [10],
    ]);
  });

  test('gather several tensors with different shapes at the same time, if they have one dtype', async () => {
    const [gathered] = await inWorld(2, async (group) => {
      const inputs = [
        tf.scalar(group.rank),
        tf.tensor2d([[5 + group.rank], [5 + group.rank]]),
        tf.zeros([0, 3]),
      ] as const;
      const counts = tf.scalar(1, 'int32');
      await expect(allGatherCoalesced([inputs[0], counts], group)).rejects.toThrow(/needs tensors of one dtype/);
      await expect(allGatherCoalesced([], group)).rejects.toThrow(/requires a non-empty list/);
      const all = await allGatherCoalesced(inputs, group);
      tf.dispose([...inputs, counts]);
      return contents(all.flat());
    });
    expect(gathered).toEqual(
      [0, 1].flatMap((rank) => [
        { shape: [], dtype: 'float32', values: [rank] },
        { shape: [2, 1], dtype: 'float32', values: [5 + rank, 5 + rank] },
        { shape: [0, 3], dtype: 'float32', values: [] },
      ]),
    );
  });

  test('return the type of their argument', async () => {
    await inWorld(1, async (group) => {
      const tensor = tf.tensor2d([[1]]);
      const variable = tf.variable(tensor);
      const sum = allReduce(tensor, group);
      expectTypeOf(sum).resolves.toEqualTypeOf<tf.Tensor<tf.Rank.R2>>();
      const all = allGather(variable, group);
      expectTypeOf(all).resolves.toEqualTypeOf<tf.Tensor<tf.Rank.R2>[]>();
      const array = allReduce(Float64Array.of(1), group);
      expectTypeOf(array).resolves.toExtend<Float64Array>();
      tf.dispose([tensor, variable, await sum, await all]);
      await array;
    });
  });

  test("keep their place in the order of a rank's calls, however long their tensor takes to read", async () => {
    const results = await inWorld(2, async (group) => {
      const slow = tf.tensor1d([1]);
      const read = createDeferred<Float32Array>();
      if (group.rank === 0) slow.data = (() => read.promise) as unknown as typeof slow.data;
      const first = allReduce(slow, group);
      const second = group.allReduce(Float32Array.of(10));
      const third = allReduce(Float32Array.of(100), group);
      const messages = group.rank === 0 ? [send(slow, 1, group), group.send(Float32Array.of(2), 1)] : [];
      await Promise.resolve();
      slow.dispose();
      read.resolve(Float32Array.of(1));
      const received = [new Float32Array(1), new Float32Array(1)];
      if (group.rank === 1) for (const into of received) await group.recv(into, 0);
      await Promise.all(messages);
      return [contents(await first), ...(await second), ...(await third), ...received.map(([value]) => value)];
    });
    expect(results[1]).toEqual([{ shape: [1], dtype: 'float32', values: [2] }, 20, 200, 1, 2]);
  });

  test('return copies on a rank outside of the group', async () => {
    await inWorld(3, async (world) => {
      const group = await world.newGroup([0, 1]);
      const input = tf.scalar(world.rank);
      const sum = await allReduce(input, group);
      expect(contents(sum)).toMatchObject({ values: [world.rank === 2 ? 2 : 1] });
      input.dispose();
    });
  });
});

describe('A functional collective', () => {
  test.each([
    ['a disposed tensor', () => dispose(tf.zeros([1])), /^Rank \d passed a disposed tensor to allReduce\. .*tf\.keep/],
    [
      'complex values',
      () => tf.tidy(() => tf.complex([1], [1])),
      /^Rank \d passed a complex64 tensor .* Send tf\.real\(tensor\)/,
    ],
    ['text', () => tf.tensor1d(['a']), /passed a string tensor .* allGatherObject/],
    ['a sum of truth values', () => tf.tensor1d([true]), /A bool tensor supports only .* pass tensor\.toInt\(\)/],
    ['a list of numbers', () => [1, 2] as unknown as Float32Array, /accept typed arrays .*, not Array/],
  ])('rejects %s, and the group continues', async (_what, create, message) => {
    await inWorld(2, async (group) => {
      const input = create();
      const error = await errorOf(allReduce(input, group));
      expect(error).toBeInstanceOf(UsageError);
      expect(error.message).toMatch(message);
      await group.barrier();
      tf.dispose(input);
    });
  });

  test.each([
    ['AVG of int32', (group) => allReduce(tf.scalar(1, 'int32'), group, { op: ReduceOp.AVG }), /Use SUM/],
    ['rows that cannot be divided', (group) => reduceScatter(tf.zeros([3, 2]), group), /first dimension of 3 cannot/],
    ['a scalar to divide', (group) => allToAll(tf.scalar(1), group), /A scalar cannot be divided/],
    [
      'sizes of another sum',
      (group) => reduceScatter(tf.zeros([3, 2]), group, { sizes: [1, 1] }),
      /add up to 2.* is 3/,
    ],
    ['a wrong size', (group) => allGather(tf.zeros([3, 2]), group, { sizes: [1, 1] }), /sizes\[\d\] is 1.* is 3/],
    [
      'parts of another shape',
      (group) => {
        const parts = group.rank === 0 ? [tf.zeros([1, 2]), tf.zeros([2, 1])] : [];
        return scatter<tf.Tensor>(tf.zeros([1, 2]), 0, parts, group);
      },
      /parts\[1\] has shape \[2, 1\], but every rank receives shape \[1, 2\]|Only rank 0 passes parts/,
    ],
  ] satisfies [string, (group: ProcessGroup) => Promise<unknown>, RegExp][])(
    'rejects %s',
    async (_what, call, message) => {
      await runWorld(2, async (group) => {
        const error = await errorOf(call(group));
        expect(error).toBeInstanceOf(UsageError);
        expect(error.message).toMatch(message);
        await group.barrier();
      });
    },
  );

  test.each([
    [
      'allReduce',
      [2, 3],
      [3, 2],
      /Rank 0 called allReduce\(\[2, 3\] float32, SUM\).* [Rr]ank 1 called allReduce\(\[3, 2\] float/,
    ],
    ['broadcast', [2, 3], [6], /broadcast\(\[2, 3\] float32 from rank 2\).*broadcast\(\[6\] float32 from rank 2\)/],
    ['allGather', [2, 3], [3, 2], /allGather\(3 x \[2, 3\] float32\).*allGather\(3 x \[3, 2\] float32\)/],
    ['allToAll', [6, 2], [6, 1, 2], /allToAll\(\[6, 2\] float32\).*allToAll\(\[6, 1, 2\] float32\)/],
  ] as const)('%s names ranks and shapes if shapes differ between ranks', async (name, shape, other, message) => {
    const errors = await inWorld(3, async (group) => {
      const input = tf.ones(group.rank === 1 ? [...other] : [...shape]);
      const error = await errorOf(OPS[name]!(() => input, group));
      input.dispose();
      return error;
    });
    for (const error of errors) {
      expect(error).toBeInstanceOf(MismatchError);
      expect(error.message.replaceAll(/Ranks 0 and 2/g, 'Rank 0')).toMatch(message);
    }
  });

  test("is recommended by the error of a group's method that receives a tensor", () =>
    inWorld(1, async (group) => {
      const input = tf.ones([1]);
      expect(() => group.allReduce(input as unknown as Float32Array)).toThrow('allReduce(tensor, group)');
      input.dispose();
      await group.barrier();
    }));

  test('ends when its AbortSignal is aborted, even while its tensor is read', async () => {
    const errors = await inWorld(2, async (group) => {
      const input = tf.ones([1]);
      const controller = new AbortController();
      if (group.rank === 1) input.data = () => new Promise(() => {});
      const error = errorOf(allReduce(input, group, { signal: controller.signal }));
      input.dispose();
      if (group.rank === 1) controller.abort();
      return error;
    });
    for (const error of errors) expect(error).toMatchObject({ name: 'AbortError', context: { rank: 1 } });
  });

  test('fails the group if the tensor cannot be read', async () => {
    const errors = await runWorld(2, async (group) => {
      const input = tf.ones([1]);
      if (group.rank === 1) input.data = () => Promise.reject(new DeviceError('The GPU was lost.'));
      return errorOf(allReduce(input, group));
    });
    for (const error of errors) {
      expect(error).toBeInstanceOf(PeergradError);
      expect(error.message).toMatch(
        /^Rank 1 cannot complete collective #0 allReduce\(\[1\] float32, SUM\): The GPU was lost\./,
      );
    }
  });
});

function dispose(tensor: tf.Tensor): tf.Tensor {
  tensor.dispose();
  return tensor;
}
