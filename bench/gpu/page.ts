/** The page of `bench gpu`. Its worker measures, as the workers of tabs train. */
import { deferred, type Deferred } from '../../src/util/deferred.ts';
import { PeergradError } from '../../src/util/errors.ts';
import type { FromWorker } from './worker.ts';

declare global {
  /** Runs a measurement of the worker. Only one may run at a time. */
  var measureGpu: (name: string, args: unknown) => Promise<unknown>;
}

const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
let current: Deferred<unknown> | null = null;

worker.addEventListener('error', ({ message }) =>
  current?.reject(new PeergradError(`The worker failed: ${message || 'it could not be loaded'}.`)),
);
worker.addEventListener('message', ({ data }: MessageEvent<FromWorker>) => {
  if ('message' in data) current?.reject(new PeergradError(data.message));
  else current?.resolve(data.result);
});

globalThis.measureGpu = (name, args) => {
  current = deferred();
  worker.postMessage({ name, args });
  return current.promise;
};
