/** A page that trains itself or in a worker, and that can block its main thread. */
import { hostWorker } from '../../src/library/worker/index.ts';
import { deferred } from '../../src/util/deferred.ts';
import { PeergradError } from '../../src/util/errors.ts';
import { train, type Training } from './train.ts';
import type { FromProgram } from './worker.ts';

export interface Trial extends Training {
  where: 'worker' | 'page';
  /** URL that answers after the time for which the page blocks; `null`: the page does not block. */
  slowUrl: string | null;
}

export interface TrialResult {
  stepsPerSecond: number;
  /** Share of the measured time for which the page was blocked. */
  blocked: number;
}

declare global {
  /** Used by the benchmark. */
  var runTrial: (trial: Trial) => Promise<TrialResult>;
}

/** Milliseconds between two blocks, in which the page may receive messages. */
const PAUSE_MS = 200;

let program: Worker | null = null;

globalThis.runTrial = async ({ where, slowUrl, ...training }) => {
  let startedAt = 0;
  let blockedMs = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const block = (url: string): void => {
    const from = performance.now();
    waitFor(url);
    blockedMs += performance.now() - from;
    timer = setTimeout(() => block(url), PAUSE_MS);
  };
  const onready = (): void => {
    startedAt = performance.now();
    if (slowUrl !== null) timer = setTimeout(() => block(slowUrl));
  };
  try {
    const stepsPerSecond = await (where === 'page' ? train : trainInWorker)(training, onready);
    return { stepsPerSecond, blocked: blockedMs / (performance.now() - startedAt) };
  } finally {
    clearTimeout(timer);
  }
};

/** Blocks this thread until the server answers. Unlike a loop, this occupies no core. */
function waitFor(url: string): void {
  const request = new XMLHttpRequest();
  request.open('GET', url, false);
  request.send();
}

function trainInWorker(training: Training, onready: () => void): Promise<number> {
  program ??= startProgram();
  const done = deferred<number>();
  program.onmessage = ({ data }: MessageEvent<FromProgram>) => {
    if (data.type === 'ready') onready();
    else if (data.type === 'trained') done.resolve(data.stepsPerSecond);
    else done.reject(new PeergradError(data.message));
  };
  program.postMessage(training);
  return done.promise;
}

function startProgram(): Worker {
  const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
  hostWorker(worker);
  return worker;
}
