/** Memory of tabs before a run, and the offer of a pipeline. */
import { describe, expect, test } from 'vitest';
import { tabMemoryBudgetOf } from '../../../src/app/browser/tabMemoryBudget.ts';
import {
  smallestFittingPipeline,
  plannedModelOf,
  plannedPipelineOf,
  wholeModelBytes,
} from '../../../src/app/pipeline/memoryPlan.ts';
import { stagesByRank } from '../../../src/app/pipeline/shape.ts';
import { DEFAULT_JOB, jobDefaultsFor, parseJob, type JobSpec } from '../../../src/spec/job.ts';
import { TAB_MEMORY_BYTES } from '../../../src/spec/pipeline.ts';
import { withGptPreset } from '../../../src/app/state/jobForm.ts';

const language = (preset: 'small' | 'gpt2', fields: Partial<JobSpec> = {}): JobSpec => ({
  ...withGptPreset(jobDefaultsFor('gpt', 'ddp'), preset),
  ...fields,
});
const dense = (units: number) => ({ class_name: 'Dense', config: { units } });
const largest = (bytes: readonly number[]): number => Math.max(...bytes);

describe('a model of GPT-2', () => {
  const job = language('gpt2');
  const model = plannedModelOf(job)!;

  test('needs in a single tab 2 GB for weights, gradients and averages of the optimizer, and more memory for activations', () => {
    const state = model.layers.reduce((sum, { bytes }) => sum + bytes, 0);
    expect(state / 16).toBeGreaterThan(123e6);
    expect(state / 16).toBeLessThan(126e6);
    expect(wholeModelBytes(job, model)).toBeGreaterThan(state);
  });

  test('fits in the smallest number of tabs in which layers and activations are within the budget', () => {
    const fit = smallestFittingPipeline(job, model, 1e9)!;
    expect(fit.ranks).toBe(3);
    expect(largest(fit.bytes)).toBeLessThanOrEqual(1e9);
    expect(largest(plannedPipelineOf({ ...job, stages: 2 }, model, 2).bytes)).toBeGreaterThan(1e9);
    // Activations that are kept need more tabs.
    expect(smallestFittingPipeline({ ...job, recompute: false }, model, 1e9)!.ranks).toBeGreaterThan(3);
  });

  test('does not fit in any number of tabs that are too small for its embedding', () => {
    expect(smallestFittingPipeline(job, model, 0.5e9)).toBeNull();
  });

  test('has every layer on exactly one rank; one rank has the embedding and the last normalization', () => {
    const plan = plannedPipelineOf(job, model, 9);
    expect(plan).toMatchObject({ ranks: 4, replicas: 2, ring: true, isMeasured: false });
    const held = stagesByRank(plan).map(({ layers }) => layers);
    expect(held.flat().toSorted()).toEqual(model.layers.map(({ name }) => name).toSorted());
    expect(held[0]![0]).toBe('embedding');
  });

  test('has fewer stages if there are fewer tabs, and each tab then needs more memory', () => {
    const [two, four] = [2, 4].map((tabs) => plannedPipelineOf(job, model, tabs));
    expect(two!.ranks).toBe(2);
    expect(largest(two!.bytes)).toBeGreaterThan(largest(four!.bytes));
    expect([two!.isTooLarge, four!.isTooLarge]).toEqual([false, false]);
    expect(plannedPipelineOf(job, model, 1).isTooLarge).toBe(true);
  });
});

test('a rank keeps the activations of all micro-batches with GPipe, but not with 1F1B', () => {
  const job = language('small', { strategy: 'pipeline', stages: 4, microBatches: 16 });
  const model = plannedModelOf(job)!;
  const bytesWith = (pipelineSchedule: JobSpec['pipelineSchedule']): number =>
    largest(plannedPipelineOf({ ...job, pipelineSchedule }, model, 4).bytes);
  expect(bytesWith('gpipe')).toBeGreaterThan(2 * bytesWith('1f1b'));
});

test('plannedModelOf returns the bytes of each layer of a job file, and null for small built-in models', () => {
  const job = parseJob({
    job: 'digits',
    model: {
      class_name: 'Sequential',
      config: {
        layers: [{ class_name: 'Flatten', config: { batch_input_shape: [null, 28, 28, 1] } }, dense(512), dense(10)],
      },
    },
  });
  const model = plannedModelOf(job)!;
  expect(model).toMatchObject({ ring: false, isMeasured: true });
  expect(model.layers.map(({ bytes }) => bytes / 16)).toEqual([0, 785 * 512, 513 * 10]);
  expect(model.largestMatrix).toBe(785 * 512 * 4);
  expect(plannedPipelineOf({ ...job, stages: 2 }, model, 2).cut).toHaveLength(2);
  expect(plannedModelOf(DEFAULT_JOB)).toBeNull();
});

test('tabMemoryBudgetOf returns the usual memory of a tab, or an eighth of the memory that the browser reports if this is less', () => {
  expect(tabMemoryBudgetOf(undefined, null)).toEqual({
    bytes: TAB_MEMORY_BYTES,
    isReported: false,
    maxBufferBytes: null,
  });
  expect(tabMemoryBudgetOf(8, 2 ** 31)).toEqual({ bytes: 1e9, isReported: true, maxBufferBytes: 2 ** 31 });
  expect(tabMemoryBudgetOf(64, null).bytes).toBe(TAB_MEMORY_BYTES);
});
