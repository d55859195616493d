/** The layers of a `tf.Sequential`, or a list of layers, as layers of a pipeline. */
import * as tf from '@tensorflow/tfjs';
import { UsageError } from '../../util/errors.ts';
import { createRng, mixSeed } from '../../util/rng.ts';
import type { Tensor, Variable } from '../ddp/flatten.ts';
import type { LayerPass, PipelineLayer } from './pipelineLayer.ts';

type Shape = readonly (number | null)[];

/**
 * A chain of layers: a built `tf.Sequential`, or layers that have not been built, the first with an
 * `inputShape`. Layers of TensorFlow.js have no weights before they are built. So a list can
 * describe a model that does not fit into one tab.
 */
export type SequentialModel = tf.LayersModel | readonly tf.layers.Layer[];

/**
 * Returns the layers of a chain.
 *
 * @throws UsageError if the model is not a chain, if the first layer has no `inputShape`, or if a
 *   side of a shape is unknown.
 */
export function sequentialLayers(model: SequentialModel): PipelineLayer[] {
  const layers = layersOf(model).filter((layer) => layer.getClassName() !== 'InputLayer');
  const first = layersOf(model)[0];
  let shape: Shape | undefined = first?.batchInputShape;
  if (!first || !shape) {
    throw new UsageError('A pipeline needs the shape of its input. Give the first layer an inputShape.');
  }
  let dropoutPlaces = 0;
  return layers.map((layer, index) => {
    const input: Shape = shape!;
    const output = layer.computeOutputShape([...input]);
    if (!isShape(output)) {
      throw new UsageError(`The layer "${layer.name}" has several outputs. A pipeline needs a chain of layers.`);
    }
    if (output.slice(1).includes(null)) {
      throw new UsageError(
        `The layer "${layer.name}" has the output shape [${output.join(', ')}]. A pipeline needs shapes whose sides are known, ` +
          'except for the first.',
      );
    }
    shape = output;
    const place = layer.getClassName() === 'Dropout' ? dropoutPlaces++ : null;
    return new SequentialLayer(layer, index, input, output.slice(1) as number[], place);
  });
}

class SequentialLayer implements PipelineLayer {
  readonly name: string;
  readonly outputShape: readonly number[];
  readonly #layer: tf.layers.Layer;
  readonly #index: number;
  readonly #inputShape: Shape;
  /** Number of the layer among the model's dropout layers; `null` for other layers. */
  readonly #dropoutPlace: number | null;
  /** Whether this object created the layer's variables, and not a user's model. */
  #isBuiltHere = false;

  constructor(
    layer: tf.layers.Layer,
    index: number,
    inputShape: Shape,
    outputShape: readonly number[],
    dropoutPlace: number | null,
  ) {
    this.name = layer.name;
    this.outputShape = outputShape;
    this.#layer = layer;
    this.#index = index;
    this.#inputShape = inputShape;
    this.#dropoutPlace = dropoutPlace;
  }

  get size(): number {
    if (this.#layer.built) return this.#layer.countParams();
    // A layer cannot be built again after it was freed, so the weights of a copy are counted.
    const { constructor } = this.#layer;
    const copy = (constructor as typeof tf.layers.Layer & FromConfig).fromConfig(constructor, this.#layer.getConfig());
    copy.build([...this.#inputShape]);
    copy.built = true;
    const variables = variablesOf(copy);
    const size = variables.reduce((sum, variable) => sum + variable.size, 0);
    tf.dispose(variables);
    return size;
  }

  build(): readonly Variable[] {
    const layer = this.#layer;
    if (!layer.built) {
      layer.build([...this.#inputShape]);
      layer.built = true;
      this.#isBuiltHere = true;
    }
    return variablesOf(layer);
  }

  apply(x: Tensor, { training, mask, seed }: LayerPass): Tensor {
    if (this.#dropoutPlace === null) {
      return drawingFrom(mixSeed(seed, RANDOM, this.#index), () => this.#layer.apply(x, { training }) as Tensor);
    }
    if (!training) return x;
    if (mask) return x.mul(mask(this.#dropoutPlace)!);
    const rate = this.#layer.getConfig()['rate'] as number;
    return tf.dropout(x, rate, undefined, mixSeed(seed, this.#dropoutPlace));
  }

  dispose(): void {
    // A layer's own `dispose` fails if the layer belongs to no model.
    if (this.#isBuiltHere) tf.dispose(variablesOf(this.#layer));
  }
}

/** Distinguishes the random numbers of other layers from those of dropout layers. */
const RANDOM = 1;

/**
 * Computes a layer whose random numbers depend on `seed` only, so that they are the same when the
 * layer is computed again in the backward pass. TensorFlow.js draws all of them, or their seeds,
 * from `Math.random`, and does not let callers pass a generator.
 */
function drawingFrom<T>(seed: number, compute: () => T): T {
  const { random } = Math;
  const rng = createRng(seed);
  Math.random = () => rng.next();
  try {
    return compute();
  } finally {
    Math.random = random;
  }
}

interface FromConfig {
  fromConfig(constructor: unknown, config: tf.serialization.ConfigDict): tf.layers.Layer;
}

function layersOf(model: SequentialModel): readonly tf.layers.Layer[] {
  if (model instanceof tf.Sequential) return model.layers;
  if (!(model instanceof tf.LayersModel)) return model;
  throw new UsageError(`The model "${model.name}" is not a chain of layers. Pass a tf.Sequential or a list of layers.`);
}

function isShape(shape: tf.Shape | tf.Shape[]): shape is tf.Shape {
  return !Array.isArray(shape[0]);
}

function variablesOf(layer: tf.layers.Layer): Variable[] {
  return [...new Set(layer.weights.map((weight) => weight.read() as Variable))];
}
