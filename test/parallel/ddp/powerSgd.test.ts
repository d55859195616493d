import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import type { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import type { CommHook, GradBucket } from '../../../src/parallel/ddp/commHooks.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import { createPowerSgdHook, START_POWER_SGD_ITER, type PowerSgdOptions } from '../../../src/parallel/ddp/powerSgd.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { createRng } from '../../../src/util/rng.ts';

/** Compresses from the first step on. */
const AT_ONCE = { startPowerSgdIter: 0 };
/** Upper bound of the bytes with frame headers, relative to the payload. */
const FRAMING = 1.01;

function bucketOf(buffer: Float32Array, ...shapes: (readonly number[])[]): GradBucket {
  let offset = 0;
  const parameters = shapes.map((shape, index) => {
    const parameter = { index, offset, shape, isUsed: true };
    offset += shape.reduce((product, length) => product * length, 1);
    return parameter;
  });
  return { index: 0, isLast: true, isRetry: false, buffer, parameters };
}

function noise(length: number, seed: number): Float32Array {
  const rng = createRng(seed);
  return Float32Array.from({ length }, () => rng.next() - 0.5);
}

/** A sum of `rank` outer products; each one is about `decay` times as large as the previous one. */
function lowRank(rows: number, cols: number, rank: number, seed: number, decay = 1): Float32Array {
  const left = noise(rows * rank, seed);
  const right = noise(cols * rank, seed + 1);
  const out = new Float32Array(rows * cols);
  for (let k = 0, scale = 1; k < rank; k++, scale *= decay) {
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < cols; j++) out[i * cols + j]! += scale * left[k * rows + i]! * right[k * cols + j]!;
    }
  }
  return out;
}

function sumOf(arrays: readonly Float32Array[]): number[] {
  return Array.from(arrays[0]!, (_, i) => arrays.reduce((sum, array) => sum + array[i]!, 0));
}

/** |a - b| / |b|, by their lengths as vectors. */
function distance(a: ArrayLike<number>, b: ArrayLike<number>): number {
  const difference = Array.from(b, (value, i) => a[i]! - value);
  return Math.hypot(...difference) / Math.hypot(...Array.from(b));
}

/** Elements of a matrix of 20 x 30. */
function ownGradient(rank: number, step: number, index: number): Float32Array {
  return noise(600, 1 + 100 * step + 10 * index + rank);
}

/** Reduces the ranks' gradients once and returns the buffers of all ranks. */
function reduceOnce(
  gradients: readonly Float32Array[],
  options: PowerSgdOptions,
  ...shapes: (readonly number[])[]
): Promise<Float32Array[]> {
  return runWorld(gradients.length, async (group) => {
    const buffer = gradients[group.rank]!.slice();
    await createPowerSgdHook({ ...AT_ONCE, ...options })(bucketOf(buffer, ...shapes), group);
    return buffer;
  });
}

describe("PowerSGD's approximation of the sum", () => {
  test.each([1, 2, 3, 4])('equals the sum of %i gradients if it may have the matrix rank of this sum', async (n) => {
    // Each rank's gradient has rank 1, so the sum has rank n.
    const gradients = Array.from({ length: n }, (_, r) => lowRank(40, 30, 1, 10 * r + 1));
    const sum = sumOf(gradients);
    for (const matrixApproximationRank of [n, n + 2]) {
      const results = await reduceOnce(gradients, { matrixApproximationRank }, [40, 30]);
      for (const result of results) expect(distance(result, sum)).toBeLessThan(1e-4);
    }
  });

  test('equals the sum even if its singular values differ strongly', async () => {
    const gradient = lowRank(40, 30, 3, 1, 1e-4);
    const [result] = await reduceOnce([gradient], { matrixApproximationRank: 3 }, [40, 30]);
    expect(distance(result!, gradient)).toBeLessThan(1e-6);
  });

  test.each([2, 3, 4])('has the same bits on all %i ranks over many steps', async (n) => {
    const shapes = [[30, 40], [40], [3, 3, 8, 16]];
    const length = 30 * 40 + 40 + 3 * 3 * 8 * 16;
    const results = await runWorld(
      n,
      async (group) => {
        const hook = createPowerSgdHook({ startPowerSgdIter: 2, matrixApproximationRank: 2 });
        const outputs: Float32Array[] = [];
        for (let step = 0; step < 8; step++) {
          // In one step all gradients are zero: the random directions must be equal, too.
          const buffer = step === 5 ? new Float32Array(length) : noise(length, step * n + group.rank);
          await hook(bucketOf(buffer, ...shapes), group);
          outputs.push(buffer);
        }
        return outputs;
      },
      { segmentElements: 100 },
    );
    for (const result of results) expect(result).toEqual(results[0]);
    expect(results[0]!.flatMap((output) => [...output]).every(Number.isFinite)).toBe(true);
  });

  test('is exact for vectors, for small matrices, and for elements outside of parameters', async () => {
    // Between and behind the matrices: a vector, a matrix that would not shrink, two more elements.
    const shapes = [[20, 30], [7], [3, 4], [30, 20]];
    const length = 600 + 7 + 12 + 600 + 2;
    const gradients = [0, 1].map((r) => Float32Array.from({ length }, (_, i) => ((i * (r + 3)) % 17) - 8));
    const sum = sumOf(gradients);
    const exact = [...Array(19).keys()].map((i) => 600 + i).concat([length - 2, length - 1]);
    for (const result of await reduceOnce(gradients, {}, ...shapes)) {
      for (const i of exact) expect(result[i]).toBe(sum[i]);
      expect(distance(result, sum)).toBeGreaterThan(0.01);
    }
  });

  test('of zeros is zero', async () => {
    const zeros = [0, 1].map(() => new Float32Array(600));
    expect(await reduceOnce(zeros, { matrixApproximationRank: 2 }, [20, 30])).toEqual(zeros);
  });

  test.each([
    [NaN, true],
    [NaN, false],
    [Infinity, true],
    [Infinity, false],
  ])(
    'of a gradient with %s is not finite, and does not affect the next step (useErrorFeedback: %s)',
    async (value, useErrorFeedback) => {
      await runWorld(2, async (group) => {
        const hook = createPowerSgdHook({ ...AT_ONCE, useErrorFeedback });
        const broken = await reduceWith(hook, noise(600, 1).fill(value, 5, 6), group);
        expect(broken.every(Number.isFinite)).toBe(false);
        const gradient = lowRank(20, 30, 1, 3);
        expect(distance(await reduceWith(hook, gradient.slice(), group), sumOf([gradient, gradient]))).toBeLessThan(
          1e-4,
        );
      });
    },
  );

  test('finds directions that first appear in a later step', async () => {
    const [first, later] = [lowRank(30, 30, 1, 1), lowRank(30, 30, 3, 4)];
    await runWorld(1, async (group) => {
      const hook = createPowerSgdHook({ ...AT_ONCE, matrixApproximationRank: 3, useErrorFeedback: false });
      for (const gradient of [first, first, first, later]) {
        const buffer = gradient.slice();
        await hook(bucketOf(buffer, [30, 30]), group);
        expect(distance(buffer, gradient)).toBeLessThan(1e-4);
      }
    });
  });

  test('is more accurate after a few steps with warmStart than without it', async () => {
    const gradient = lowRank(40, 40, 10, 1, 0.7);
    const errorAfter = async (options: PowerSgdOptions): Promise<number> => {
      const hook = createPowerSgdHook({ ...AT_ONCE, matrixApproximationRank: 2, useErrorFeedback: false, ...options });
      const [error] = await runWorld(1, async (group) => {
        let last = gradient;
        for (let step = 0; step < 6; step++) await hook(bucketOf((last = gradient.slice()), [40, 40]), group);
        return distance(last, gradient);
      });
      return error!;
    };
    const cold = await Promise.all([0, 1, 2, 3].map((seed) => errorAfter({ warmStart: false, seed })));
    expect(await errorAfter({})).toBeLessThan(Math.min(...cold));
  });
});

/** Bytes that rank 0 sends in one step, divided by those of a plain all-reduce. */
async function shareSent(options: PowerSgdOptions, shape: readonly number[]): Promise<number> {
  const length = shape.reduce((product, part) => product * part, 1);
  const sent = (await runWorld(2, async (group) => {
    await createPowerSgdHook(options)(bucketOf(noise(length, group.rank), shape), group);
    return group.bytesSent;
  })) as [number, number];
  return sent[0] / (length * Float32Array.BYTES_PER_ELEMENT);
}

describe('the bytes that PowerSGD sends', () => {
  test('are 97 times fewer for a 784 x 256 matrix with matrixApproximationRank 2', async () => {
    expect(await shareSent({}, [784, 256])).toBeCloseTo(1, 2);
    const expected = (2 * (784 + 256)) / (784 * 256);
    const share = await shareSent({ ...AT_ONCE, matrixApproximationRank: 2 }, [784, 256]);
    expect(share).toBeGreaterThanOrEqual(expected);
    // Two ops of four frames in all, 32 bytes of header each.
    expect(share).toBeLessThan(expected + (8 * 32) / (784 * 256 * 4));
  });

  test.each([
    [[3, 3, 32, 64], 3 * 3 * 32 + 64],
    [[3, 3, 256, 4], 3 * 3 + 256 * 4],
    [[200, 1, 100], 200 + 100],
  ])('for a tensor of shape %o are those of its best matrix shape', async (shape, expected) => {
    const size = shape.reduce((product, length) => product * length, 1);
    const share = await shareSent(AT_ONCE, shape);
    expect(share * size).toBeGreaterThanOrEqual(expected);
    expect(share * size).toBeLessThan(expected * FRAMING + 64);
  });

  test('are fewer from step startPowerSgdIter on, only for matrices that minCompressionRate allows', async () => {
    await runWorld(2, async (group) => {
      const hook = createPowerSgdHook();
      const sizes: number[] = [];
      for (let step = 0; step <= START_POWER_SGD_ITER; step++) {
        const before = group.bytesSent;
        await hook(bucketOf(noise(2000, step), [40, 50]), group);
        sizes.push(group.bytesSent - before);
      }
      const [plain, last] = [sizes[0]!, sizes.pop()!];
      expect(sizes.every((size) => size === plain)).toBe(true);
      expect(last).toBeLessThan(plain / 10);
    });
    // 40 * 50 / (40 + 50) = 22.2
    expect(await shareSent({ ...AT_ONCE, minCompressionRate: 22 }, [40, 50])).toBeLessThan(0.1);
    expect(await shareSent({ ...AT_ONCE, minCompressionRate: 23 }, [40, 50])).toBeGreaterThan(1);
  });
});

describe('the error feedback of PowerSGD', () => {
  test.each([1, 2, 4])('lets the mean of all steps approach the true sum, with %i ranks', async (n) => {
    // Full rank, and the ranks' gradients differ by much more than the norm of their sum.
    const gradients = Array.from({ length: n }, (_, r) => noise(600, r + 1));
    const sum = sumOf(gradients);
    const meanAfter = async (steps: number, useErrorFeedback: boolean): Promise<number> => {
      const [error] = await runWorld(n, async (group) => {
        const hook = createPowerSgdHook({ ...AT_ONCE, useErrorFeedback });
        const total = new Float64Array(600);
        for (let step = 0; step < steps; step++) {
          const buffer = gradients[group.rank]!.slice();
          await reduceWith(hook, buffer, group);
          buffer.forEach((value, i) => (total[i]! += value / steps));
        }
        return distance(total, sum);
      });
      return error!;
    };
    const [early, late] = [await meanAfter(50, true), await meanAfter(400, true)];
    expect(late).toBeLessThan(0.05);
    expect(late).toBeLessThan(early / 4);
    expect(await meanAfter(100, false)).toBeGreaterThan(0.5);
  });

  test.each([1, 3])('keeps exactly the part of the gradients that was not sent, with %i ranks', async (n) => {
    const hooks = Array.from({ length: n }, () => createPowerSgdHook({ startPowerSgdIter: 1 }));
    const sent = new Float64Array(600);
    const wanted = new Float64Array(600);
    await runWorld(n, async (group) => {
      for (let step = 0; step < 10; step++) {
        const buffer = noise(600, step * n + group.rank);
        buffer.forEach((value, i) => (wanted[i]! += value));
        await reduceWith(hooks[group.rank]!, buffer, group);
        if (group.rank === 0) buffer.forEach((value, i) => (sent[i]! += value));
      }
    });
    expect(distance(sent, wanted)).toBeGreaterThan(0.1);
    // Another group begins with a plain step, which sends the residual.
    const [left] = await runWorld(n, async (group) => reduceWith(hooks[group.rank]!, new Float32Array(600), group));
    expect(
      distance(
        left!.map((value, i) => value + sent[i]!),
        wanted,
      ),
    ).toBeLessThan(1e-5);
    // Now the residual is sent.
    const [after] = await runWorld(n, async (group) => reduceWith(hooks[group.rank]!, new Float32Array(600), group));
    expect(after).toEqual(new Float32Array(600));
  });

  test('is not lost if a step fails after its first bucket and is retried', async () => {
    const hooks = [0, 1].map(() => createPowerSgdHook({ startPowerSgdIter: 1 }));
    const sent = new Float64Array(1200);
    const reduce = async (group: ProcessGroup, step: number, buckets = 2): Promise<void> => {
      for (let index = 0; index < buckets; index++) {
        const buffer = ownGradient(group.rank, step, index);
        const parameters = [{ index, offset: 0, shape: [20, 30], isUsed: true }];
        await hooks[group.rank]!({ index, isLast: index === 1, isRetry: false, buffer, parameters }, group);
        if (group.rank === 0 && buckets === 2) buffer.forEach((value, i) => (sent[600 * index + i]! += value));
      }
    };
    await runWorld(2, async (group) => {
      await reduce(group, 0);
      await reduce(group, 1);
    });
    // A step in another group is not compressed. It reduces only the first bucket, so the residual
    // of that bucket is sent in vain.
    await runWorld(2, (group) => reduce(group, 2, 1));
    await runWorld(2, (group) => reduce(group, 2));
    const wanted = [0, 1].flatMap((index) =>
      sumOf([0, 1, 2].flatMap((step) => [0, 1].map((rank) => ownGradient(rank, step, index)))),
    );
    expect(distance(sent, wanted)).toBeLessThan(1e-5);
  });

  test('is restored when a step that was reduced but not applied is retried', async () => {
    const leftAfter = async (isRetry: boolean): Promise<Float32Array> => {
      const hook = createPowerSgdHook({ startPowerSgdIter: 1 });
      const sent = await runWorld(1, async (group) => {
        await reduceWith(hook, new Float32Array(600), group);
        const first = await reduceWith(hook, noise(600, 1), group);
        // Sends a part of the residual.
        await reduceWith(hook, new Float32Array(600), group);
        return first;
      });
      // Another group begins with a plain step, which sends the whole residual.
      const [left] = await runWorld(1, async (group) => {
        const bucket = { ...bucketOf(new Float32Array(600), [20, 30]), isRetry };
        await hook(bucket, group);
        return bucket.buffer;
      });
      return left!.map((value, i) => value + sent[0]![i]!);
    };
    expect(distance(await leftAfter(true), noise(600, 1))).toBeLessThan(1e-5);
    expect(distance(await leftAfter(false), noise(600, 1))).toBeGreaterThan(0.1);
  });

  test('also works if the hook is called by another hook', async () => {
    const gradient = noise(600, 1);
    const [error] = await runWorld(1, async (group) => {
      const weights = tf.variable(tf.zeros([20, 30]));
      const ddp = await DistributedDataParallel.create([weights], group);
      const inner = createPowerSgdHook(AT_ONCE);
      ddp.registerCommHook((bucket, itsGroup) => inner(bucket, itsGroup));
      const mean = new Float64Array(600);
      for (let step = 0; step < 100; step++) {
        await ddp.backward(
          () =>
            weights
              .mul(tf.tensor2d(gradient, [20, 30]))
              .sum()
              .asScalar(),
          { samples: 1 },
        );
        ddp.gradient.forEach((value, i) => (mean[i]! += value / 100));
      }
      return distance(mean, gradient);
    });
    expect(error).toBeLessThan(0.4);
  });

  test('of a parameter that no rank uses is kept, and not sent', async () => {
    await runWorld(2, async (group) => {
      const hook = createPowerSgdHook(AT_ONCE);
      const other = createPowerSgdHook(AT_ONCE);
      const gradient = noise(600, group.rank);
      await reduceWith(hook, gradient.slice(), group);
      await reduceWith(other, gradient.slice(), group);
      const { parameters, ...unused } = bucketOf(new Float32Array(600), [20, 30]);
      const sentBefore = group.bytesSent;
      await hook({ ...unused, parameters: parameters.map((one) => ({ ...one, isUsed: false })) }, group);
      expect(unused.buffer).toEqual(new Float32Array(600));
      expect(group.bytesSent).toBe(sentBefore);
      const kept = await reduceWith(hook, new Float32Array(600), group);
      expect(kept).toEqual(await reduceWith(other, new Float32Array(600), group));
      expect(Math.hypot(...kept)).toBeGreaterThan(1);
    });
  });

  test('lets a least-squares problem converge as it does without compression', async () => {
    const [inputs, outputs, samples] = [20, 30, 16];
    const solution = noise(inputs * outputs, 99);
    /** Distance from the solution after gradient descent with each rank's own samples. */
    const train = async (hookOf: () => CommHook): Promise<number> => {
      const [error] = await runWorld(4, async (group) => {
        const xs = noise(samples * inputs, group.rank + 1);
        const weights = new Float32Array(inputs * outputs);
        const hook = hookOf();
        for (let step = 0; step < 400; step++) {
          const gradient = new Float32Array(inputs * outputs);
          for (let s = 0; s < samples; s++) {
            for (let o = 0; o < outputs; o++) {
              let residual = 0;
              for (let i = 0; i < inputs; i++) {
                const at = i * outputs + o;
                residual += xs[s * inputs + i]! * (weights[at]! - solution[at]!);
              }
              for (let i = 0; i < inputs; i++) gradient[i * outputs + o]! += residual * xs[s * inputs + i]!;
            }
          }
          await reduceWith(hook, gradient, group, [inputs, outputs]);
          gradient.forEach((value, i) => (weights[i]! -= 0.03 * value));
        }
        return distance(weights, solution);
      });
      return error!;
    };
    const plain = await train(() => createPowerSgdHook({ startPowerSgdIter: 1000 }));
    expect(plain).toBeLessThan(1e-3);
    expect(await train(() => createPowerSgdHook({ ...AT_ONCE, matrixApproximationRank: 2 }))).toBeLessThan(1e-2);
  });
});

describe('a PowerSGD step of several buckets', () => {
  test('can begin with all buckets before the first one is awaited, and counts as one step', async () => {
    const results = await runWorld(3, async (group) => {
      const hook = createPowerSgdHook({ startPowerSgdIter: 1 });
      const sent: number[] = [];
      let last: Float32Array[] = [];
      for (let step = 0; step < 3; step++) {
        const before = group.bytesSent;
        last = [0, 1, 2].map((bucket) => noise(600, 10 * step + bucket + group.rank));
        const works: Promise<void>[] = [];
        for (const [index, buffer] of last.entries()) {
          const parameters = [{ index, offset: 0, shape: [20, 30], isUsed: true }];
          works.push(hook({ index, isLast: index === 2, isRetry: false, buffer, parameters }, group));
          // One rank is late with the next bucket. If ops were issued when results arrive, their
          // order would differ on that rank.
          if (group.rank === step) await works[index];
        }
        await Promise.all(works);
        sent.push(group.bytesSent - before);
      }
      expect(sent[1]).toBeLessThan(sent[0]! / 5);
      expect(sent[2]).toBe(sent[1]);
      return last;
    });
    for (const result of results) expect(result).toEqual(results[0]);
  });

  test('that fails changes neither the gradients nor the residuals', async () => {
    const hook = createPowerSgdHook(AT_ONCE);
    await runWorld(1, (group) => reduceWith(hook, noise(600, 1), group));
    const gradient = noise(600, 2);
    await runWorld(2, async (group) => {
      if (group.rank === 1) return group.abort(new Error('rank 1 has left'));
      await expect(hook(bucketOf(gradient, [20, 30]), group)).rejects.toThrow('rank 1 has left');
    });
    expect(gradient).toEqual(noise(600, 2));
    const next = await runWorld(1, (group) => reduceWith(hook, gradient.slice(), group));
    const fresh = createPowerSgdHook(AT_ONCE);
    await runWorld(1, (group) => reduceWith(fresh, noise(600, 1), group));
    const expected = await runWorld(1, (group) => reduceWith(fresh, gradient.slice(), group));
    expect(next).toEqual(expected);
  });
});

test.each([
  { matrixApproximationRank: 0 },
  { matrixApproximationRank: 1.5 },
  { startPowerSgdIter: -1 },
  { minCompressionRate: 0.5 },
  { minCompressionRate: Infinity },
])('createPowerSgdHook rejects %o', (options) => {
  expect(() => createPowerSgdHook(options)).toThrow(UsageError);
});

async function reduceWith(
  hook: CommHook,
  buffer: Float32Array,
  group: ProcessGroup,
  shape: readonly number[] = [20, 30],
): Promise<Float32Array> {
  await hook(bucketOf(buffer, shape), group);
  return buffer;
}
