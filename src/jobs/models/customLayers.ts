/** Builds the TensorFlow.js layers of a job's custom model. */
import * as tf from '@tensorflow/tfjs';
import { fieldProblemSentence } from '../../spec/fields.ts';
import type { JobSpec } from '../../spec/job.ts';
import type { LayerSpec } from '../../spec/layers.ts';
import {
  endsInSoftmax,
  whyModelDoesNotFitSamples,
  inputLayerIndicesOf,
  type ModelTopology,
} from '../../spec/topology.ts';
import { UsageError } from '../../util/errors.ts';
import type { Dataset } from '../dataset.ts';

/** The properties of samples that a model depends on. */
export type SampleProperties = Pick<Dataset, 'inputShape' | 'classes' | 'labelUnit'>;

/**
 * Returns a sentence that says why a job's model does not fit the samples, or `null` if it fits.
 * Built-in models always fit.
 */
export function modelProblem(
  model: JobSpec['model'],
  { inputShape, classes, labelUnit }: SampleProperties,
): string | null {
  if (typeof model === 'string') return null;
  const problem = whyModelDoesNotFitSamples(model, 'the samples', inputShape, classes);
  if (problem !== null) return `${fieldProblemSentence({ ...problem, path: ['model', ...problem.path] })}.`;
  if (labelUnit === undefined || !endsInSoftmax(model)) return null;
  return 'The model ends in a softmax, but the target is an amount. Remove the softmax.';
}

/**
 * Layers in the order of computation. For each layer, `sources` lists the indices of the layers
 * whose outputs are its inputs. For the first layer, this list is empty.
 */
export interface LayerGraph {
  layers: tf.layers.Layer[];
  sources: readonly (readonly number[])[];
}

/**
 * Creates the layers of a validated topology. A softmax at the end is left out, because the loss
 * applies it.
 *
 * @throws UsageError if inputs or outputs do not match the data.
 */
export function buildCustomLayers(topology: ModelTopology, samples: SampleProperties): LayerGraph {
  const problem = modelProblem(topology, samples);
  if (problem !== null) throw new UsageError(problem);
  const sources = inputLayerIndicesOf(topology);
  if (!endsInSoftmax(topology)) return { layers: topology.config.layers.map(toLayer), sources };
  const before = topology.config.layers.slice(0, -1).map(toLayer);
  const last = topology.config.layers.at(-1)!;
  // The layer before the softmax becomes the output of the model. It is the only layer whose output
  // is not an input of another layer.
  if (last.class_name === 'Softmax') return { layers: before, sources: sources.slice(0, -1) };
  const linear = toLayer({ ...last, config: { ...last.config, activation: 'linear' } } as LayerSpec);
  return { layers: [...before, linear], sources };
}

function toLayer({ class_name: className, config }: LayerSpec): tf.layers.Layer {
  const { classNameMap } = tf.serialization.SerializationMap.getMap();
  const [Class, fromConfig] = classNameMap[className]!;
  // Kernels are initialized afterwards, so the cheapest initializer (zeros) is used here. The
  // config is copied, because a layer may modify it.
  const kernels = { kernelInitializer: 'zeros', depthwiseInitializer: 'zeros' };
  return fromConfig(Class, { ...inCamelCase(structuredClone(config)), ...kernels }) as tf.layers.Layer;
}

/** Converts the field names of Keras to those of TensorFlow.js. */
function inCamelCase(config: object): tf.serialization.ConfigDict {
  const entries = Object.entries(config).map(([name, value]) => [
    name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
    value,
  ]);
  return Object.fromEntries(entries) as tf.serialization.ConfigDict;
}
