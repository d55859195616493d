/** Describes a model, and rebuilds it on a replica. */
import * as tf from '@tensorflow/tfjs';
import type { Model } from '../../parallel/backward/flatten.ts';
import { errorReasonOf, UsageError } from '../../util/errors.ts';

export interface ReplicaModelDescription {
  topology: string;
  /**
   * The flag `trainable` of each layer. The topology does not contain the flags of layers in nested
   * models.
   */
  trainable: boolean[];
  /** Names and shapes of parameters and buffers, in the order in which they are sent. */
  weights: string[];
}

type Topology = Parameters<typeof tf.models.modelFromJSON>[0];

/**
 * A layer. It has inner layers (`layers`) if it is a nested model, and one inner layer (`layer`) if
 * it is a wrapper.
 */
type Layer = tf.layers.Layer & { layers?: Layer[]; layer?: Layer };

export function describeReplicaModel(model: Model): ReplicaModelDescription {
  return {
    topology: JSON.stringify(model.toJSON(null, false)),
    trainable: layersIn(model).map(({ trainable }) => trainable),
    weights: weightsOf(model),
  };
}

/**
 * @throws (rejects) UsageError if the model cannot be rebuilt, or the rebuilt model has different
 * weights.
 */
export async function rebuildReplicaModel({ topology, trainable, weights }: ReplicaModelDescription): Promise<Model> {
  const model = await parse(topology);
  // The flag of a nested model is set before the flags of its inner layers, because it changes the
  // flags of their weights, too.
  for (const [i, layer] of layersIn(model).entries()) layer.trainable = trainable[i] ?? true;
  const own = weightsOf(model);
  if (own.length === weights.length && own.every((weight, i) => weight === weights[i])) return model;
  const at = weights.findIndex((weight, i) => weight !== own[i]);
  model.dispose();
  throw new UsageError(
    `The model that a worker builds from the topology has different weights: ${own[at] ?? 'nothing'} instead of ${weights[at] ?? 'nothing'}. ` +
      'Set `trainable` of layers, not of weights, and use only layers of TensorFlow.js.',
  );
}

async function parse(topology: string): Promise<Model> {
  try {
    return await tf.models.modelFromJSON(JSON.parse(topology) as Topology);
  } catch (error) {
    throw new UsageError(
      `The model cannot be rebuilt from its topology (${errorReasonOf(error)}). A worker has TensorFlow.js's own layers only.`,
    );
  }
}

function layersIn(layer: Layer): Layer[] {
  const inner = [...(layer.layers ?? []), ...(layer.layer ? [layer.layer] : [])];
  return [layer, ...inner.flatMap(layersIn)];
}

function weightsOf({ trainableWeights, nonTrainableWeights }: Model): string[] {
  return [...trainableWeights, ...nonTrainableWeights].map(
    ({ originalName, shape }) => `${originalName} [${shape.join(', ')}]`,
  );
}
