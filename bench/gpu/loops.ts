/** Training loops of `bench gpu`. Each has its own model and optimizer. */
import * as tf from '@tensorflow/tfjs';
import { Mesh } from '../../src/collectives/mesh.ts';
import { ProcessGroup } from '../../src/collectives/processGroup.ts';
import type { TrainingTask } from '../../src/engine/tasks/task.ts';
import { chooseWebGpuKernels } from '../../src/gpu/kernels/index.ts';
import { createOptimizer } from '../../src/optim/index.ts';
import { DistributedDataParallel } from '../../src/parallel/ddp/distributedDataParallel.ts';
import { variablesOf } from '../../src/parallel/backward/flatten.ts';
import { differentiatePassAlone } from '../../src/parallel/backward/pass.ts';
import { PassCaptures } from '../../src/parallel/backward/passCaptures.ts';
import { systemClock } from '../../src/util/clock.ts';
import { compileShadersAhead } from '../../src/gpu/compile.ts';
import { currentGpuCommandCounts, type GpuCommandCounts } from '../../src/gpu/commands.ts';
import type { GpuModel, LoopName, StepFigures } from './args.ts';
import { loadModel, type BenchModel } from './models.ts';

const LEARNING_RATE = 0.001;

type Pass = Parameters<Parameters<TrainingTask['withBatch']>[1]>[0];

interface Steps {
  /**
   * Takes one step on the samples of `pass`, which began at `startedAt`. Resolves with the
   * milliseconds of JavaScript.
   */
  take: (pass: Pass, startedAt: number) => Promise<number>;
  /** A sentence that says why steps are not replayed; `null` if nothing prevents it. */
  notReplayed: string | null;
}

export interface Loop {
  readonly model: BenchModel;
  /** Takes one step with the loop's kernels. */
  step(): Promise<StepFigures>;
  /** Returns a sentence that says why steps are not replayed; `null` if nothing prevents it. */
  notReplayed(): string | null;
}

export async function createLoop(name: LoopName, modelName: GpuModel, batch: number): Promise<Loop> {
  const model = await loadModel(modelName);
  const { task } = model;
  const steps = name === 'plain' ? plainSteps(task, batch) : await ddpSteps(task, batch, name === 'own');
  let step = 0;
  return {
    model,
    notReplayed: () => steps.notReplayed,
    async step() {
      chooseWebGpuKernels(name === 'own' ? 'own' : 'stock');
      const first = (step * batch) % (task.trainSamples - batch);
      const indices = Uint32Array.from({ length: batch }, (_, i) => first + i);
      const before = currentGpuCommandCounts()!;
      const startedAt = performance.now();
      const jsMs = await task.withBatch(indices, (pass) => steps.take(pass, startedAt), { step, epoch: 0 }, batch);
      const ms = performance.now() - startedAt;
      const after = currentGpuCommandCounts()!;
      step += 1;
      const since = (count: keyof GpuCommandCounts): number => after[count] - before[count];
      return { ms, jsMs, dispatches: since('dispatches'), submits: since('submits') };
    },
  };
}

/**
 * A training loop as in TensorFlow.js's guide. It reads the loss in each step, like a page that
 * shows the loss.
 */
function plainSteps(task: TrainingTask, batch: number): Steps {
  const { parameters } = variablesOf(task.model);
  const optimizer = tf.train.adam(LEARNING_RATE);
  const take: Steps['take'] = async (pass, startedAt) => {
    const { value, grads } = tf.variableGrads(() => lossOf(pass).div(batch), [...parameters]);
    optimizer.applyGradients(Object.entries(grads).map(([name, tensor]) => ({ name, tensor })));
    const loss = value.data();
    const jsMs = performance.now() - startedAt;
    await loss;
    tf.dispose([value, grads]);
    return jsMs;
  };
  return { take, notReplayed: null };
}

/** @param isOwn whether shaders are compiled in parallel and passes are replayed, as by a rank. */
async function ddpSteps(task: TrainingTask, batch: number, isOwn: boolean): Promise<Steps> {
  const group = new ProcessGroup(new Mesh({ rank: 0, worldSize: 1, generation: 1, links: new Map() }));
  const ddp = await DistributedDataParallel.create(task.model, group, { keepGradients: true });
  const optimizer = createOptimizer('adam', { learningRate: LEARNING_RATE }, ddp.layout.size);
  const variables = variablesOf(task.model);
  let isCompiled = !isOwn;
  const captures = isOwn ? PassCaptures.of(variables, (reason) => (steps.notReplayed = reason)) : null;
  const take: Steps['take'] = async (pass, startedAt) => {
    if (!isCompiled)
      await compileShadersAhead(() => differentiatePassAlone(pass, variables).dispose(), { clock: systemClock });
    isCompiled = true;
    const yielded = nextTask();
    const reduced = ddp.backward(pass, { samples: batch, reduction: 'sum', totalSamples: batch, captures });
    const recordedMs = (await yielded) - startedAt;
    await reduced;
    const reducedAt = performance.now();
    ddp.step(optimizer);
    return recordedMs + performance.now() - reducedAt;
  };
  const steps: Steps = { take, notReplayed: null };
  return steps;
}

/** Resolves in the next task of this thread, after all promise jobs of this task, with its time. */
function nextTask(): Promise<number> {
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve) => {
    port1.onmessage = () => {
      port1.close();
      resolve(performance.now());
    };
    port2.postMessage(null);
  });
}

function lossOf(pass: Pass): tf.Scalar {
  if (typeof pass !== 'function') throw new Error('The pass of a built-in job is a function.');
  return pass();
}
