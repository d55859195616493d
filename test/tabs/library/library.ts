/**
 * A page for tests that uses the library like a user's page: it trains like the example of the
 * README, and creates and destroys process groups.
 */
import * as tf from '@tensorflow/tfjs';
import '@tensorflow/tfjs-backend-webgpu';
import '../../../src/element.ts';
import {
  createOptimizer,
  destroyProcessGroup,
  DistributedDataParallel,
  initProcessGroup,
  Trainer,
  type InitProcessGroupOptions,
  type ProcessGroup,
} from '../../../src/index.ts';

export type Wishes = Pick<InitProcessGroupOptions, 'rank' | 'room' | 'worldSize'>;

/** The rank and sizes of a group, and the all-reduced sum of rank + 1. */
type GroupReport = Pick<ProcessGroup, 'rank' | 'worldSize' | 'localRank' | 'localWorldSize'> & { sum: number };

declare global {
  interface Window {
    /**
     * Opens a room (or joins `room`), trains a line through this rank's points, and resolves with
     * the trained line.
     */
    train: (room: string | null) => Promise<{
      rank: number;
      worldSize: number;
      parameters: number[];
      model: number[];
      buckets: number;
      losses: number[];
      /** How the link to the other rank sends data; `undefined` if there is no such link. */
      route: string | undefined;
    }>;
    /**
     * Creates and destroys a group `times` times. The tab that opens the room passes the room's
     * code to `onroom`.
     */
    cycle: (wishes: Wishes, times: number) => Promise<GroupReport[]>;
    /**
     * Creates a second group while the first one exists, uses both at the same time, and destroys
     * both.
     */
    two: (first: Wishes, second: Wishes) => Promise<GroupReport[]>;
    /**
     * Trains a model with Trainer in two tabs, `times` times. Resolves with the weights at the end,
     * and the losses of the final training run.
     */
    fit: (times: number) => Promise<{ weights: number[]; losses: number[] }>;
    onroom: (room: string) => void;
  }
}

function init(wishes: Wishes): Promise<ProcessGroup> {
  return initProcessGroup({
    server: location.origin,
    ...wishes,
    onroom: (room) => {
      if (wishes.room === undefined) window.onroom(room);
    },
  });
}

async function use(group: ProcessGroup): Promise<GroupReport> {
  const { rank, worldSize, localRank, localWorldSize } = group;
  const [sum] = await group.allReduce(Float32Array.of(rank + 1));
  return { rank, worldSize, localRank, localWorldSize, sum: sum! };
}

window.cycle = async (wishes, times) => {
  await tf.setBackend('cpu');
  const reports: GroupReport[] = [];
  while (reports.length < times) {
    const group = await init(wishes);
    reports.push(await use(group));
    await destroyProcessGroup(group);
  }
  return reports;
};

window.fit = async (times) => {
  await tf.setBackend('webgpu');
  // A random initial kernel may be too far from the solution for so few steps.
  const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [1], kernelInitializer: 'zeros' })] });
  const xs = tf.linspace(-1, 1, 32).expandDims<tf.Tensor2D>(1);
  const samples = { xs, ys: xs.mul(3).sub(2) };
  const trainer = new Trainer({ tabs: 2, epochs: 20, batchSize: 8, learningRate: 0.1 });
  let losses: number[] = [];
  for (let i = 0; i < times; i++) ({ losses } = await trainer.fit(model, samples, { loss: 'meanSquaredError' }));
  const weights = await Promise.all(model.getWeights().map(async (weight) => (await weight.data())[0]!));
  return { weights, losses };
};

window.two = async (first, second) => {
  await tf.setBackend('cpu');
  const groups = [await init(first), await init(second)];
  const reports = await Promise.all(groups.map(use));
  for (const group of groups) await destroyProcessGroup(group);
  return reports;
};

window.train = async (room) => {
  await tf.setBackend('webgpu');
  const group = await initProcessGroup({
    server: location.origin,
    ...(room === null ? { worldSize: 2, onroom: window.onroom } : { room }),
  });
  const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [1] })] });
  // Each of the two parameters has its own bucket, so that several all-reduces are in flight.
  const ddp = await DistributedDataParallel.create(model, group, { firstBucketBytes: 4, bucketCapBytes: 4 });
  const optimizer = createOptimizer('adam', { learningRate: 0.3 }, ddp.layout.size);
  // The samples are points of y = 3x - 2. Each rank has different x.
  const xs = tf.tensor2d([-2, -1, 0, 1].map((x) => [x + group.rank]));
  const ys = xs.mul(3).sub(2);
  const losses: number[] = [];
  for (let step = 0; step < 120; step++) {
    const squaredError = (): tf.Scalar => tf.losses.meanSquaredError(ys, model.apply(xs) as tf.Tensor).asScalar();
    losses.push((await ddp.backward(squaredError, { samples: 4 })).loss);
    ddp.step(optimizer);
  }
  const parameters = Array.from(ddp.parameters);
  const inModel = await Promise.all(model.getWeights().map(async (weight) => (await weight.data())[0]!));
  const { rank, worldSize } = group;
  const route = (await group.describeLink(1 - rank))?.route;
  await destroyProcessGroup(group);
  return { rank, worldSize, parameters, model: inModel, buckets: ddp.layout.buckets.length, losses, route };
};
