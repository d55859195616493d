import { expect, test } from 'vitest';
import { loadCodeModule, CodeLoadError } from '../../src/engine/loadCodeModule.ts';

test('loadCodeModule resolves with what it loads', async () => {
  expect(await loadCodeModule(() => Promise.resolve('module'))).toBe('module');
});

test('loadCodeModule rejects with the cause and with what to do', async () => {
  const loading = loadCodeModule(() => Promise.reject(new TypeError('Failed to fetch')));
  await expect(loading).rejects.toThrow(CodeLoadError);
  await expect(loading).rejects.toThrow(/could not be loaded \(Failed to fetch\).*Reload the page\.$/);
});
