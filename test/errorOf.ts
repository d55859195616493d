import type { PeergradError } from '../src/util/errors.ts';

/** Resolves with the error of a promise, which must reject. */
export async function errorOf(promise: PromiseLike<unknown>): Promise<PeergradError> {
  try {
    await promise;
  } catch (error) {
    return error as PeergradError;
  }
  throw new Error('expected a rejection');
}
