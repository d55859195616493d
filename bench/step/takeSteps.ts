/**
 * Runs in a rank's worker: trains a model with DistributedDataParallel with several bucket sizes in
 * turn, and measures the steps.
 */
import * as tf from '@tensorflow/tfjs';
import { openAppDevice } from '../../src/engine/device/appDevice.ts';
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { crossEntropySum } from '../../src/gpu/kernels/crossEntropy.ts';
import { createOptimizer } from '../../src/optim/index.ts';
import { DistributedDataParallel } from '../../src/parallel/ddp/distributedDataParallel.ts';
import type { DistributedDataParallelOptions } from '../../src/parallel/ddp/options.ts';
import type { StepTimes } from '../../src/protocol/stepTrace.ts';
import { systemClock } from '../../src/util/clock.ts';
import { createRng } from '../../src/util/rng.ts';
import { mediansOfFields } from '../../src/util/statistics.ts';
import type { WorkerRank } from '../world/rank.ts';

type BucketSizes = Pick<DistributedDataParallelOptions, 'firstBucketBytes' | 'bucketCapBytes'>;

interface StepArgs {
  /** Samples of this rank in a step. */
  batch: number;
  /** Loops, which are measured in turn. Each has its own model. */
  sizes: readonly BucketSizes[];
}

/** Medians of the steps with buckets of one size. */
export interface StepsOfSize {
  /** Number of buckets. */
  buckets: number;
  /** Parts of the step time. */
  ms: StepTimes;
}

export interface StepResult {
  adapter: string;
  parameters: number;
  /** In the order of `StepArgs.sizes`. */
  bySize: StepsOfSize[];
}

const LEARNING_RATE = 0.001;
/** Shape of a sample, which is that of a USPS digit. */
const INPUT_SHAPE = [16, 16, 1];
const CLASSES = 10;
/** Equal layers, all with as many inputs as units. Their parameters have 2 MB. */
const LAYERS = 8;
const UNITS = 256;
/**
 * Shaders are compiled in the first step. From the second step on, buckets have their final order.
 */
const WARM_UP_STEPS = 2;
/** Enough steps for medians. Without a GPU they take one or two minutes. */
const TURNS = 3;
const STEPS = 2;

export async function takeSteps({ group }: WorkerRank, { batch, sizes }: StepArgs): Promise<StepResult> {
  const { device } = await openAppDevice(systemClock, 'own');
  const rng = createRng(group.rank + 1);
  const size = INPUT_SHAPE.reduce((product, side) => product * side, batch);
  const pixels = Float32Array.from({ length: size }, () => rng.next());
  const labels = Int32Array.from({ length: batch }, () => rng.below(CLASSES));
  const ones = new Float32Array(batch).fill(1);

  const loops: Awaited<ReturnType<typeof ddpLoop>>[] = [];
  for (const one of sizes) loops.push(await ddpLoop(batch, group, one));
  const taken: StepTimes[][] = sizes.map(() => []);
  // Turn -1 is a warm-up.
  for (let turn = -1; turn < TURNS; turn++) {
    for (const [i, loop] of loops.entries()) {
      for (let step = 0; step < (turn < 0 ? WARM_UP_STEPS : STEPS); step++) {
        const startedAt = performance.now();
        // Each batch is created from arrays on the CPU, as in a training run.
        const inputs = tf.tensor(pixels, [batch, ...INPUT_SHAPE]);
        const targets = tf.tensor1d(labels, 'int32');
        const weights = tf.tensor1d(ones);
        const ms = await loop.step((model) =>
          crossEntropySum(model.apply(inputs, { training: true }) as tf.Tensor2D, targets, weights),
        );
        tf.dispose([inputs, targets, weights]);
        if (turn >= 0) taken[i]!.push({ ...ms, total: performance.now() - startedAt });
      }
    }
  }
  const { adapter } = device;
  const bySize = loops.map(({ ddp }, i) => ({ buckets: ddp.bucketBytes.length, ms: mediansOfFields(taken[i]!) }));
  return { adapter, parameters: loops[0]!.parameters, bySize };
}

async function ddpLoop(batch: number, group: ProcessGroup, sizes: BucketSizes) {
  const model = deepModel();
  const variables = model.trainableWeights.map((weight) => weight.read() as tf.Variable);
  const ddp = await DistributedDataParallel.create(variables, group, { ...sizes, keepGradients: true });
  const optimizer = createOptimizer('adam', { learningRate: LEARNING_RATE }, ddp.layout.size);
  return {
    ddp,
    parameters: model.countParams(),
    /** Takes one training step. */
    async step(lossOf: (model: tf.Sequential) => tf.Scalar): Promise<Omit<StepTimes, 'total'>> {
      const reduced = await ddp.backward(() => lossOf(model), { samples: batch, reduction: 'sum' });
      const reducedAt = performance.now();
      ddp.step(optimizer);
      const { compute, readback, communicate, exposed } = reduced;
      return { data: 0, compute, readback, communicate, exposed, update: performance.now() - reducedAt };
    },
  };
}

/** Creates a model that is large enough for several buckets. */
function deepModel(): tf.Sequential {
  const initializer = tf.initializers.glorotUniform({ seed: 1 });
  return tf.sequential({
    layers: [
      tf.layers.flatten({ inputShape: INPUT_SHAPE }),
      ...Array.from({ length: LAYERS }, () =>
        tf.layers.dense({ units: UNITS, activation: 'relu', kernelInitializer: initializer }),
      ),
      tf.layers.dense({ units: CLASSES, kernelInitializer: initializer }),
    ],
  });
}
