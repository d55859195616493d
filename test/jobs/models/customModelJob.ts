/**
 * A small job whose custom model has layers that no built-in model has: pooling, depthwise
 * convolution, branches, normalization, dropout, activations and a softmax.
 */
const layer = (className: string, name: string, from: readonly string[], config: Record<string, unknown> = {}) => ({
  class_name: className,
  name,
  config,
  inbound_nodes: from.length === 0 ? [] : [from.map((one) => [one, 0, 0, {}])],
});

export const CUSTOM_MODEL_JOB = {
  job: 'digits',
  model: {
    class_name: 'Functional',
    config: {
      layers: [
        layer('InputLayer', 'pixels', [], { batch_input_shape: [null, 28, 28, 1] }),
        layer('AveragePooling2D', 'small', ['pixels'], { pool_size: 4 }),
        layer('Conv2D', 'conv', ['small'], { filters: 4, kernel_size: 3, padding: 'same', activation: 'gelu' }),
        layer('DepthwiseConv2D', 'depthwise', ['conv'], { kernel_size: 3, padding: 'same', activation: 'selu' }),
        layer('Add', 'sum', ['conv', 'depthwise']),
        layer('ZeroPadding2D', 'padded', ['sum'], { padding: 1 }),
        layer('MaxPooling2D', 'pooled', ['padded']),
        layer('LayerNormalization', 'normalized', ['pooled']),
        layer('Concatenate', 'beside', ['pooled', 'normalized']),
        layer('Dropout', 'dropout', ['beside'], { rate: 0.2 }),
        layer('Flatten', 'flat', ['dropout']),
        layer('Dense', 'hidden', ['flat'], { units: 12, activation: 'swish' }),
        layer('Dense', 'gate', ['flat'], { units: 12, activation: 'sigmoid' }),
        layer('Multiply', 'gated', ['hidden', 'gate']),
        layer('Dense', 'answer', ['gated'], { units: 10, activation: 'softmax' }),
      ],
      input_layers: [['pixels', 0, 0]],
      output_layers: [['answer', 0, 0]],
    },
  },
  optimizer: 'sgd',
  learningRate: 0.2,
} as const;
