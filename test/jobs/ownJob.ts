/** A job of layers that no named model has: pooling, depthwise convolution, normalization, dropout, activations, a softmax. Small. */
const layer = (className: string, config: Record<string, unknown> = {}) => ({ class_name: className, config });

export const OWN_JOB = {
  job: 'digits',
  model: layer('Sequential', {
    layers: [
      layer('AveragePooling2D', { pool_size: 4, batch_input_shape: [null, 28, 28, 1] }),
      layer('Conv2D', { filters: 4, kernel_size: 3, padding: 'same', activation: 'gelu' }),
      layer('DepthwiseConv2D', { kernel_size: 3, depth_multiplier: 2, activation: 'selu', name: 'depthwise' }),
      layer('ZeroPadding2D', { padding: 1 }),
      layer('MaxPooling2D'),
      layer('LayerNormalization', { name: 'normalized' }),
      layer('Dropout', { rate: 0.2 }),
      layer('Flatten'),
      layer('Dense', { units: 12, activation: 'swish' }),
      layer('Dense', { units: 10, activation: 'softmax', name: 'answer' }),
    ],
  }),
  optimizer: 'sgd',
  learningRate: 0.2,
} as const;
