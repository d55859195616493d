/**
 * Sharded optimizers against whole ones. Ranks train with DistributedDataParallel, the ring and
 * data of their own.
 */
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { createOptimizer, type OptimizerName } from '../../src/optim/index.ts';
import type { PipelineTask } from '../../src/engine/pipeline/pipelineTask.ts';
import { DistributedDataParallel } from '../../src/parallel/ddp/distributedDataParallel.ts';
import type { Tensor, Scalar } from '../../src/parallel/backward/flatten.ts';
import { ZeroRedundancyOptimizer } from '../../src/parallel/zero/zeroRedundancyOptimizer.ts';
import { runWorld } from '../../src/testing/index.ts';
import { hashState } from '../../src/util/hash.ts';
import { theoryBytes } from '../allreduce.ts';
import { jobOf, type BenchModel } from './jobs.ts';
import { pipelineTaskOf } from './trainInProcess.ts';

export const OPTIMIZERS = ['sgd', 'momentum', 'adam', 'adamw'] as const satisfies readonly OptimizerName[];
export const SHARDING_STEPS = 6;
const LEARNING_RATE = 0.01;
/** Samples of a rank and step. */
const BATCH = 4;

export interface ShardingRow {
  model: BenchModel;
  optimizer: OptimizerName;
  ranks: number;
  /** Whether all ranks have the losses and the bits of the parameters of whole optimizers. */
  isEqual: boolean;
  /** Bytes that a rank sends in a step, and 2K(n - 1)/n. */
  bytes: number;
  theory: number;
  /** The largest shard of the averages, by the whole; `null` if the optimizer has none. */
  averages: number | null;
}

interface Trained {
  losses: number[];
  parameters: string;
  parameterBytes: number;
  bytesPerStep: number;
  averageBytes: number;
}

/** Trains with whole optimizers, then with shards, and compares both. */
export async function compareSharded(model: BenchModel, optimizer: OptimizerName, ranks: number): Promise<ShardingRow> {
  const task = await pipelineTaskOf(jobOf(model, {}));
  const train = (isSharded: boolean): Promise<Trained[]> =>
    runWorld(ranks, (group) => trainRank(group, task, optimizer, isSharded));
  const whole = await train(false);
  const sharded = await train(true);
  const [expected] = whole;
  const isEqual = [...whole, ...sharded].every(
    ({ losses, parameters }) =>
      parameters === expected!.parameters && losses.every((loss, step) => Object.is(loss, expected!.losses[step])),
  );
  const largest = Math.max(...sharded.map(({ averageBytes }) => averageBytes));
  return {
    model,
    optimizer,
    ranks,
    isEqual,
    bytes: Math.max(...sharded.map(({ bytesPerStep }) => bytesPerStep)),
    theory: theoryBytes(ranks, expected!.parameterBytes),
    averages: expected!.averageBytes === 0 ? null : largest / expected!.averageBytes,
  };
}

async function trainRank(
  group: ProcessGroup,
  task: PipelineTask,
  name: OptimizerName,
  isSharded: boolean,
): Promise<Trained> {
  group.algorithm = 'ring';
  const model = task.createModel();
  const pass = { training: true, mask: null, seed: 0 };
  const variables = model.layers.flatMap((layer) => layer.build());
  const ddp = await DistributedDataParallel.create(variables, group);
  const create = (size: number) => createOptimizer(name, { learningRate: LEARNING_RATE }, size);
  const zero = isSharded ? new ZeroRedundancyOptimizer(ddp, create) : null;
  const whole = isSharded ? null : create(ddp.parameters.length);
  const losses: number[] = [];
  let bytes = 0;
  try {
    for (let step = 0; step < SHARDING_STEPS; step++) {
      const first = BATCH * (step * group.worldSize + group.rank);
      const batch = await task.load(
        Uint32Array.from({ length: BATCH }, (_, i) => first + i),
        BATCH,
        step,
      );
      const lossOf = (): Scalar => {
        const output = model.layers.reduce<Tensor>((x, layer) => layer.apply(x, pass), batch.inputs);
        const parts = batch.losses(model.outputWeights).map((loss) => loss(output));
        return parts.reduce((sum, part) => sum.add<Scalar>(part));
      };
      const before = group.bytesSent;
      const { loss } = await ddp.backward(lossOf, { samples: BATCH, reduction: 'sum' });
      if (zero) await zero.step();
      else ddp.step(whole!);
      // Ranks agree on the layout of the parameters in the first step.
      if (step > 0) bytes += group.bytesSent - before;
      losses.push(loss);
      batch.inputs.dispose();
      batch.dispose();
    }
    const { slots } = (zero?.localOptimizer ?? whole!).state();
    return {
      losses,
      parameters: hashState([ddp.parameters]),
      parameterBytes: ddp.parameters.byteLength,
      bytesPerStep: bytes / (SHARDING_STEPS - 1),
      averageBytes: slots.reduce((sum, { byteLength }) => sum + byteLength, 0),
    };
  } finally {
    ddp.dispose();
    for (const layer of model.layers) layer.dispose();
  }
}
