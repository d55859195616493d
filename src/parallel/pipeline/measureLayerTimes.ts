/** Measures the time of layers on this rank, one layer at a time. */
import * as tf from '@tensorflow/tfjs';
import type { Clock } from '../../util/clock.ts';
import type { Tensor } from '../backward/flatten.ts';
import { differentiateTape, disposeTape } from '../backward/tape.ts';
import { trainedVariables, type PipelineLayer } from './pipelineLayer.ts';
import { recordLayerPass } from './recordLayerPass.ts';

/** Number of runs of each layer. The last run counts, because the first run compiles shaders. */
const RUNS = 2;

/**
 * Returns the milliseconds of a forward and a backward pass of each layer. Only one layer has
 * memory on the device at a time.
 *
 * @param input a micro-batch, or a part of it, for the first layer.
 */
export async function measureLayerTimes(
  layers: readonly PipelineLayer[],
  input: Tensor,
  clock: Clock,
): Promise<number[]> {
  const times: number[] = [];
  let x = input.clone();
  try {
    for (const [i, layer] of layers.entries()) {
      const variables = trainedVariables(layer, layer.build());
      try {
        let ms = 0;
        for (let run = 0; run < RUNS; run++) {
          const startedAt = clock.now();
          await differentiate(layer, x, i === 0 ? variables : [...variables, x]);
          ms = clock.now() - startedAt;
        }
        times.push(ms);
      } finally {
        layer.dispose();
      }
      x.dispose();
      x = tf.zeros([input.shape[0] ?? 1, ...layer.outputShape]);
    }
    return times;
  } finally {
    x.dispose();
  }
}

async function differentiate(layer: PipelineLayer, x: Tensor, xs: readonly Tensor[]): Promise<void> {
  const pass = { training: true, mask: () => undefined, seed: 0 };
  const { y, tape } = recordLayerPass(layer, x, pass);
  const dy = tf.onesLike(y);
  const gradients = xs.length > 0 ? differentiateTape(tape, [{ tensor: y, gradient: dy }], xs) : [];
  disposeTape(tape);
  // The results are read, so that the measured time includes their computation on the device.
  await Promise.all([y, ...gradients].flatMap((tensor) => tensor?.data() ?? []));
  tf.dispose([y, dy, ...gradients.flatMap((gradient) => gradient ?? [])]);
}
