/** A thread of `threads.test.ts`. */
import { parentPort, workerData } from 'node:worker_threads';
import { serveParts, type ThreadStart } from '../../src/wasm/threads.ts';

parentPort!.postMessage('ready');
serveParts(workerData as ThreadStart);
