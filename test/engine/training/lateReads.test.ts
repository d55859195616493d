/** Files that ranks read while they train. Memory links, TensorFlow.js's CPU backend. */
import { describe, expect, test } from 'vitest';
import type { TrainingTask } from '../../../src/engine/tasks/task.ts';
import type { LazyFileContents } from '../../../src/jobs/index.ts';
import { DataError } from '../../../src/util/errors.ts';
import { COUNTING_PLAN, createCountingTask, createMember, runGeneration } from '../worlds.ts';

const SAMPLES = 24;

/** Returns a task that reads a file for each sample. `crcOf` returns the checksum of a file. */
function readingTask(crcOf: (file: number) => number, stated: Uint32Array | null = null): TrainingTask {
  const task = createCountingTask({ samples: SAMPLES });
  const crcs = new Map<number, number>();
  const contents: LazyFileContents = { stated, crcs, nameOf: (file) => `cats/${file}.png` };
  return {
    ...task,
    contents,
    withBatch: (indices, ...rest) => {
      for (const file of indices) crcs.set(file, crcOf(file));
      return task.withBatch(indices, ...rest);
    },
  };
}

test.each([1, 2])('%i ranks are told the samples of an evaluation before the steps that precede it', async (n) => {
  const calls: unknown[] = [];
  const watched = (): TrainingTask => {
    const task = { ...createCountingTask({ samples: SAMPLES }), testSamples: 40, testBatch: 5 };
    return {
      ...task,
      ahead: 12,
      expectHeldOut: (next) => void calls.push(['expect', ...next]),
      withBatch: (indices, use, at, size) => {
        calls.push('step');
        return task.withBatch(indices, use, at, size);
      },
      evaluate: (indices) => {
        calls.push(['evaluate', ...indices]);
        return task.evaluate(indices);
      },
    };
  };
  const others = Array.from({ length: n - 1 }, () => ({
    ...createCountingTask({ samples: SAMPLES }),
    testSamples: 40,
    testBatch: 5,
  }));
  await train([watched(), ...others], { epochs: 1 });
  // The first pass is the warm-up.
  const [, ...all] = calls as (string | [string, ...number[]])[];
  const last = all.lastIndexOf('step');
  const evaluations = all.slice(last + 1).flatMap((call) => (call[0] === 'evaluate' ? [call.slice(1)] : []));
  expect(evaluations.flat()).toHaveLength(40 / n);
  // Twelve samples may be read ahead, and a step has two.
  for (const call of [all[last - 1], all[last - 3]])
    expect(call).toEqual(['expect', ...evaluations.flat().slice(0, 12)]);
});

async function train(tasks: readonly TrainingTask[], fields = {}): Promise<unknown[]> {
  const plan = { ...COUNTING_PLAN, epochs: 3, ...fields };
  const members = await Promise.all(tasks.map((task, i) => createMember(`rank ${i}`, task, plan)));
  const { results } = await runGeneration(members);
  for (const member of members) member.dispose();
  return results;
}

describe('a file that ranks read while they train', () => {
  test('may be read by any rank if all ranks have equal contents', async () => {
    const results = await train([readingTask((file) => file), readingTask((file) => file)]);
    expect(results).toEqual([expect.objectContaining({ steps: 18 }), expect.objectContaining({ steps: 18 })]);
  });

  test('is named on all ranks, together with the ranks, if its contents differ', async () => {
    const other = readingTask((file) => (file === 7 ? 99 : file));
    const results = await train([readingTask((file) => file), other, readingTask((file) => file)]);
    for (const { message } of results as Error[]) {
      expect(message).toMatch(/^cats\/7\.png has the same size, but other contents on rank \d .*and rank \d/);
      expect(message).toContain('rank 1 (CRC-32 00000063)');
    }
    // Only ranks that are wrong leave the run.
    expect(results.filter((error) => error instanceof DataError)).toHaveLength(1);
  });

  test('is named before the first step if the checksums in the zip files differ', async () => {
    const [own, other] = [new Uint32Array(SAMPLES).fill(5), new Uint32Array(SAMPLES).fill(5)];
    other[3] = 6;
    const results = await train([readingTask(() => 5, own), readingTask(() => 5, other), readingTask(() => 5)]);
    for (const { message } of results as Error[]) expect(message).toMatch(/^cats\/3\.png .*rank 0 .*rank 1/);
  });
});

test.each([1, 2, 3])(
  '%i ranks are told the samples of their next steps, but none behind the end of the run',
  async (n) => {
    const taken: number[][] = [];
    const expected: number[][] = [];
    const watched = (): TrainingTask => {
      const task = createCountingTask({ samples: SAMPLES });
      return {
        ...task,
        ahead: 7,
        expect: (next) => void expected.push([...next]),
        withBatch: (indices, use, at, size) => {
          taken.push([...indices]);
          return task.withBatch(indices, use, at, size);
        },
      };
    };
    const others = Array.from({ length: n - 1 }, () => createCountingTask({ samples: SAMPLES }));
    await train([watched(), ...others], { epochs: 2 });
    // The first pass is the warm-up.
    const steps = taken.slice(1);
    const following = steps.map((_, i) =>
      steps
        .slice(i + 1)
        .flat()
        .slice(0, 7),
    );
    expect(expected).toEqual(steps.map((step, i) => [...step, ...following[i]!]));
  },
);
