/** WebGPU computes every layer that a job or a program may have as the CPU backend does. */
import { afterEach, expect, test } from 'vitest';
import { chooseWebGpuKernels } from '../../../src/gpu/kernels/index.ts';
import { differencesOf, jobCases, stockCases } from '../../layerCases.ts';

afterEach(() => {
  chooseWebGpuKernels('own');
});

test.each([...jobCases, ...stockCases])('%s with all options has the results of the CPU backend', async (_, cases) => {
  expect(cases.length).toBeGreaterThan(0);
  expect(await differencesOf(cases, 'webgpu')).toEqual([]);
});

const withOwnKernels = jobCases.filter(([name]) => ['Dense', 'Conv2D', 'LayerNormalization'].includes(name));

test.each(withOwnKernels)(
  '%s with all options has the results of the CPU backend if stock kernels are chosen',
  async (_, cases) => {
    chooseWebGpuKernels('stock');
    expect(await differencesOf(cases, 'webgpu')).toEqual([]);
  },
);
