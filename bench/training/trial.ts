/**
 * A separate process for a training run of a benchmark. All ranks run in this process over memory
 * links, on TensorFlow.js's WebAssembly backend. It computes the same as tabs, including the
 * encoding of gradients, in a tenth of the time of tabs without a GPU. The first argument is a
 * {@link TrialOrder} as JSON. The process sends a {@link TrialResult}.
 */
import * as tf from '@tensorflow/tfjs';
import { setWasmPaths } from '@tensorflow/tfjs-backend-wasm';
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { registerWasmTrainingKernels } from '../../src/engine/device/wasmKernels.ts';
import { loadJobTask } from '../../src/engine/tasks/loadJobTask.ts';
import { ReplicaStep } from '../../src/engine/training/replicaStep.ts';
import { TrainingLoop } from '../../src/engine/training/trainingLoop.ts';
import { parseJob, type JobSpec } from '../../src/spec/job.ts';
import { runWorld } from '../../src/testing/index.ts';
import { systemClock } from '../../src/util/clock.ts';
import { PeergradError } from '../../src/util/errors.ts';

export interface TrialOrder {
  tabs: number;
  /** Paths of MNIST's files or of texts; without any, data are generated. */
  files: readonly string[];
  /** Fields of the job, except its data. */
  fields: Readonly<Record<string, unknown>>;
}

export interface TrialResult {
  /** Results for held-out samples; `accuracy` is `null` if the job does not classify. */
  accuracy: number | null;
  valLoss: number;
  /** Bytes that the busiest rank sent for gradients in the whole run. */
  bytes: number;
}

const backend = createRequire(import.meta.url).resolve('@tensorflow/tfjs-backend-wasm');
tf.env().set('WASM_HAS_MULTITHREAD_SUPPORT', false);
setWasmPaths(`${path.dirname(backend)}/`);
registerWasmTrainingKernels();
await tf.setBackend('wasm');

async function train({ tabs, files: paths, fields }: TrialOrder): Promise<TrialResult> {
  const job = parseJob(fields);
  const files = paths.map((file) => new File([readFileSync(file)], path.basename(file)));
  // A language model's texts are not a kind of data that a job can name as files.
  const loaded: JobSpec = files.length > 0 ? { ...job, data: { kind: 'files' } } : job;
  const results = await runWorld(tabs, async (group) => {
    const task = await loadJobTask(loaded, { files, baseUrl: 'http://localhost/' }, tabs);
    const options = {
      plan: job,
      clock: systemClock,
      device: { backend: 'wasm', adapter: 'Node' } as const,
      emit: () => {},
    };
    const rank = await ReplicaStep.prepare({ ...options, task, checkDevice: () => {} });
    const run = new TrainingLoop(rank, options);
    await run.enter({ group, transport: { webrtc: 0, server: 0, memory: tabs }, signal: new AbortController().signal });
    const result = await run.run();
    rank.dispose();
    task.dispose();
    return result;
  });
  const { accuracy, valLoss, bytesSentPerRank, stateHash } = results[0]!;
  if (new Set(stateHash).size > 1)
    throw new PeergradError(`Ranks ended in different states. Their hashes: ${stateHash.join(', ')}.`);
  return { accuracy: accuracy ?? null, valLoss: valLoss!, bytes: Math.max(...bytesSentPerRank) };
}

process.on('disconnect', () => process.exit());
process.send!(await train(JSON.parse(process.argv[2]!) as TrialOrder));
