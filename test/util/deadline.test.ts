import { expect, test } from 'vitest';
import { unlessAborted } from '../../src/util/deadline.ts';
import { createDeferred } from '../../src/util/deferred.ts';

test('a promise that rejects after its wait was aborted causes no unhandled rejection', async () => {
  const rejections: unknown[] = [];
  const onRejection = (reason: unknown): void => void rejections.push(reason);
  process.on('unhandledRejection', onRejection);
  try {
    for (const isEarly of [true, false]) {
      const [controller, work] = [new AbortController(), createDeferred<never>()];
      const over = new Error('Over.');
      if (isEarly) controller.abort(over);
      const result = unlessAborted(controller.signal, work.promise);
      controller.abort(over);
      await expect(result).rejects.toBe(over);
      work.reject(new Error('Late.'));
      // Node reports unhandled rejections after all microtasks.
      await new Promise((resolve) => void setImmediate(resolve));
    }
    expect(rejections).toEqual([]);
  } finally {
    process.off('unhandledRejection', onRejection);
  }
});

test('an aborted signal has priority over a settled promise', async () => {
  const over = new Error('Over.');
  await expect(unlessAborted(AbortSignal.abort(over), Promise.resolve(1))).rejects.toBe(over);
});
