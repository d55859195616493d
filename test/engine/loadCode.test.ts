import { expect, test } from 'vitest';
import { loadCode, CodeLoadError } from '../../src/engine/loadCode.ts';

test('loadCode resolves with what it loads', async () => {
  expect(await loadCode(() => Promise.resolve('module'))).toBe('module');
});

test('loadCode rejects with the cause and with what to do', async () => {
  const loading = loadCode(() => Promise.reject(new TypeError('Failed to fetch')));
  await expect(loading).rejects.toThrow(CodeLoadError);
  await expect(loading).rejects.toThrow(/could not be loaded \(Failed to fetch\).*Reload the page\.$/);
});
