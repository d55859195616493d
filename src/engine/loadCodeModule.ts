/**
 * Loads code that a tab does not need before it has joined its room. Until then, the engine's
 * worker imports nothing that computes.
 */
import { errorMessageOf, PeergradError } from '../util/errors.ts';

/** A part of the page could not be loaded. Browsers may not try again before a reload. */
export class CodeLoadError extends PeergradError {
  override readonly name = 'CodeLoadError';
}

/**
 * Resolves with the module that `load` imports.
 *
 * @throws (rejects) CodeLoadError.
 */
export async function loadCodeModule<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    throw new CodeLoadError(
      `A part of the page could not be loaded (${errorMessageOf(cause)}). The connection is broken, or the server has another version of the page now. Reload the page.`,
      {},
      { cause },
    );
  }
}
