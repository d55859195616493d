/**
 * Models made of layers: the built-in ones and a job's custom model. Only layers whose kernels and
 * gradients exist on WebGPU are used, with static shapes. Initial weights do not come from
 * TensorFlow.js, so they are the same on every backend and machine.
 */
import * as tf from '@tensorflow/tfjs';
import type { JobSpec, ModelName } from '../../spec/job.ts';
import { endsOf } from '../../spec/topology.ts';
import { UsageError } from '../../util/errors.ts';
import { createRng, mixSeed } from '../../util/rng.ts';
import { sizeOf } from '../../util/shape.ts';
import { buildCustomLayers, type ModelSamples, type Plan } from './customLayers.ts';
import type { Topology } from '../weights/weightsFile.ts';

/** Filters of the cnn's two convolutions. */
const CNN_FILTERS = [8, 16] as const;
const CNN_KERNEL = 5;
/**
 * Strided convolutions instead of pooling layers, which would compute four times as many positions.
 */
const CNN_STRIDE = 2;

/** The parts of a model that a file keeps. */
export interface KeptModel {
  /** Trainable variables in the order the forward pass uses them; the same shapes on all ranks. */
  readonly variables: readonly tf.Variable[];
  /**
   * `layer/weight` of each variable, e.g. `dense1/kernel`: the same for every model built from this
   * job.
   */
  readonly names: readonly string[];
  /**
   * The layers in Keras's format, for other programs; `null` if the model is not made of layers.
   */
  readonly topology: Topology | null;
}

/** A position in a model at which dropout is applied. */
export interface DropoutPlace {
  /** The share of numbers that is dropped. */
  readonly rate: number;
  /** Shape of one sample's activations at this position. */
  readonly shape: readonly number[];
}

/**
 * A model for the training loop: variables to differentiate and a function that computes logits.
 */
export interface JobModel extends KeptModel {
  readonly dropout: readonly DropoutPlace[];
  /**
   * Forward pass in training mode, differentiable. The caller disposes the result or calls this in
   * a tidy.
   *
   * @param inputs float32 [batch, ...inputShape]
   * @param masks one factor per number, [batch, ...shape], for each position of `dropout`; without
   *   masks nothing is dropped.
   * @returns float32 [batch, classes]
   */
  logits(inputs: tf.Tensor, masks?: readonly tf.Tensor[] | null): tf.Tensor2D;
  /** Frees the variables. */
  dispose(): void;
}

/**
 * Builds `job.model` for samples of `data`'s shape, on the current backend. Kernels are Glorot
 * uniform, seeded by (job.seed, position); biases are zero.
 *
 * @throws UsageError if a custom model's inputs or outputs do not match the data.
 */
export function buildModel(job: Pick<JobSpec, 'model' | 'hidden' | 'seed'>, data: ModelSamples): JobModel {
  const own = typeof job.model === 'string' ? null : job.model;
  const { layers, sources } =
    typeof job.model === 'string' ? chainOf(layersOf(job.model, job.hidden, data)) : buildCustomLayers(job.model, data);
  const model = own?.class_name === 'Functional' ? functional(layers, sources) : tf.sequential({ layers });
  const variables: tf.Variable[] = [];
  const names: string[] = [];
  for (const layer of layers) {
    for (const weight of layer.trainableWeights) {
      // A LayerVariable's read() returns the tf.Variable itself; TensorFlow.js's training loop
      // relies on this, too.
      const variable = weight.read() as tf.Variable;
      const name = `${layer.name}/${weight.originalName.split('/').at(-1)!}`;
      initialize(variable, mixSeed(job.seed, variables.length));
      variables.push(variable);
      names.push(name);
    }
  }
  const inputShape = own === null ? data.inputShape : endsOf(own).input;
  return {
    variables,
    names,
    topology: own ?? (model.toJSON(null, false) as unknown as Topology),
    dropout: layers
      .filter(isDropout)
      .map((layer) => ({ rate: layer.rate, shape: layer.outputShape.slice(1) as number[] })),
    logits: (inputs, masks = null) =>
      tf.tidy(() => {
        const left = [...(masks ?? [])];
        const given: tf.Tensor[] = [];
        for (const [i, layer] of layers.entries()) {
          const taken = i === 0 ? [inputs.reshape([-1, ...inputShape])] : sources[i]!.map((source) => given[source]!);
          given.push(compute(layer, taken, masks === null ? null : left));
        }
        return given.at(-1) as tf.Tensor2D;
      }),
    dispose: () => {
      model.dispose();
    },
  };
}

/** A sequence of layers. */
function chainOf(layers: tf.layers.Layer[]): Plan {
  return { layers, sources: layers.map((_, i) => (i === 0 ? [] : [i - 1])) };
}

/** Builds a graph of layers; the first layer is its input. */
function functional([first, ...others]: readonly tf.layers.Layer[], sources: Plan['sources']): tf.LayersModel {
  const given = [first!.output as tf.SymbolicTensor];
  for (const [i, layer] of others.entries()) {
    const taken = sources[i + 1]!.map((source) => given[source]!);
    given.push(layer.apply(taken.length === 1 ? taken[0]! : taken) as tf.SymbolicTensor);
  }
  return tf.model({ inputs: given[0]!, outputs: given.at(-1)! });
}

/** Applies one layer. @param masks of the remaining dropout positions; `null`: no dropout. */
function compute(layer: tf.layers.Layer, taken: tf.Tensor[], masks: tf.Tensor[] | null): tf.Tensor {
  const [x] = taken as [tf.Tensor, ...tf.Tensor[]];
  if (layer.getClassName() === 'InputLayer') return x;
  if (isDropout(layer)) return masks === null ? x : x.mul(masks.shift()!);
  return layer.apply(taken.length === 1 ? x : taken, { training: true }) as tf.Tensor;
}

interface DropoutLayer extends tf.layers.Layer {
  readonly rate: number;
  readonly outputShape: (number | null)[];
}

/**
 * TensorFlow.js's dropout draws random numbers of its own. Ours are drawn per sample, so that all
 * ranks use the same.
 */
function isDropout(layer: tf.layers.Layer): layer is DropoutLayer {
  return layer.getClassName() === 'Dropout';
}

function layersOf(name: ModelName, hidden: number, data: ModelSamples): tf.layers.Layer[] {
  const inputShape = [...data.inputShape];
  const { classes } = data;
  switch (name) {
    case 'mlp':
      return [
        tf.layers.flatten({ inputShape, name: 'flatten' }),
        tf.layers.dense({ ...zeros, name: 'dense1', units: hidden, activation: 'relu' }),
        tf.layers.dense({ ...zeros, name: 'dense2', units: classes }),
      ];
    case 'cnn':
      return [
        tf.layers.conv2d({ ...convolution(CNN_FILTERS[0]), name: 'conv1', inputShape }),
        tf.layers.conv2d({ ...convolution(CNN_FILTERS[1]), name: 'conv2' }),
        tf.layers.flatten({ name: 'flatten' }),
        tf.layers.dense({ ...zeros, name: 'dense1', units: classes }),
      ];
    default:
      throw new UsageError(`Unknown model "${String(name satisfies never)}": use mlp or cnn.`);
  }
}

/** `initialize` writes the kernels afterwards; zeros are the cheapest initializer. */
const zeros = { kernelInitializer: 'zeros', biasInitializer: 'zeros' } as const;

function convolution(filters: number) {
  return {
    ...zeros,
    filters,
    kernelSize: CNN_KERNEL,
    strides: CNN_STRIDE,
    padding: 'same',
    activation: 'relu',
  } as const;
}

/** Kernels (rank above 1): uniform in +- sqrt(6 / (fan in + fan out)); biases stay zero. */
function initialize(variable: tf.Variable, seed: number): void {
  const { shape } = variable;
  if (shape.length < 2) return;
  const field = sizeOf(shape.slice(0, -2));
  const limit = Math.sqrt(6 / (field * (shape.at(-2)! + shape.at(-1)!)));
  const rng = createRng(seed);
  const values = Float32Array.from({ length: variable.size }, () => (2 * rng.next() - 1) * limit);
  const initial = tf.tensor(values, shape);
  variable.assign(initial);
  initial.dispose();
}
