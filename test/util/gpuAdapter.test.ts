import { expect, test } from 'vitest';
import { requestAdapter } from '../../src/util/gpuAdapter.ts';

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
