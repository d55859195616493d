/**
 * Runs in a rank's worker: trains a model with DistributedDataParallel with several bucket sizes in
 * turn, and measures the steps.
 */
import * as tf from '@tensorflow/tfjs';
import { openAppDevice } from '../../src/engine/device/appDevice.ts';
import type { OpenedDevice } from '../../src/engine/device/device.ts';
import { crossEntropySum } from '../../src/gpu/kernels/crossEntropy.ts';
import { createOptimizer } from '../../src/optim/index.ts';
import { DistributedDataParallel } from '../../src/parallel/ddp/distributedDataParallel.ts';
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import type { OpTrace } from '../../src/collectives/work.ts';
import { systemClock } from '../../src/util/clock.ts';
import { createRng } from '../../src/util/rng.ts';
import type { WorkerRank } from '../world/rank.ts';
import type { BucketTimes, StepArgs, StepKind, StepResult, TakenStep } from './args.ts';
import { CLASSES, deepModel, INPUT_SHAPE } from './deepModel.ts';

const LEARNING_RATE = 0.001;

interface Loop {
  /** Takes one training step, which began at `startedAt`. */
  step(startedAt: number, loss: (logits: (inputs: tf.Tensor) => tf.Tensor2D) => tf.Scalar): Promise<TakenStep>;
  bucketBytes(): number[];
}

/** The device of this worker, which all runs use. */
let opened: Promise<OpenedDevice> | undefined;

export async function takeSteps({ group }: WorkerRank, args: StepArgs): Promise<StepResult> {
  const { batch, kinds, turns, steps } = args;
  const { device } = await (opened ??= openAppDevice(systemClock, 'own'));
  const rng = createRng(group.rank + 1);
  const { variables } = deepModel();
  const parameters = variables.reduce((sum, variable) => sum + variable.size, 0);
  tf.dispose([...variables]);
  const size = INPUT_SHAPE.reduce<number>((product, side) => product * side, batch);
  const pixels = Float32Array.from({ length: size }, () => rng.next());
  const labels = Int32Array.from({ length: batch }, () => rng.below(CLASSES));
  const ones = new Float32Array(batch).fill(1);

  const loops: Loop[] = [];
  for (const kind of kinds) loops.push(await ddpLoop(batch, group, kind));
  const taken: TakenStep[][] = kinds.map(() => []);
  // Turn -1 is a warm-up: kernels are compiled.
  for (let turn = -1; turn < turns; turn++) {
    for (const [i, loop] of loops.entries()) {
      for (let step = 0; step < (turn < 0 ? WARM_UP_STEPS : steps); step++) {
        const startedAt = performance.now();
        // Each batch is created from arrays on the CPU, as in a training run.
        const inputs = tf.tensor(pixels, [batch, ...INPUT_SHAPE]);
        const targets = tf.tensor1d(labels, 'int32');
        const weights = tf.tensor1d(ones);
        const takenStep = await loop.step(startedAt, (logits) => crossEntropySum(logits(inputs), targets, weights));
        tf.dispose([inputs, targets, weights]);
        takenStep.ms.total = performance.now() - startedAt;
        if (turn >= 0) taken[i]!.push(takenStep);
      }
    }
  }
  return {
    backend: device.backend,
    adapter: device.adapter,
    parameters,
    kinds: loops.map((loop, i) => ({ steps: taken[i]!, bucketBytes: loop.bucketBytes() })),
  };
}

/**
 * Shaders are compiled in the first step. From the second step on, buckets have their final order.
 */
const WARM_UP_STEPS = 2;

async function ddpLoop(batch: number, group: ProcessGroup, options: StepKind): Promise<Loop> {
  const { variables, logits } = deepModel();
  const ddp = await DistributedDataParallel.create(variables, group, { ...options, keepGradients: true });
  const optimizer = createOptimizer('adam', { learningRate: LEARNING_RATE }, ddp.layout.size);
  return {
    async step(startedAt, lossOf) {
      const reduced = await ddp.backward(() => lossOf(logits), { samples: batch, reduction: 'sum' });
      const reducedAt = performance.now();
      ddp.step(optimizer);
      const { compute, readback, communicate, exposed } = reduced;
      const update = performance.now() - reducedAt;
      return {
        ms: { total: 0, data: 0, compute, readback, communicate, exposed, update },
        buckets: reduced.traces.flatMap((trace) => (trace ? [timesOf(trace, startedAt)] : [])),
      };
    },
    bucketBytes: () => ddp.bucketBytes,
  };
}

function timesOf({ startedAt, hops }: OpTrace, since: number): BucketTimes {
  return { readyMs: startedAt - since, doneMs: Math.max(...hops.map(({ receivedAt }) => receivedAt ?? 0)) - since };
}
