/** The layers of the language model, with the memory that a forward pass keeps on this backend. */
import * as tf from '@tensorflow/tfjs';
import { networkLayers } from '../../src/jobs/index.ts';
import { disposeTape } from '../../src/parallel/backward/tape.ts';
import { recordLayer } from '../../src/parallel/pipeline/recordLayer.ts';
import type { ChainLayer } from './memory.ts';

/**
 * Records each layer for a micro-batch of `rows` samples, and counts the bytes of new tensors. Only
 * one layer has variables at a time.
 *
 * @param dropout whether outputs are multiplied with a mask.
 */
export function chainLayers(size: Parameters<typeof networkLayers>[0], rows: number, dropout: boolean): ChainLayer[] {
  const mask = dropout ? tf.ones([rows, 1, size.width]) : undefined;
  let x: tf.Tensor = tf.zeros([rows, size.context], 'int32');
  try {
    return networkLayers(size, 0).map((layer) => {
      layer.build();
      const before = tf.memory().numBytes;
      const { y, tape } = recordLayer(layer, x, { training: true, mask: () => mask, seed: 0 });
      const keptBytes = tf.memory().numBytes - before;
      disposeTape(tape);
      layer.dispose();
      x.dispose();
      x = y;
      return { name: layer.name, weights: layer.size, keptBytes };
    });
  } finally {
    tf.dispose([x, mask ?? []]);
  }
}
