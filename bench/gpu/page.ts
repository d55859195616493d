/** The page of `bench gpu`. Its worker measures, as the workers of tabs train. */
import { callWorker } from '../world/calls.ts';

declare global {
  /** Runs a measurement of the worker. */
  var measureGpu: (name: string, args: unknown) => Promise<unknown>;
}

const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
globalThis.measureGpu = (name, args) => callWorker(worker, name, args);
