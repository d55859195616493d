import { expect, test } from 'vitest';
import { adapterDisplayName, computesInSoftware, requestAdapter } from '../../src/util/gpuAdapter.ts';

/** A browser that answers requests for an adapter in turn, and then with `null`. */
function browserThatAnswers(...answers: (GPUAdapter | null)[]) {
  let requests = 0;
  const gpu = {
    requestAdapter: () => {
      const answer = answers[requests] ?? null;
      requests += 1;
      return Promise.resolve(answer);
    },
  } as unknown as GPU;
  return { gpu, requests: () => requests };
}

const ADAPTER = {} as GPUAdapter;

test('requestAdapter returns the adapter of the first answer', async () => {
  const { gpu, requests } = browserThatAnswers(ADAPTER);
  expect(await requestAdapter(gpu)).toBe(ADAPTER);
  expect(requests()).toBe(1);
});

test('requestAdapter asks again while the GPU process starts', async () => {
  const { gpu } = browserThatAnswers(null, ADAPTER);
  expect(await requestAdapter(gpu)).toBe(ADAPTER);
});

test('requestAdapter returns null after three answers without an adapter', async () => {
  const { gpu, requests } = browserThatAnswers();
  expect(await requestAdapter(gpu)).toBeNull();
  expect(requests()).toBe(3);
});

test('the name of an adapter says that it computes in software, even if the browser gives no name', () => {
  const unnamed = { description: '', vendor: '', architecture: '', isFallbackAdapter: false };
  expect(adapterDisplayName(unnamed)).toBe('WebGPU');
  expect(adapterDisplayName({ ...unnamed, isFallbackAdapter: true })).toBe('WebGPU (software)');
  const named = { ...unnamed, vendor: 'google', architecture: 'swiftshader', isFallbackAdapter: true };
  expect(adapterDisplayName(named)).toBe('google swiftshader');
});

test('a device computes in software if its adapter says so', () => {
  const unnamed = { description: '', vendor: '', architecture: '', isFallbackAdapter: false };
  const gpus = [{}, { adapterInfo: unnamed }, { adapterInfo: { ...unnamed, vendor: 'nvidia' } }];
  const software = [
    { ...unnamed, isFallbackAdapter: true },
    { ...unnamed, description: 'llvmpipe (LLVM 19.1)' },
  ];
  expect(gpus.map(computesInSoftware)).toEqual([false, false, false]);
  expect(software.map((adapterInfo) => computesInSoftware({ adapterInfo }))).toEqual([true, true]);
});
