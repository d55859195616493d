/** A page for tests that trains in a worker, like a user's page. */
import { hostWorker } from '../../src/library/worker/index.ts';
import type { FromProgram, Wish } from './libraryWorkerProgram.ts';

declare global {
  interface Window {
    /** Starts a worker. Every message of its program is in `messages`. */
    start: (isHosted: boolean) => void;
    /** Sends a message to the worker's program. */
    ask: (wish: Wish) => void;
    terminate: () => void;
    messages: FromProgram[];
  }
}

let worker: Worker;
window.messages = [];
window.start = (isHosted) => {
  worker = new Worker(new URL('./libraryWorkerProgram.ts', import.meta.url), { type: 'module' });
  if (isHosted) hostWorker(worker);
  worker.addEventListener('message', ({ data }: MessageEvent<FromProgram>) => window.messages.push(data));
};
window.ask = (wish) => worker.postMessage(wish);
window.terminate = () => worker.terminate();
