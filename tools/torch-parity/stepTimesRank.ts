/** The thread of a rank in `stepTimes.ts`: trains and posts the times of its steps. */
import { parentPort, workerData } from 'node:worker_threads';
import path from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { setWasmPaths } from '@tensorflow/tfjs-backend-wasm';
import { Mesh } from '../../src/collectives/mesh.ts';
import { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { switchToWasmBackend } from '../../src/engine/device/wasmBackend.ts';
import { createOptimizer } from '../../src/optim/index.ts';
import { variablesOf } from '../../src/parallel/backward/flatten.ts';
import { declarePassInputs, PassCaptures } from '../../src/parallel/backward/passCaptures.ts';
import { DistributedDataParallel } from '../../src/parallel/ddp/distributedDataParallel.ts';
import type { StepTimes } from '../../src/protocol/stepTrace.ts';
import { createPortLink } from '../../src/transport/portLink.ts';
import { WORKLOAD, type RankData } from './stepTimes.ts';

const { rank, port } = workerData as RankData;
const { sizes, worldSize, batch, warmUpSteps, steps } = WORKLOAD;
const [inputs, hidden, classes] = sizes;

setWasmPaths(`${path.resolve(import.meta.dirname, '../../node_modules/@tensorflow/tfjs-backend-wasm/dist')}/`);
await switchToWasmBackend();

const links = new Map([[1 - rank, createPortLink(port)]]);
const group = new ProcessGroup(new Mesh({ rank, worldSize, generation: 1, links }));
const model = tf.sequential({
  layers: [
    tf.layers.dense({ units: hidden, inputShape: [inputs], activation: 'relu' }),
    tf.layers.dense({ units: classes }),
  ],
});
const xs = tf.randomNormal([batch, inputs]);
const ys = tf.oneHot(
  Array.from({ length: batch }, (_, i) => i % classes),
  classes,
);
const ddp = await DistributedDataParallel.create(model, group);
const optimizer = createOptimizer('momentum', { learningRate: 0.01, momentum: 0.9 }, ddp.layout.size);
// As in a run, passes are recorded in the first steps and then replayed.
const captures = PassCaptures.of(variablesOf(model), (reason) => {
  throw new Error(reason);
});
const loss = (): tf.Scalar => tf.losses.softmaxCrossEntropy(ys, model.apply(xs) as tf.Tensor).asScalar();
const pass = declarePassInputs([xs, ys], loss);
const times: StepTimes[] = [];
for (let step = -warmUpSteps; step < steps; step++) {
  const startedAt = performance.now();
  const { compute, readback, communicate, exposed } = await ddp.backward(pass, { samples: batch, captures });
  const reducedAt = performance.now();
  ddp.step(optimizer);
  const now = performance.now();
  const total = now - startedAt;
  if (step >= 0) times.push({ total, data: 0, compute, readback, communicate, exposed, update: now - reducedAt });
}
await group.barrier();
parentPort!.postMessage(times);
