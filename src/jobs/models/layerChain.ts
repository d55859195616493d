/**
 * The layers of a job's model, for pipelines. Their initial weights equal those of `buildJobModel`.
 */
import * as tf from '@tensorflow/tfjs';
import type { JobSpec } from '../../spec/job.ts';
import { inputAndOutputShapes } from '../../spec/topology.ts';
import { mixSeed } from '../../util/rng.ts';
import { elementCountOf } from '../../util/shape.ts';
import { applyLayerForTraining } from './applyLayer.ts';
import type { SampleProperties } from './customLayers.ts';
import type { ModelLayer } from './modelLayer.ts';
import type { TensorEntry } from '../../formats/weights/namedTensor.ts';
import { initializeVariable, isDropoutLayer, layerPlanOf, weightName, type DropoutPlace } from './models.ts';

export interface ChainModelLayers {
  layers: ModelLayer[];
  dropout: DropoutPlace[];
}

/**
 * Returns the layers of a model that is a chain.
 *
 * @throws UsageError if a custom model's inputs or outputs do not match the data.
 */
export function layersOfChainModel(
  job: Pick<JobSpec, 'model' | 'hidden' | 'seed'>,
  data: SampleProperties,
): ChainModelLayers {
  const inputShape = typeof job.model === 'string' ? [...data.inputShape] : [...inputAndOutputShapes(job.model).input];
  let shape: (number | null)[] = [null, ...inputShape];
  let variables = 0;
  const dropout: DropoutPlace[] = [];
  const layers = layerPlanOf(job, data)
    .layers.filter((layer) => layer.getClassName() !== 'InputLayer')
    .map((layer, i): ModelLayer => {
      const place = isDropoutLayer(layer) ? dropout.length : null;
      const input = shape;
      shape = layer.computeOutputShape(input) as (number | null)[];
      const outputShape = shape.slice(1) as number[];
      if (isDropoutLayer(layer)) dropout.push({ rate: layer.rate, shape: outputShape });
      const entries = weightEntries(layer, input);
      const first = variables;
      variables += entries.length;
      return {
        name: layer.name,
        outputShape,
        size: entries.reduce((sum, { shape: each }) => sum + elementCountOf(each), 0),
        entries,
        build: () => {
          layer.build([...input]);
          layer.built = true;
          const built = variablesOf(layer);
          for (const [at, variable] of built.entries()) initializeVariable(variable, mixSeed(job.seed, first + at));
          return built;
        },
        apply: (x, { mask }) => {
          const given = i === 0 ? x.reshape([-1, ...inputShape]) : x;
          if (place === null) return applyLayerForTraining(layer, [given]);
          const factors = mask?.(place);
          return factors ? given.mul(factors) : given;
        },
        dispose: () => tf.dispose(layer.built ? variablesOf(layer) : []),
      };
    });
  return { layers, dropout };
}

/**
 * Returns the names and shapes of a layer's variables. To find them, a copy of the layer is built.
 */
function weightEntries(layer: tf.layers.Layer, input: (number | null)[]): TensorEntry[] {
  const { classNameMap } = tf.serialization.SerializationMap.getMap();
  const [Class, fromConfig] = classNameMap[layer.getClassName()]!;
  const copy = fromConfig(Class, layer.getConfig()) as tf.layers.Layer;
  copy.build([...input]);
  const variables = variablesOf(copy);
  const entries = variables.map(({ shape }, i) => ({
    name: weightName(layer, copy.trainableWeights[i]!),
    shape: [...shape],
  }));
  tf.dispose(variables);
  return entries;
}

function variablesOf(layer: tf.layers.Layer): tf.Variable[] {
  return layer.trainableWeights.map((weight) => weight.read() as tf.Variable);
}
