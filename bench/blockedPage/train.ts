/** Trains a small model with the library, on a page or in a worker. */
import * as tf from '@tensorflow/tfjs';
import '@tensorflow/tfjs-backend-webgpu';
import {
  createOptimizer,
  destroyProcessGroup,
  DistributedDataParallel,
  initProcessGroup,
  openDevice,
  ReduceOp,
} from '../../src/index.ts';

export interface Training {
  room: string;
  /** Duration of the measurement. */
  seconds: number;
}

const BATCH_SIZE = 32;
const INPUTS = 784;
const HIDDEN_UNITS = 64;
const CLASSES = 10;
/** The GPU's programs are compiled in the first steps. */
const WARM_UP_STEPS = 10;

/**
 * Resolves with this rank's steps per second. All ranks take the same number of steps.
 *
 * @param onready called when the measurement begins.
 */
export async function train({ room, seconds }: Training, onready: () => void): Promise<number> {
  await openDevice();
  const group = await initProcessGroup({ server: location.origin, room, transport: 'webrtc' });
  const model = tf.sequential({
    layers: [
      tf.layers.dense({ units: HIDDEN_UNITS, activation: 'relu', inputShape: [INPUTS] }),
      tf.layers.dense({ units: CLASSES }),
    ],
  });
  const xs = tf.randomNormal<tf.Rank.R2>([BATCH_SIZE, INPUTS]);
  const labels = Array.from({ length: BATCH_SIZE }, (_, i) => i % CLASSES);
  const ys = tf.oneHot(labels, CLASSES, 1, 0, 'float32');
  const ddp = await DistributedDataParallel.create(model, group);
  const optimizer = createOptimizer('adam', { learningRate: 0.001 }, ddp.layout.size);
  const loss = () => tf.losses.softmaxCrossEntropy(ys, model.apply(xs) as tf.Tensor).asScalar();
  const step = async (): Promise<void> => {
    await ddp.backward(loss, { samples: BATCH_SIZE });
    ddp.step(optimizer);
  };
  for (let i = 0; i < WARM_UP_STEPS; i++) await step();
  onready();
  const startedAt = performance.now();
  let steps = 0;
  for (let isOver = 0; !isOver; steps++) {
    await step();
    // The ranks begin at different times, and stop together.
    const isLate = performance.now() - startedAt >= seconds * 1000;
    [isOver = 0] = await group.allReduce(Int32Array.of(Number(isLate)), { op: ReduceOp.MAX });
  }
  const stepsPerSecond = (steps * 1000) / (performance.now() - startedAt);
  await destroyProcessGroup(group);
  ddp.dispose();
  model.dispose();
  tf.dispose([xs, ys]);
  return stepsPerSecond;
}
