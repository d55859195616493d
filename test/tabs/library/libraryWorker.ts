/** A page for tests that trains in a worker, like a user's page. */
import { hostWorker } from '../../../src/library/worker/index.ts';
import type { FromProgram, ProgramTask } from './libraryWorkerProgram.ts';

declare global {
  interface Window {
    /** Starts a worker and hosts it. Every message of its program is in `messages`. */
    start: () => void;
    /** Sends a message to the worker's program. */
    ask: (task: ProgramTask) => void;
    terminate: () => void;
    messages: FromProgram[];
  }
}

let worker: Worker;
window.messages = [];
window.start = () => {
  worker = new Worker(new URL('./libraryWorkerProgram.ts', import.meta.url), { type: 'module' });
  hostWorker(worker);
  worker.addEventListener('message', ({ data }: MessageEvent<FromProgram>) => window.messages.push(data));
};
window.ask = (task) => worker.postMessage(task);
window.terminate = () => worker.terminate();
