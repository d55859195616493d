/** A job's own model as TensorFlow.js's layers. */
import * as tf from '@tensorflow/tfjs';
import { sentenceOf } from '../../spec/fields.ts';
import type { JobSpec } from '../../spec/job.ts';
import type { Layer } from '../../spec/layers.ts';
import { endsInSoftmax, misfitOf, sourcesOf, type Topology } from '../../spec/topology.ts';
import { UsageError } from '../../util/errors.ts';
import type { Dataset } from '../dataset.ts';

/** What a model has to know of the samples. */
export type ModelSamples = Pick<Dataset, 'inputShape' | 'classes' | 'labelUnit'>;

/**
 * Why a job's model cannot learn from samples, in a sentence; `null`: it can, as named ones always
 * do.
 */
export function modelProblem(model: JobSpec['model'], { inputShape, classes, labelUnit }: ModelSamples): string | null {
  if (typeof model === 'string') return null;
  const problem = misfitOf(model, 'the samples', inputShape, classes);
  if (problem !== null) return `${sentenceOf({ ...problem, path: ['model', ...problem.path] })}.`;
  if (labelUnit === undefined || !endsInSoftmax(model)) return null;
  return 'The model ends in a softmax, and what it is to predict is an amount: leave the softmax out.';
}

/**
 * Layers in the order in which they compute, and the places of those that each takes from: of the
 * first none.
 */
export interface Plan {
  layers: tf.layers.Layer[];
  sources: readonly (readonly number[])[];
}

/**
 * Layers of a checked topology, but for a softmax at the end: the loss has it, and takes what comes
 * before.
 *
 * @throws UsageError where they take or give other than the data have.
 */
export function buildCustomLayers(topology: Topology, samples: ModelSamples): Plan {
  const problem = modelProblem(topology, samples);
  if (problem !== null) throw new UsageError(problem);
  const sources = sourcesOf(topology);
  if (!endsInSoftmax(topology)) return { layers: topology.config.layers.map(toLayer), sources };
  const before = topology.config.layers.slice(0, -1).map(toLayer);
  const last = topology.config.layers.at(-1)!;
  // What it took is what then comes last, as nothing else is open.
  if (last.class_name === 'Softmax') return { layers: before, sources: sources.slice(0, -1) };
  const linear = toLayer({ ...last, config: { ...last.config, activation: 'linear' } } as Layer);
  return { layers: [...before, linear], sources };
}

function toLayer({ class_name: className, config }: Layer): tf.layers.Layer {
  const { classNameMap } = tf.serialization.SerializationMap.getMap();
  const [Class, fromConfig] = classNameMap[className]!;
  // Written afterwards; zeros are the cheapest until then. A copy, as a layer may write into what
  // it is given.
  const kernels = { kernelInitializer: 'zeros', depthwiseInitializer: 'zeros' };
  return fromConfig(Class, { ...inCamelCase(structuredClone(config)), ...kernels }) as tf.layers.Layer;
}

/** Python's names as TensorFlow.js calls them. */
function inCamelCase(config: object): tf.serialization.ConfigDict {
  const entries = Object.entries(config).map(([name, value]) => [
    name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
    value,
  ]);
  return Object.fromEntries(entries) as tf.serialization.ConfigDict;
}
