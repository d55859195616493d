/** In a rank's worker: steps of a model, by a plain TensorFlow.js loop and by DistributedDataParallel, in turns. */
import * as tf from '@tensorflow/tfjs';
import { openDevice, type OpenedDevice } from '../../src/engine/device.ts';
import { lossSum } from '../../src/jobs/index.ts';
import { createOptimizer } from '../../src/optim/index.ts';
import { DistributedDataParallel } from '../../src/parallel/ddp.ts';
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { systemClock } from '../../src/util/clock.ts';
import { createRng } from '../../src/util/rng.ts';
import type { WorkerRank } from '../world/rank.ts';
import type { StepArgs, StepKind, StepModel, StepResult } from './args.ts';
import type { StepTimes } from '../../src/protocol/events.ts';
import { benchModel, CLASSES, INPUT_SHAPE } from './models.ts';

const LEARNING_RATE = 0.001;

interface Loop {
  /** Learns from a batch. */
  step(loss: (logits: (inputs: tf.Tensor) => tf.Tensor2D) => tf.Scalar): Promise<Omit<StepTimes, 'total'>>;
  bucketBytes(): number[];
}

/** A worker computes on one device, whatever it is asked for. */
let opened: Promise<OpenedDevice> | undefined;

export async function takeSteps({ group }: WorkerRank, args: StepArgs): Promise<StepResult> {
  const { model, batch, kinds, turns, steps } = args;
  const { device } = await (opened ??= openDevice(systemClock));
  const rng = createRng(group.rank + 1);
  const size = INPUT_SHAPE.reduce((product, side) => product * side, batch);
  const pixels = Float32Array.from({ length: size }, () => rng.next());
  const labels = Int32Array.from({ length: batch }, () => rng.below(CLASSES));
  const ones = new Float32Array(batch).fill(1);

  const loops: Loop[] = [];
  for (const kind of kinds)
    loops.push(kind === 'plain' ? plainLoop(model, batch) : await ddpLoop(model, batch, group, kind));
  const taken: StepTimes[][] = kinds.map(() => []);
  // The first turn compiles.
  for (let turn = -1; turn < turns; turn++) {
    for (const [i, loop] of loops.entries()) {
      for (let step = 0; step < (turn < 0 ? WARM_UP_STEPS : steps); step++) {
        const startedAt = performance.now();
        // As a run does: each batch comes from the CPU.
        const inputs = tf.tensor(pixels, [batch, ...INPUT_SHAPE]);
        const targets = tf.tensor1d(labels, 'int32');
        const weights = tf.tensor1d(ones);
        const parts = await loop.step((logits) => lossSum(logits(inputs), targets, weights));
        tf.dispose([inputs, targets, weights]);
        if (turn >= 0) taken[i]!.push({ total: performance.now() - startedAt, ...parts });
      }
    }
  }
  const { variables } = benchModel(model);
  const parameters = variables.reduce((sum, variable) => sum + variable.size, 0);
  tf.dispose([...variables]);
  return {
    ...{ backend: device.backend, adapter: device.adapter, parameters },
    kinds: loops.map((loop, i) => ({ steps: taken[i]!, bucketBytes: loop.bucketBytes() })),
  };
}

/** Shaders are compiled in the first, and buckets have their order from the second on. */
const WARM_UP_STEPS = 2;

/** As TensorFlow.js's guide does it, and the loss read each step, as a page that shows it does. */
function plainLoop(name: StepModel, batch: number): Loop {
  const { variables, logits } = benchModel(name);
  const optimizer = tf.train.adam(LEARNING_RATE);
  return {
    async step(lossOf) {
      const { value, grads } = tf.variableGrads(() => lossOf(logits).div(batch), [...variables]);
      optimizer.applyGradients(Object.entries(grads).map(([gradient, tensor]) => ({ name: gradient, tensor })));
      await value.data();
      tf.dispose([value, grads]);
      return { compute: 0, readback: 0, communicate: 0, exposed: 0, update: 0 };
    },
    bucketBytes: () => [],
  };
}

async function ddpLoop(
  name: StepModel,
  batch: number,
  group: ProcessGroup,
  options: Exclude<StepKind, 'plain'>,
): Promise<Loop> {
  const { variables, logits } = benchModel(name);
  const ddp = await DistributedDataParallel.create(variables, group, { ...options, keepGradients: true });
  const optimizer = createOptimizer('adam', { learningRate: LEARNING_RATE }, ddp.layout.size);
  return {
    async step(lossOf) {
      const reduced = await ddp.backward(() => lossOf(logits), { samples: batch, reduction: 'sum' });
      const reducedAt = performance.now();
      ddp.step(optimizer);
      const { compute, readback, communicate, exposed } = reduced;
      return { compute, readback, communicate, exposed, update: performance.now() - reducedAt };
    },
    bucketBytes: () => ddp.bucketBytes,
  };
}
