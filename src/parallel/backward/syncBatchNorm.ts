/**
 * `SyncBatchNormalization`: batch normalization with the statistics of all ranks' samples, as in
 * torch.nn.SyncBatchNorm (https://pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html);
 * `stagedGradients.ts` trains models with such layers.
 */
import * as tf from '@tensorflow/tfjs';
import { UsageError } from '../../util/errors.ts';
import type { Model } from './flatten.ts';

type BatchNormalizationArgs = Parameters<typeof tf.layers.batchNormalization>[0];
type Kwargs = Parameters<tf.layers.Layer['call']>[1];

/** TensorFlow.js's own layer, whose types hide these fields. */
interface BatchNormalizationLayer extends tf.layers.Layer {
  readonly axis: number;
  readonly momentum: number;
  readonly epsilon: number;
  /** Undefined if the layer has `scale: false`. */
  readonly gamma?: tf.LayerVariable;
  /** Undefined if the layer has `center: false`. */
  readonly beta?: tf.LayerVariable;
  readonly movingMean: tf.LayerVariable;
  readonly movingVariance: tf.LayerVariable;
}

type BatchNormalizationConstructor = (new (args?: BatchNormalizationArgs) => BatchNormalizationLayer) &
  Pick<tf.serialization.SerializableConstructor<BatchNormalizationLayer>, 'className' | 'fromConfig'>;

/** TensorFlow.js exports only a factory function; the class is in the registry of layers. */
const BatchNormalization = tf.serialization.SerializationMap.getMap().classNameMap[
  'BatchNormalization'
]![0] as unknown as BatchNormalizationConstructor;

/**
 * A layer with the arguments, weights, config and behaviour of `tf.layers.batchNormalization`.
 * However, a pass of `gradientsOfPass` normalizes by the mean and variance of all ranks' samples.
 * In any other training pass the layer uses this rank's samples alone, as torch does without a
 * process group; in inference it uses the moving averages. Unlike TensorFlow.js's layer it also
 * trains with an axis other than the last and without gamma or beta.
 */
export class SyncBatchNormalization extends BatchNormalization {
  static override className = 'SyncBatchNormalization';

  /** Length of the normalized axis, once built. */
  get channels(): number {
    return this.movingMean.shape[0]!;
  }

  /** Returns the axes over which statistics are computed: all axes except the normalized one. */
  reducedAxes({ rank }: tf.Tensor): number[] {
    return Array.from({ length: rank }, (_, axis) => axis).filter((axis) => axis !== this.#axisOf(rank));
  }

  /** Reshapes `perChannel`, of shape [channels], so that it can be broadcast over `x`. */
  alongAxis(x: tf.Tensor, perChannel: tf.Tensor): tf.Tensor {
    const axis = this.#axisOf(x.rank);
    return perChannel.reshape(x.shape.map((size, i) => (i === axis ? size : 1)));
  }

  /**
   * (x - mean) / sqrt(variance + epsilon) * gamma + beta; `mean` and `variance` have the shape
   * [channels].
   */
  normalize(x: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor): tf.Tensor {
    const deviation = variance.add(this.epsilon).sqrt();
    const normalized = x.sub(this.alongAxis(x, mean)).div(this.alongAxis(x, deviation));
    const scaled = this.gamma ? normalized.mul(this.alongAxis(x, this.gamma.read())) : normalized;
    return this.beta ? scaled.add(this.alongAxis(x, this.beta.read())) : scaled;
  }

  override call(inputs: tf.Tensor | tf.Tensor[], kwargs: Kwargs): tf.Tensor {
    return tf.tidy(() => {
      const x = Array.isArray(inputs) ? inputs[0]! : inputs;
      if (!kwargs['training']) return this.normalize(x, this.movingMean.read(), this.movingVariance.read());
      const { mean, variance } = tf.moments(x, this.reducedAxes(x));
      for (const [average, value] of [
        [this.movingMean, mean],
        [this.movingVariance, variance],
      ] as const) {
        const before = average.read();
        average.write(before.sub(before.sub(value).mul(1 - this.momentum)));
      }
      return this.normalize(x, mean, variance);
    });
  }

  #axisOf(rank: number): number {
    return this.axis < 0 ? rank + this.axis : this.axis;
  }
}
tf.serialization.registerClass(SyncBatchNormalization);

/**
 * Returns the same model with every BatchNormalization replaced by SyncBatchNormalization, also in
 * nested models. The new model has a copy of all weights. This is
 * torch.nn.SyncBatchNorm.convert_sync_batchnorm
 * (https://pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html#torch.nn.SyncBatchNorm.convert_sync_batchnorm).
 * `model` is not changed, and the caller must dispose of `model`. The new model is not compiled.
 *
 * @throws UsageError if the model cannot be rebuilt from its config, because a custom layer is
 *   not registered.
 *
 * @example
 * ```ts
 * const synced = convertSyncBatchNorm(model);
 * const ddp = await DistributedDataParallel.create(synced, group);
 * ```
 */
export function convertSyncBatchNorm(model: Model): Model {
  let converted;
  try {
    const cls = model.constructor as typeof tf.LayersModel & tf.serialization.SerializableConstructor<Model>;
    // The weights are overwritten below; the last argument skips random initialization.
    converted = cls.fromConfig<Model>(cls, renamed(model.getConfig()) as tf.serialization.ConfigDict, {}, true);
  } catch (error) {
    throw new UsageError(
      `The model "${model.name}" cannot be converted, because TensorFlow.js cannot rebuild it from its config. Register ` +
        'custom layers with tf.serialization.registerClass, or build the model with SyncBatchNormalization layers.',
      {},
      { cause: error },
    );
  }
  copyWeights(model, converted);
  return converted;
}

/**
 * Returns a copy of a config in which SyncBatchNormalization replaces the class BatchNormalization.
 */
function renamed(config: tf.serialization.ConfigDictValue): tf.serialization.ConfigDictValue {
  if (Array.isArray(config)) return config.map(renamed);
  if (config === null || typeof config !== 'object') return config;
  return Object.fromEntries(
    Object.entries(config).map(([key, value]) => [
      key,
      key === 'className' && value === BatchNormalization.className ? SyncBatchNormalization.className : renamed(value),
    ]),
  );
}

function copyWeights(from: Model, to: Model): void {
  for (const [i, layer] of from.layers.entries()) {
    const target = to.layers[i]!;
    if (layer instanceof tf.LayersModel) copyWeights(layer, target as Model);
    else target.setWeights(layer.getWeights());
  }
  // The config of a model, unlike that of a layer, does not say whether the model is frozen.
  if (!from.trainable) to.trainable = false;
}
