/**
 * Times a training step of PyTorch and of peergrad on the CPU: two ranks on this machine, the same
 * model and batch, one thread per rank.
 */
import path from 'node:path';
import { Worker } from 'node:worker_threads';
import type { StepTimes } from '../../src/protocol/stepTrace.ts';
import { median, mediansOfFields } from '../../src/util/statistics.ts';
import { runPython } from './python.ts';

export const WORKLOAD = {
  /** Sizes of an MLP's input, hidden layer and output. */
  sizes: [784, 512, 10],
  worldSize: 2,
  /** Samples of a rank in a step. */
  batch: 128,
  warmUpSteps: 10,
  steps: 60,
} as const;

/** Given to a rank's thread. */
export interface RankData {
  rank: number;
  port: MessagePort;
}

/** Median milliseconds of rank 0's steps. `peergrad` has the parts of a step, too. */
export interface StepTimesComparison {
  torch: number;
  peergrad: StepTimes;
}

/** Loads a rank's module: a thread of Node 20 does not inherit the loader of TypeScript. */
const LOADER = `import('tsx/esm/api').then(({ tsImport }) => tsImport('./stepTimesRank.ts', ${JSON.stringify(import.meta.url)}))`;
const REFERENCE = path.join(import.meta.dirname, 'stepTimes.py');

/**
 * Measures peergrad, then PyTorch.
 *
 * @param python a Python program that has PyTorch.
 */
export async function compareStepTimes(python: string): Promise<StepTimesComparison> {
  const steps = await peergradSteps();
  const times = JSON.parse(await runPython(python, [REFERENCE], JSON.stringify(WORKLOAD))) as number[];
  return { torch: median(times), peergrad: mediansOfFields(steps) };
}

/** Trains in two threads that a message port connects. Returns the times of rank 0. */
async function peergradSteps(): Promise<StepTimes[]> {
  const { port1, port2 } = new MessageChannel();
  const workers = [port1, port2].map((port, rank) => {
    const workerData: RankData = { rank, port };
    // Node's type of a port differs from the browser's.
    return new Worker(LOADER, { eval: true, workerData, transferList: [port as never] });
  });
  try {
    const [first] = await Promise.all(workers.map((worker) => resultOf(worker)));
    return first!;
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
}

function resultOf(worker: Worker): Promise<StepTimes[]> {
  return new Promise((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
    worker.once('exit', (code) => reject(new Error(`A rank's thread ended with ${code}.`)));
  });
}
