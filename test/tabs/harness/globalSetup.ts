/** Builds the page once, before the files of two workers use it at the same time. */
import { ensureBuilt } from '../../../launcher/build.ts';

export default (): Promise<void> =>
  ensureBuilt({ out: () => {}, err: console.error, terminal: null, signal: new AbortController().signal });
