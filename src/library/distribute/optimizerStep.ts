/** Applies the averaged gradient with the optimizer of `compile`. */
import * as tf from '@tensorflow/tfjs';
import type { DistributedDataParallel } from '../../parallel/ddp/distributedDataParallel.ts';
import { optimizerSettingsOf } from '../../parallel/flat/optimizerOf.ts';
import type { SharedArguments } from './agreement.ts';

/** Returns the class and the settings of an optimizer. They must be the same on every rank. */
export function describeOptimizer(optimizer: tf.Optimizer): SharedArguments {
  const settings = Object.entries(optimizerSettingsOf(optimizer)).map(
    ([name, value]) => [`the optimizer's ${name}`, typeof value === 'object' ? JSON.stringify(value) : value] as const,
  );
  return { 'the optimizer': optimizer.getClassName(), ...(Object.fromEntries(settings) as SharedArguments) };
}

/** Returns the learning rate as a number; `null` if the optimizer has none. */
export function learningRateOf(optimizer: tf.Optimizer): number | null {
  const rate = Number(optimizerSettingsOf(optimizer)['learningRate']);
  return Number.isNaN(rate) ? null : rate;
}

/**
 * Updates the parameters. TensorFlow.js's seven optimizers run on every rank, with equal bits. A
 * custom optimizer computes on the device. Because devices round differently, only rank 0 runs it,
 * and then broadcasts all parameters.
 *
 * @param runsFlat whether every rank runs the optimizer; see `canRunOptimizerFlat`.
 */
export async function applyGradientOnAllRanks(
  ddp: DistributedDataParallel,
  optimizer: tf.Optimizer,
  parameters: readonly tf.Variable[],
  runsFlat: boolean,
): Promise<void> {
  if (runsFlat) {
    ddp.step(optimizer);
    return;
  }
  const { group } = ddp;
  if (group.rank === 0) {
    const gradients = parameters.map(({ name, shape }) => ({
      name,
      // The array is copied, because the next step overwrites the gradient.
      tensor: tf.tensor(ddp.gradientOf(name).slice(), shape, 'float32'),
    }));
    try {
      optimizer.applyGradients(gradients);
    } finally {
      tf.dispose(gradients.map(({ tensor }) => tensor));
    }
  }
  await ddp.broadcastParameters(group.ranks[0]!);
}
