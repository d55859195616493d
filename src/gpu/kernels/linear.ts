/**
 * A linear layer (dense layer) with what often follows it: activation, dropout and a residual
 * connection. The forward pass is one dispatch. Each gradient is one dispatch too: the products
 * multiply the gradient of the result by the dropout mask, or by the derivative of relu, while they
 * load it. With a different activation, or with relu and a mask or a residual, the derivative needs
 * the value before the activation. That value is not kept, so one more dispatch computes it again.
 */
import * as tf from '@tensorflow/tfjs';
import { elementCountOf } from '../../util/shape.ts';
import { webgpuBackend, type WebGpuBackend } from '../backend.ts';
import { runColumnSum } from './columnSum.ts';
import { usesHalfPrecision } from './halfPrecision.ts';
import type { MatMulActivation, MatMulEpilogue, ElementwiseFactor } from './matMul/epilogue.ts';
import { runMatMul } from './matMul/product.ts';
import { usesOwnKernels, type KernelArguments, type TrainingOp } from './registry.ts';

export interface LinearOptions {
  /** float32 [out] */
  bias?: tf.Tensor | undefined;
  activation?: MatMulActivation | undefined;
  /**
   * Dropout mask, float32 [batch, 1, out]: one factor for each channel of each sample. `x` is then
   * [batch, positions, in].
   */
  mask?: tf.Tensor | undefined;
  /** float32, the shape of the result. */
  residual?: tf.Tensor | undefined;
  /** Whether `weights` is [out, in]. */
  transposeWeights?: boolean;
}

/**
 * Computes `activation(x . weights + bias) * mask + residual`.
 *
 * @param x float32 [..., in]
 * @param weights float32 [in, out]
 * @returns float32 [..., out]
 */
export function linear(x: tf.Tensor, weights: tf.Tensor, options: LinearOptions = {}): tf.Tensor {
  return usesOwnKernels() ? runLinear(x, weights, options, usesHalfPrecision()) : composed(x, weights, options);
}

function composed(x: tf.Tensor, weights: tf.Tensor, options: LinearOptions): tf.Tensor {
  const { bias, activation, mask, residual, transposeWeights = false } = options;
  return tf.tidy(() => {
    const rows = x.reshape([-1, x.shape.at(-1)!]);
    const product = tf.matMul(rows, weights, false, transposeWeights);
    let y: tf.Tensor = product.reshape([...x.shape.slice(0, -1), product.shape[1]!]);
    if (bias) y = y.add(bias);
    if (activation) y = activate(y, activation);
    if (mask) y = y.mul(mask);
    return residual ? y.add(residual) : y;
  });
}

function activate(x: tf.Tensor, activation: MatMulActivation): tf.Tensor {
  if (activation === 'relu') return tf.relu(x);
  // Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
  if (activation === 'geluErf') return x.mul(0.5).mul(tf.erf(x.mul(Math.SQRT1_2)).add(1));
  const tanh = tf.tanh(x.add(x.mul(x).mul(x).mul(0.044715)).mul(Math.sqrt(2 / Math.PI)));
  return x.mul(0.5).mul(tanh.add(1));
}

const OPTIONAL = ['bias', 'mask', 'residual'] as const;

interface Attributes {
  activation: MatMulActivation | undefined;
  transposeWeights: boolean;
  /** Whether the result and its gradients are computed in half precision. */
  isHalf: boolean;
  /** Which optional inputs follow x and weights. */
  given: readonly (typeof OPTIONAL)[number][];
}

type Inputs<T> = { x: T; weights: T } & Partial<Record<(typeof OPTIONAL)[number], T>>;

/**
 * TensorFlow.js saves inputs for the gradient in two ways: inputs with names, none of which may be
 * missing, or all inputs of an array. Here some inputs may be missing, so the inputs are an array.
 */
function runLinear(x: tf.Tensor, weights: tf.Tensor, options: LinearOptions, isHalf: boolean): tf.Tensor {
  const given = OPTIONAL.filter((name) => options[name] !== undefined);
  const inputs = [x, weights, ...given.map((name) => options[name]!)];
  const { activation, transposeWeights = false } = options;
  const attrs: Attributes = { activation, transposeWeights, isHalf, given };
  return tf.engine().runKernel('Linear', inputs as unknown as tf.NamedTensorMap, attrs as unknown as tf.NamedAttrMap);
}

function named<T>(inputs: readonly T[], given: Attributes['given']): Inputs<T> {
  const rest = given.map((name, i) => [name, inputs[2 + i]!]);
  return { x: inputs[0]!, weights: inputs[1]!, ...(Object.fromEntries(rest) as Partial<Inputs<T>>) };
}

function lengthsOf({ x, weights }: Inputs<tf.TensorInfo>, { transposeWeights }: Attributes) {
  const inner = x.shape.at(-1)!;
  const columns = weights.shape[transposeWeights ? 0 : 1]!;
  if (weights.shape[transposeWeights ? 1 : 0] !== inner) {
    throw new Error(
      `linear: x [${x.shape.join()}] and weights [${weights.shape.join()}] have shapes that do not match. Check the layer's weights.`,
    );
  }
  return { rows: elementCountOf(x.shape) / inner, inner, columns };
}

/** A mask's row applies to all positions of a sample. */
function maskOf({ x, mask }: Inputs<tf.TensorInfo>): ElementwiseFactor[] {
  return mask ? [{ tensor: mask, sharedBy: x.shape[1]! }] : [];
}

/** Computes `epilogue(x . weights)`: the result of the layer, or what its gradient needs. */
function multiplied(
  backend: WebGpuBackend,
  inputs: Inputs<tf.TensorInfo>,
  attrs: Attributes,
  epilogue: MatMulEpilogue,
): tf.TensorInfo {
  const { x, weights } = inputs;
  const lengths = lengthsOf(inputs, attrs);
  const a = { tensor: x, isTransposed: false, batches: 1 };
  const b = { tensor: weights, isTransposed: attrs.transposeWeights, batches: 1 };
  const product = { a, b, ...lengths, batches: 1, epilogue, isHalf: attrs.isHalf };
  return runMatMul(backend, product, [...x.shape.slice(0, -1), lengths.columns]);
}

function forward({ inputs, attrs, backend }: KernelArguments<tf.NamedAttrMap>): tf.TensorInfo {
  const attributes = attrs as unknown as Attributes;
  const all = named(inputs as unknown as tf.TensorInfo[], attributes.given);
  const { bias, residual } = all;
  const factors = maskOf(all);
  return multiplied(backend, all, attributes, { bias, apply: attributes.activation, factors, residual });
}

/** A matrix that is multiplied by a factor while it is loaded. */
interface Loaded {
  tensor: tf.TensorInfo;
  factor?: ElementwiseFactor | undefined;
}

/** For each input, by its index: a function that computes its gradient. */
type Gradients = Record<string, () => tf.Tensor>;

/** The gradient of `x . weights + bias`. */
function gradientBeforeActivation(dy: tf.Tensor, all: Inputs<tf.Tensor>, y: tf.Tensor, attrs: Attributes): Loaded {
  const { activation } = attrs;
  const mask = maskOf(all);
  if (activation === undefined) return { tensor: dy, factor: mask[0] };
  // Without a mask and a residual, relu's result shows where its argument was positive.
  if (activation === 'relu' && all.mask === undefined && all.residual === undefined) {
    return { tensor: dy, factor: { tensor: y, sharedBy: 1, isGate: true } };
  }
  const factors = [{ tensor: dy, sharedBy: 1 }, ...mask];
  const apply = `${activation}Derivative` as const;
  return { tensor: owned((backend) => multiplied(backend, all, attrs, { bias: all.bias, apply, factors })) };
}

function gradient(dy: tf.Tensor | tf.Tensor[], saved: tf.Tensor[], attributes: tf.NamedAttrMap): Gradients {
  const attrs = attributes as unknown as Attributes;
  const all = named(saved, attrs.given);
  const { x, weights } = all;
  const { isHalf } = attrs;
  const { rows, inner, columns } = lengthsOf(all, attrs);
  const d = gradientBeforeActivation(dy as tf.Tensor, all, saved.at(-1)!, attrs);
  const gradients: Record<keyof typeof all, () => tf.Tensor> = {
    x: () => {
      const a = { ...d, isTransposed: false, batches: 1 };
      const b = { tensor: weights, isTransposed: !attrs.transposeWeights, batches: 1 };
      const lengths = { batches: 1, rows, columns: inner, inner: columns, isHalf };
      return owned((backend) => runMatMul(backend, { a, b, ...lengths, epilogue: {} }, x.shape));
    },
    weights: () => {
      const ofX = { tensor: x, batches: 1 };
      const ofD = { ...d, batches: 1 };
      const [a, b] = attrs.transposeWeights ? [ofD, ofX] : [ofX, ofD];
      const operands = { a: { ...a, isTransposed: true }, b: { ...b, isTransposed: false } };
      const [height, width] = weights.shape as [number, number];
      const lengths = { batches: 1, rows: height, columns: width, inner: rows, isHalf };
      return owned((backend) => runMatMul(backend, { ...operands, ...lengths, epilogue: {} }, weights.shape));
    },
    bias: () => owned((backend) => runColumnSum(backend, d.tensor, { factor: d.factor })),
    mask: () => {
      const value = runLinear(x, weights, { ...attrs, bias: all.bias }, isHalf);
      return tf.sum(value.mul(dy as tf.Tensor), 1, true);
    },
    // A clone, because TensorFlow.js disposes of gradients after it has added them up.
    residual: () => (dy as tf.Tensor).clone(),
  };
  const names = ['x', 'weights', ...attrs.given] as const;
  return Object.fromEntries(names.map((name, i) => [i, gradients[name]]));
}

/** Runs kernels, and adds the result to the current tidy. */
function owned(run: (backend: WebGpuBackend) => tf.TensorInfo): tf.Tensor {
  return tf.engine().makeTensorFromTensorInfo(run(webgpuBackend()!));
}

export const linearOp: TrainingOp = {
  kernelName: 'Linear',
  run: forward,
  gradient: { saveAllInputs: true, outputsToSave: [true], gradFunc: gradient },
};
