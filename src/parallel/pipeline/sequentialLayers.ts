/**
 * The layers of a `tf.Sequential`, or a list of layers, as layers of a pipeline. Their properties
 * mean the same as in `tf.Sequential`: frozen layers, masks, regularizers, noise shapes and seeds,
 * weights that are passed to a layer. A property that would mean something else with micro-batches
 * is rejected.
 */
import * as tf from '@tensorflow/tfjs';
import { UsageError } from '../../util/errors.ts';
import { createRng, mixSeed } from '../../util/rng.ts';
import type { Scalar, Tensor, Variable } from '../backward/flatten.ts';
import type { LayerPass, PipelineLayer } from './pipelineLayer.ts';

type Shape = readonly (number | null)[];

/** The padding mask between two layers, as TensorFlow.js's `execute` passes it on. */
interface PaddingTrace {
  /** Shape for one sample. */
  shape: readonly number[];
  /**
   * Whether the mask is that of the previous layer's output. If the previous layer does not support
   * masks, the next layers still receive the mask of an earlier layer, but do not pass it on.
   */
  isCurrent: boolean;
}

/**
 * A chain of layers: a built `tf.Sequential`, or a list of layers that have not been built. The
 * first layer of a list needs an `inputShape`. Layers of TensorFlow.js have no weights before they
 * are built. So a list can describe a model that does not fit in one tab.
 */
export type SequentialModel = tf.LayersModel | readonly tf.layers.Layer[];

/**
 * Returns the layers of a chain.
 *
 * @throws UsageError if the model is not a chain, if the first layer has no `inputShape`, if a
 *   dimension of a shape is unknown, or if a layer has a property that a pipeline cannot honour.
 */
export function sequentialLayers(model: SequentialModel): PipelineLayer[] {
  const layers = layersOf(model).filter((layer) => layer.getClassName() !== 'InputLayer');
  const first = layersOf(model)[0];
  // A nested model is built here, because `computeOutputShape` needs it. Its layers were built when
  // it was created. A nested model has no `batchInputShape`, so its inputs give the shape.
  for (const layer of layers) if (layer instanceof tf.Sequential && !layer.built) layer.build();
  let shape: Shape | undefined = first instanceof tf.LayersModel ? first.inputs[0]?.shape : first?.batchInputShape;
  if (!first || !shape) {
    throw new UsageError('A pipeline needs the shape of its input. Give the first layer an inputShape.');
  }
  let dropoutPlaces = 0;
  let padding: PaddingTrace | null = null;
  const isFrozen = (): boolean => model instanceof tf.LayersModel && !model.trainable;
  return layers.map((layer, index) => {
    checkProperties(layer);
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
    const before: PaddingTrace | null = padding;
    const after = tracePadding(layer, input, before);
    padding = after;
    return new SequentialLayer(layer, {
      index,
      input,
      outputShape: output.slice(1) as number[],
      paddingShape: after?.shape ?? null,
      isPaddingCurrent: before?.isCurrent ?? false,
      place,
      isFrozen,
    });
  });
}

interface LayerPosition {
  /** Index of the layer in the model. */
  index: number;
  input: Shape;
  outputShape: readonly number[];
  paddingShape: readonly number[] | null;
  /** `isCurrent` of the layer's input; see {@link PaddingTrace}. */
  isPaddingCurrent: boolean;
  /** Number of the layer among the model's dropout layers; `null` for other layers. */
  place: number | null;
  isFrozen: () => boolean;
}

class SequentialLayer implements PipelineLayer {
  readonly name: string;
  readonly outputShape: readonly number[];
  readonly paddingShape: readonly number[] | null;
  readonly #layer: tf.layers.Layer;
  readonly #place: LayerPosition;
  readonly #inputShape: Shape;
  /** Whether this object created the layer's variables. If not, a user's model created them. */
  #isBuiltHere = false;

  constructor(layer: tf.layers.Layer, place: LayerPosition) {
    this.name = layer.name;
    this.outputShape = place.outputShape;
    this.paddingShape = place.paddingShape;
    this.#layer = layer;
    this.#place = place;
    // A fixed batch size of the layer is ignored, because micro-batches have different sizes.
    this.#inputShape = [null, ...place.input.slice(1)];
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
      // The weights that were passed to the layer.
      if (layer.initialWeights) layer.setWeights(layer.initialWeights);
      this.#isBuiltHere = true;
    }
    return variablesOf(layer);
  }

  trained(): readonly Variable[] {
    if (this.#place.isFrozen()) return [];
    return this.#layer.trainableWeights.map((weight) => weight.read() as Variable);
  }

  apply(x: Tensor, { training, mask, seed }: LayerPass, padding: Tensor | null): Tensor {
    const { place, index } = this.#place;
    if (place === null) {
      const options = padding ? { training, mask: padding } : { training };
      const y = drawingFrom(mixSeed(seed, RANDOM, index), () => this.#layer.apply(x, options) as Tensor);
      this.#checkShape(y);
      return y;
    }
    const { rate, noiseShape, seed: own } = this.#layer.getConfig() as unknown as DropoutConfig;
    if (!training || rate === 0 || rate === 1) return x;
    if (mask) return x.mul(mask(place)!);
    const noise = noiseShape?.map((side, i) => side ?? x.shape[i]!);
    return tf.dropout(x, rate, noise, own ?? mixSeed(seed, place));
  }

  paddingAfter(x: Tensor, padding: Tensor | null): Tensor {
    return maskAfter(this.#layer, x, this.#place.isPaddingCurrent ? padding : null) ?? padding!;
  }

  penalties(): Scalar[] {
    return this.#layer.calculateLosses();
  }

  /** The next layer and the next rank expect the shape that computeOutputShape has returned. */
  #checkShape(y: Tensor): void {
    const [is, expected] = [y.shape.slice(1), this.outputShape].map((shape) => `[${shape.join(', ')}]`);
    if (is === expected) return;
    throw new UsageError(
      `The layer "${this.name}" has the output shape ${is}, but its computeOutputShape returns ${expected}. Use another layer.`,
    );
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

/** Fields of the layer `Dropout`. A rate of 1 drops nothing in TensorFlow.js. */
interface DropoutConfig {
  rate: number;
  noiseShape?: readonly (number | null)[] | null;
  seed?: number | null;
}

/** @throws UsageError if micro-batches would change what a property means. */
function checkProperties(layer: tf.layers.Layer): void {
  for (const part of partsOf(layer)) {
    const where = part === layer ? `The layer "${layer.name}"` : `The layer "${part.name}" in "${layer.name}"`;
    if (part.stateful) {
      throw new UsageError(
        `${where} is stateful: its state would pass from one micro-batch to the next, which has other samples. Create it without ` +
          '`stateful`, or train it without a pipeline.',
      );
    }
    if (part.activityRegularizer) {
      throw new UsageError(
        `${where} has an activityRegularizer, which TensorFlow.js does not compute. Remove it, or add the penalty to the loss.`,
      );
    }
  }
}

/** A layer and the layers in it: those of models, wrappers and recurrent layers. */
function partsOf(layer: tf.layers.Layer): tf.layers.Layer[] {
  const { layers = [], layer: wrapped, forwardLayer, backwardLayer } = layer as tf.layers.Layer & Nested;
  const inner = [...layers, wrapped, forwardLayer, backwardLayer].filter((part) => part !== undefined);
  return [layer, ...inner.flatMap(partsOf)];
}

interface Nested {
  layers?: readonly tf.layers.Layer[];
  layer?: tf.layers.Layer;
  forwardLayer?: tf.layers.Layer;
  backwardLayer?: tf.layers.Layer;
}

/** Returns the padding mask behind a layer with this input. */
function tracePadding(layer: tf.layers.Layer, input: Shape, before: PaddingTrace | null): PaddingTrace | null {
  let after = before && { ...before, isCurrent: false };
  tf.tidy(() => {
    const x = tf.zeros([1, ...input.slice(1).map((side) => side ?? 1)]);
    const mask = maskAfter(layer, x, before?.isCurrent ? tf.ones([1, ...before.shape], 'bool') : null);
    if (!mask) return;
    if (mask.dtype !== 'bool') {
      throw new UsageError(
        `The mask of the layer "${layer.name}" is ${mask.dtype}. A pipeline needs a mask of dtype bool. Return \`mask.cast('bool')\` from computeMask.`,
      );
    }
    after = { shape: mask.shape.slice(1), isCurrent: true };
  });
  return after;
}

/**
 * Returns the mask that a layer computes, or `null`; called as TensorFlow.js's `execute` calls it.
 */
function maskAfter(layer: tf.layers.Layer, x: Tensor, mask: Tensor | null): Tensor | null {
  if (!layer.supportsMasking) return null;
  // `execute` passes `null` where an input has no mask.
  const after = layer.computeMask([x], [mask] as Tensor[]) as Tensor | (Tensor | null)[] | null | undefined;
  return [after].flat()[0] ?? null;
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
