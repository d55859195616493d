/** A thread of `threads.test.ts`. */
import { parentPort, workerData } from 'node:worker_threads';
import { serveCallParts, type ThreadStart } from '../../src/wasm/threads.ts';

parentPort!.postMessage('ready');
serveCallParts(workerData as ThreadStart);
