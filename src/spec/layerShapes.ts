/** Computes the output shape and the number of weights of a layer, without TensorFlow.js. */
import { elementCountOf } from '../util/shape.ts';
import type { LayerSpec } from './layers.ts';

/** Shape of one sample, without the batch dimension. */
export type LayerShape = readonly number[];

interface Traced {
  shape: LayerShape;
  parameters: number;
}

/**
 * The reason why a layer does not accept its input. `field` is the name of the layer's field that
 * causes the problem.
 */
interface ShapeProblem {
  problem: string;
  field?: string;
}

/**
 * Returns the output shape and the number of weights of a layer, or the reason why it does not
 * accept its inputs.
 *
 * @param inputs shapes of the layer's inputs. Most layers have one input.
 */
export function traceLayerShape(layer: LayerSpec, inputs: readonly LayerShape[]): Traced | ShapeProblem {
  if (layer.class_name === 'Concatenate') return ofSeveral(inputs) ?? concatenated(layer.config.axis, inputs);
  if (layer.class_name === 'Add' || layer.class_name === 'Multiply') {
    return ofSeveral(inputs) ?? ofOneShape(inputs) ?? same(inputs[0]!);
  }
  if (inputs.length === 1) return traceOne(layer, inputs[0]!);
  return {
    problem: `the layer has one input, but gets ${inputs.length}: put an Add, Multiply or Concatenate before it`,
  };
}

type Joining = Extract<LayerSpec, { class_name: 'Add' | 'Multiply' | 'Concatenate' }>;

function traceOne(layer: Exclude<LayerSpec, Joining>, input: LayerShape): Traced | ShapeProblem {
  switch (layer.class_name) {
    case 'InputLayer':
    case 'Dropout':
    case 'Activation':
    case 'ReLU':
      return same(input);
    case 'Softmax':
      return ofLastAxis(layer.config.axis, input) ?? same(input);
    case 'Flatten':
      if (input.length === 1) return { problem: `the input ${formatShape(input)} is already flat: remove the layer` };
      return same([elementCountOf(input)]);
    case 'Dense': {
      const { units, use_bias: hasBias } = layer.config;
      return { shape: [...input.slice(0, -1), units], parameters: (input.at(-1)! + (hasBias ? 1 : 0)) * units };
    }
    case 'Conv2D': {
      const { filters, kernel_size: kernel, use_bias: hasBias } = layer.config;
      const parameters = (elementCountOf(kernel) * input.at(-1)! + (hasBias ? 1 : 0)) * filters;
      return slid(input, { ...layer.config, window: kernel, field: 'kernel_size' }, filters, parameters);
    }
    case 'DepthwiseConv2D': {
      const { depth_multiplier: multiplier, kernel_size: kernel, use_bias: hasBias } = layer.config;
      const channels = input.at(-1)! * multiplier;
      const parameters = (elementCountOf(kernel) + (hasBias ? 1 : 0)) * channels;
      return slid(input, { ...layer.config, window: kernel, field: 'kernel_size' }, channels, parameters);
    }
    case 'MaxPooling2D':
    case 'AveragePooling2D': {
      const { pool_size: window, strides, padding } = layer.config;
      return slid(input, { window, strides: strides ?? window, padding, field: 'pool_size' }, input.at(-1)!, 0);
    }
    case 'GlobalMaxPooling2D':
    case 'GlobalAveragePooling2D':
      return ofPicture(input) ?? same([input[2]!]);
    case 'ZeroPadding2D': {
      const [rows, columns] = layer.config.padding;
      return ofPicture(input) ?? same([input[0]! + rows[0] + rows[1], input[1]! + columns[0] + columns[1], input[2]!]);
    }
    case 'Reshape':
      return reshaped(layer.config.target_shape, input);
    case 'LayerNormalization': {
      const { axis, center, scale } = layer.config;
      const parameters = input.at(-1)! * ((center ? 1 : 0) + (scale ? 1 : 0));
      return ofLastAxis(typeof axis === 'number' ? axis : axis[0], input) ?? { shape: input, parameters };
    }
    default:
      return layer satisfies never;
  }
}

/** Returns a shape as text, like `[28, 28, 1]`. */
export function formatShape(shape: LayerShape): string {
  return `[${shape.join(', ')}]`;
}

function same(shape: LayerShape): Traced {
  return { shape, parameters: 0 };
}

interface Sliding {
  window: readonly [number, number];
  strides: readonly [number, number];
  padding: 'valid' | 'same';
  /** The field with the window's size. */
  field: string;
}

/**
 * Returns the output of a layer that moves a window over a picture and has `channels` channels at
 * each position.
 */
function slid(
  input: LayerShape,
  { window, strides, padding, field }: Sliding,
  channels: number,
  parameters: number,
): Traced | ShapeProblem {
  const odd = ofPicture(input);
  if (odd) return odd;
  const sides = [0, 1].map((i) => {
    const room = padding === 'same' ? input[i]! - 1 : input[i]! - window[i]!;
    return Math.floor(room / strides[i]!) + 1;
  });
  if (sides.some((side) => side < 1)) {
    return { problem: `a window of ${formatShape(window)} does not fit in the input ${formatShape(input)}`, field };
  }
  return { shape: [...sides, channels], parameters };
}

function ofPicture(input: LayerShape): ShapeProblem | null {
  if (input.length === 3) return null;
  return {
    problem: `the layer needs pictures, [height, width, channels], but gets ${formatShape(input)}: put a Reshape before it`,
  };
}

function ofSeveral(inputs: readonly LayerShape[]): ShapeProblem | null {
  return inputs.length > 1 ? null : { problem: 'the layer needs two or more inputs, but gets one' };
}

function ofOneShape(inputs: readonly LayerShape[]): ShapeProblem | null {
  if (inputs.every((shape) => formatShape(shape) === formatShape(inputs[0]!))) return null;
  return { problem: `the inputs must have the same shape, but they are ${inputs.map(formatShape).join(' and ')}` };
}

function concatenated(axis: number, inputs: readonly LayerShape[]): Traced | ShapeProblem {
  const [first] = inputs as readonly [LayerShape, ...LayerShape[]];
  const odd = ofLastAxis(axis, first);
  if (odd) return odd;
  const others = inputs.map((shape) => shape.slice(0, -1));
  if (!inputs.every((shape) => shape.length === first.length) || ofOneShape(others)) {
    return {
      problem: `concatenated inputs may only differ in the last dimension, but they are ${inputs.map(formatShape).join(' and ')}`,
    };
  }
  return same([...others[0]!, inputs.reduce((sum, shape) => sum + shape.at(-1)!, 0)]);
}

function ofLastAxis(axis: number, input: LayerShape): ShapeProblem | null {
  // Axis 0 of the layer's `axis` is the batch dimension, which `input` does not have.
  if (axis === -1 || axis === input.length) return null;
  return { problem: `only the last axis is supported, -1 or ${input.length}`, field: 'axis' };
}

function reshaped(target: readonly number[], input: LayerShape): Traced | ShapeProblem {
  const open = target.filter((side) => side === -1).length;
  const known = elementCountOf(target.filter((side) => side !== -1));
  const rest = elementCountOf(input) / known;
  const fits = open === 0 ? rest === 1 : open === 1 && Number.isInteger(rest);
  if (fits) return same(target.map((side) => (side === -1 ? rest : side)));
  return {
    problem: `${formatShape(target)} does not have the ${elementCountOf(input)} elements of ${formatShape(input)}`,
    field: 'target_shape',
  };
}
