/**
 * A job's own model, as data: a Sequential of layers as Keras and TensorFlow.js describe theirs (`model.to_json()`, `model.toJSON()`).
 * Checked by arithmetic alone, so that a server and a page without TensorFlow.js can refuse it, and say what is in it.
 */
import * as v from 'valibot';
import { sizeOf } from '../util/shape.ts';
import { fieldsOf, issuePath, type Problem } from './fields.ts';
import { said, trace, type Shape } from './layerShapes.ts';
import { Layer } from './layers.ts';

export const MAX_LAYERS = 64;
/** Of its JSON. A job is part of messages of 64 KiB, together with the room's roster and a list of files. */
export const MAX_TOPOLOGY_BYTES = 12 * 1024;
/** Its gradient has 40 MB, with which a ring over WebRTC takes several seconds a step. */
export const MAX_PARAMETERS = 10_000_000;
/** Numbers that a layer gives for one sample: a batch of 32 takes half a gigabyte. */
const MAX_LAYER_VALUES = 4_000_000;

const any = v.optional(v.unknown());
/** What Keras and TensorFlow.js say of any model, and a job need not know. */
const UNUSED = {
  ...{ module: any, registered_name: any, build_config: any, compile_config: any, keras_version: any, backend: any },
};

/** One layer, for people. */
export interface LayerRow {
  name: string;
  kind: Layer['class_name'];
  /** What it gives for a sample. */
  shape: Shape;
  parameters: number;
}

type NamedLayer = Layer & { config: { name: string } };

export const Topology = v.pipe(
  fieldsOf({
    class_name: v.literal('Sequential', 'a model is a Sequential here, of layers one behind the other'),
    config: fieldsOf({
      name: v.optional(v.pipe(v.string(), v.maxLength(64)), 'sequential'),
      layers: v.pipe(v.array(Layer), v.minLength(1), v.maxLength(MAX_LAYERS)),
      ...{ trainable: any, dtype: any, build_input_shape: any },
    }),
    ...UNUSED,
  }),
  v.transform(({ class_name: className, config: { name, layers } }) => ({
    class_name: className,
    config: { name, layers: named(layers) },
  })),
  v.rawCheck(({ dataset, addIssue }) => {
    const problem = dataset.typed ? problemIn(dataset.value) : null;
    if (problem !== null) addIssue({ message: problem.message, path: issuePath(problem.path) });
  }),
  v.transform(({ class_name: className, config: { name, layers } }) => ({
    class_name: className,
    config: { name, layers: resolved(layers) },
  })),
);
export type Topology = v.InferOutput<typeof Topology>;

/** What each layer gives, of a topology that was checked. */
export function rowsOf({ config: { layers } }: Topology): LayerRow[] {
  const { rows } = walk(layers);
  return rows;
}

/** What a sample has to be, and how many numbers answer it. */
export function endsOf(topology: Topology): { input: Shape; outputs: Shape } {
  return { input: inputOf(topology.config.layers)!, outputs: rowsOf(topology).at(-1)!.shape };
}

/**
 * Why a model cannot learn from samples of that shape, in `outputs` numbers each; `null`: it can. Their numbers may be in one row.
 *
 * @param samples what they are called in a sentence.
 */
export function misfitOf(topology: Topology, samples: string, shape: Shape, outputs: number): Problem | null {
  const { layers } = topology.config;
  const ends = endsOf(topology);
  const row = said([sizeOf(shape)]);
  if (![said(shape), row].includes(said(ends.input))) {
    const taken = said(shape) === row ? row : `${said(shape)}, or ${row} in one row`;
    return {
      path: ['config', 'layers', 0, 'config', 'batch_input_shape'],
      message: `the model takes samples of ${said(ends.input)}, and ${samples} are ${taken}`,
    };
  }
  if (said(ends.outputs) === said([outputs])) return null;
  return {
    path: ['config', 'layers', layers.length - 1],
    message: `the model answers ${said(ends.outputs)}, and ${samples} have ${outputs === 1 ? 'an amount: [1]' : `${outputs} classes: [${outputs}]`}`,
  };
}

/** Whether the last layer makes probabilities of what it is given. */
export function endsInSoftmax({ config: { layers } }: Topology): boolean {
  return hasSoftmax(layers.at(-1)!);
}

/** Layers without names get some that are the same on every rank: their class, and which of its layers they are. */
function named(layers: readonly Layer[]): NamedLayer[] {
  return layers.map((layer, i) => {
    const { class_name: kind, config } = layer;
    const before = layers.slice(0, i).filter((other) => other.class_name === kind).length;
    const { name = `${kind.toLowerCase()}${before + 1}`, ...fields } = config;
    return { class_name: kind, config: { name, ...fields } } as NamedLayer;
  });
}

/** TensorFlow.js leaves open what -1 stands for, and then knows no shape behind it. */
function resolved(layers: readonly NamedLayer[]): NamedLayer[] {
  const { rows } = walk(layers);
  return layers.map((layer, i) =>
    layer.class_name === 'Reshape'
      ? { ...layer, config: { ...layer.config, target_shape: [...rows[i]!.shape] } }
      : layer,
  );
}

function problemIn({ config: { layers } }: { config: { layers: readonly NamedLayer[] } }): Problem | null {
  const twice = layers.findIndex(({ config: { name } }, i) => layers.findIndex((one) => one.config.name === name) < i);
  if (twice >= 0) {
    const { name } = layers[twice]!.config;
    return { path: ['config', 'layers', twice, 'config', 'name'], message: `another layer is named "${name}", too` };
  }
  if (inputOf(layers) === undefined) {
    return {
      path: ['config', 'layers', 0, 'config'],
      message: 'the first layer says what a sample is, as "batch_input_shape": [null, 28, 28, 1]',
    };
  }
  const late = layers.findIndex(
    ({ class_name: kind, config }, i) => i > 0 && (kind === 'InputLayer' || config.batch_input_shape !== undefined),
  );
  if (late >= 0) return { path: ['config', 'layers', late], message: 'only the first layer says what a sample is' };
  const early = layers.findIndex((layer, i) => i < layers.length - 1 && hasSoftmax(layer));
  if (early >= 0) {
    const message = 'only the last layer may be a softmax, which is part of the loss then';
    return { path: ['config', 'layers', early], message };
  }
  const { rows, problem } = walk(layers);
  if (problem !== null) return problem;
  const large = rows.findIndex(({ shape }) => sizeOf(shape) > MAX_LAYER_VALUES);
  if (large >= 0) {
    const message = `it gives ${sizeOf(rows[large]!.shape)} numbers for a sample, and at most ${MAX_LAYER_VALUES} can be kept`;
    return { path: ['config', 'layers', large], message };
  }
  const parameters = rows.reduce((sum, row) => sum + row.parameters, 0);
  if (parameters === 0) return { path: ['config', 'layers'], message: 'no layer has weights to learn' };
  if (parameters > MAX_PARAMETERS) {
    const largest = rows.findIndex((row) => row.parameters === Math.max(...rows.map((one) => one.parameters)));
    const message = `the model has ${parameters} weights, most of them here, and at most ${MAX_PARAMETERS} go round a ring`;
    return { path: ['config', 'layers', largest], message };
  }
  const bytes = JSON.stringify(layers).length;
  if (bytes <= MAX_TOPOLOGY_BYTES) return null;
  const message = `they take ${bytes} bytes, and at most ${MAX_TOPOLOGY_BYTES} reach every tab: take fewer layers, or shorter names`;
  return { path: ['config', 'layers'], message };
}

/** Layer after layer, up to the first that does not fit. */
function walk(layers: readonly NamedLayer[]): { rows: LayerRow[]; problem: Problem | null } {
  const rows: LayerRow[] = [];
  let shape = inputOf(layers)!;
  for (const [i, layer] of layers.entries()) {
    const traced = trace(layer, shape);
    if ('misfit' in traced) {
      const field = traced.field === undefined ? [] : ['config', traced.field];
      return { rows, problem: { path: ['config', 'layers', i, ...field], message: traced.misfit } };
    }
    ({ shape } = traced);
    rows.push({ name: layer.config.name, kind: layer.class_name, ...traced });
  }
  return { rows, problem: null };
}

/** The shape of a sample, if the first layer says one. */
function inputOf([first]: readonly Layer[]): Shape | undefined {
  return first?.config.batch_input_shape?.slice(1) as Shape | undefined;
}

function hasSoftmax({ class_name: kind, config }: Layer): boolean {
  return kind === 'Softmax' || ('activation' in config && config.activation === 'softmax');
}
