/** The worker's program: it trains, or uses a group until the group fails. */
import * as tf from '@tensorflow/tfjs';
import '@tensorflow/tfjs-backend-webgpu';
import type { WebGPUBackend } from '@tensorflow/tfjs-backend-webgpu';
import {
  createOptimizer,
  destroyProcessGroup,
  DistributedDataParallel,
  initProcessGroup,
  openDevice,
  type ProcessGroup,
} from '../../../src/index.ts';

export interface ProgramTask {
  /**
   * `use`: all-reduces until the group fails. `lose`: the same, and the GPU is lost. `block`:
   * computes for `seconds` without a pause, between two collectives.
   */
  do: 'train' | 'use' | 'lose' | 'block';
  room: string;
  seconds?: number;
}

export type FromProgram =
  | { type: 'joined' }
  /** `sum`: of the second all-reduce. */
  | { type: 'computed'; sum: number }
  | { type: 'trained'; parameters: number[]; route: string | undefined; sum: number }
  /** The group failed. `sum`: of nine ones, on the GPU after it was opened again. */
  | { type: 'failed'; error: string; sum: number | null }
  | { type: 'rejected'; error: string };

const post = (message: FromProgram): void => globalThis.postMessage(message);

async function train(group: ProcessGroup): Promise<FromProgram> {
  const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [1] })] });
  const ddp = await DistributedDataParallel.create(model, group);
  const optimizer = createOptimizer('adam', { learningRate: 0.3 }, ddp.layout.size);
  const xs = tf.tensor2d([-2, -1, 0, 1].map((x) => [x + group.rank]));
  const ys = xs.mul(3).sub(2);
  for (let step = 0; step < 60; step++) {
    const squaredError = (): tf.Scalar => tf.losses.meanSquaredError(ys, model.apply(xs) as tf.Tensor).asScalar();
    await ddp.backward(squaredError, { samples: 4 });
    ddp.step(optimizer);
  }
  const route = (await group.describeLink(1 - group.rank))?.route;
  await destroyProcessGroup(group);
  return { type: 'trained', parameters: Array.from(ddp.parameters), route, sum: await sumOfNine() };
}

async function block(group: ProcessGroup, seconds: number): Promise<FromProgram> {
  await group.barrier();
  const end = performance.now() + seconds * 1000;
  while (performance.now() < end);
  const [sum] = await group.allReduce(Float32Array.of(1));
  await destroyProcessGroup(group);
  return { type: 'computed', sum: sum! };
}

async function useUntilFailure(group: ProcessGroup, losesDevice: boolean): Promise<FromProgram> {
  for (let round = 0; group.failure === null; round++) {
    if (losesDevice && round === 5) (tf.backend() as WebGPUBackend).device.destroy();
    await Promise.resolve(group.allReduce(Float32Array.of(1))).catch(() => {});
  }
  if (!losesDevice) return { type: 'failed', error: String(group.failure), sum: null };
  await openDevice();
  return { type: 'failed', error: String(group.failure), sum: await sumOfNine() };
}

/** Adds nine tensors. With the default limits of WebGPU, TensorFlow.js's result is wrong. */
async function sumOfNine(): Promise<number> {
  const [sum] = await tf.addN(Array.from({ length: 9 }, () => tf.ones([4]))).data();
  return sum!;
}

async function run({ do: what, room, seconds = 0 }: ProgramTask): Promise<FromProgram> {
  const group = await initProcessGroup({ server: location.origin, room, transport: 'webrtc' });
  post({ type: 'joined' });
  if (what === 'block') return block(group, seconds);
  return what === 'train' ? train(group) : useUntilFailure(group, what === 'lose');
}

globalThis.onmessage = ({ data }: MessageEvent<ProgramTask>) => {
  run(data).then(post, (error: unknown) => post({ type: 'rejected', error: String(error) }));
};
