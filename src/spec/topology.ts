/**
 * A job's own model, as data: layers as Keras and TensorFlow.js describe theirs (`model.to_json()`,
 * `model.toJSON()`), one behind the other in a Sequential, or in a Functional, which may branch:
 * there layers stand in the order in which they compute, and all lead from one input to one output.
 * Checked by arithmetic alone, so that a server and a page without TensorFlow.js can refuse it, and
 * say what is in it.
 */
import * as v from 'valibot';
import { sizeOf } from '../util/shape.ts';
import { fieldsOf, issuePath, type Problem } from './fields.ts';
import { Inbounds, oneEnd, type Inbound } from './graph.ts';
import { said, trace, type Shape } from './layerShapes.ts';
import { Layer, LayerName } from './layers.ts';

const MAX_LAYERS = 64;
/**
 * Of its JSON. A job is part of messages of 64 KiB, together with the room's roster and a list of
 * files.
 */
const MAX_TOPOLOGY_BYTES = 12 * 1024;
/** Its gradient has 40 MB, with which a ring over WebRTC takes several seconds a step. */
const MAX_PARAMETERS = 10_000_000;
/** Numbers that a layer gives for one sample: a batch of 32 takes half a gigabyte. */
const MAX_LAYER_VALUES = 4_000_000;

const any = v.optional(v.unknown());
/** What Keras and TensorFlow.js say of any model, and a job need not know. */
const UNUSED = {
  module: any,
  registered_name: any,
  build_config: any,
  compile_config: any,
  keras_version: any,
  backend: any,
};

/** One layer, for people. */
interface LayerRow {
  name: string;
  kind: Layer['class_name'];
  /** What it gives for a sample. */
  shape: Shape;
  parameters: number;
}

type NamedLayer = Layer & { config: { name: string } };
/** Its name stands beside its fields, too, where TensorFlow.js looks for it. */
type GraphLayer = NamedLayer & { name: string; inbound_nodes: Inbound };

interface Sequential {
  class_name: 'Sequential';
  config: { name: string; layers: NamedLayer[] };
}

interface Functional {
  class_name: 'Functional';
  config: { name: string; layers: GraphLayer[]; input_layers: [string, 0, 0][]; output_layers: [string, 0, 0][] };
}

/** A checked one. */
export type Topology = Sequential | Functional;

const nameOr = (usual: string) => v.optional(v.pipe(v.string(), v.maxLength(64)), usual);
const layersOf = <const Schema extends v.GenericSchema>(schema: Schema) =>
  v.pipe(v.array(schema), v.minLength(1), v.maxLength(MAX_LAYERS));

const SequentialFields = v.pipe(
  fieldsOf({
    class_name: v.literal(
      'Sequential',
      'a model is a Sequential here, of layers one behind the other, or a Functional, which may branch',
    ),
    config: fieldsOf({
      name: nameOr('sequential'),
      layers: layersOf(Layer),
      trainable: any,
      dtype: any,
      build_input_shape: any,
    }),
    ...UNUSED,
  }),
  v.transform(({ class_name: className, config }): Sequential => ({
    class_name: className,
    config: { name: config.name, layers: named(config.layers) },
  })),
);

const FunctionalFields = v.pipe(
  fieldsOf({
    /** `Model` is TensorFlow.js's and old Keras's name of it. */
    class_name: v.picklist(['Functional', 'Model']),
    config: fieldsOf({
      name: nameOr('model'),
      layers: layersOf(v.intersect([Layer, v.object({ name: LayerName, inbound_nodes: Inbounds })])),
      input_layers: oneEnd('input'),
      output_layers: oneEnd('output'),
      trainable: any,
      dtype: any,
      build_input_shape: any,
    }),
    ...UNUSED,
  }),
  v.transform(({ config }): Functional => {
    // Above its fields is where Keras 3 says a name for sure.
    const withNames = config.layers.map((layer) =>
      layer.name === undefined ? layer : ({ ...layer, config: { name: layer.name, ...layer.config } } as Layer),
    );
    const layers = named(withNames).map((layer, i): GraphLayer => ({
      name: layer.config.name,
      ...layer,
      inbound_nodes: config.layers[i]!.inbound_nodes,
    }));
    const { input_layers: inputs, output_layers: outputs } = config;
    return {
      class_name: 'Functional',
      config: { name: config.name, layers, input_layers: inputs, output_layers: outputs },
    };
  }),
);

export const Topology = v.pipe(
  v.lazy((model): v.GenericSchema<unknown, Topology> => {
    const { class_name: kind } = model as { class_name?: unknown };
    return kind === 'Functional' || kind === 'Model' ? FunctionalFields : SequentialFields;
  }),
  v.rawCheck(({ dataset, addIssue }) => {
    const problem = dataset.typed ? problemIn(dataset.value) : null;
    if (problem !== null) addIssue({ message: problem.message, path: issuePath(problem.path) });
  }),
  v.transform((topology): Topology => resolved(topology)),
);

/** What each layer gives, of a topology that was checked. */
export function rowsOf(topology: Topology): LayerRow[] {
  return walk(topology).rows;
}

/** Of each layer, the places of those that it takes from: of the first none. */
export function sourcesOf(topology: Topology): number[][] {
  if (topology.class_name === 'Sequential') return topology.config.layers.map((_, i) => (i === 0 ? [] : [i - 1]));
  const { layers } = topology.config;
  return layers.map(({ inbound_nodes: calls }) =>
    calls.flat().map(([taken]) => layers.findIndex((layer) => layer.name === taken)),
  );
}

/** What a sample has to be, and how many numbers answer it. */
export function endsOf(topology: Topology): { input: Shape; outputs: Shape } {
  return { input: inputOf(topology.config.layers)!, outputs: rowsOf(topology).at(-1)!.shape };
}

/**
 * Why a model cannot learn from samples of that shape, in `outputs` numbers each; `null`: it can.
 * Their numbers may be in one row.
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

/**
 * Layers without names get some that are the same on every rank: their class, and which of its
 * layers they are.
 */
function named(layers: readonly Layer[]): NamedLayer[] {
  return layers.map((layer, i) => {
    const { class_name: kind, config } = layer;
    const before = layers.slice(0, i).filter((other) => other.class_name === kind).length;
    const { name = `${kind.toLowerCase()}${before + 1}`, ...fields } = config;
    return { class_name: kind, config: { name, ...fields } } as NamedLayer;
  });
}

/** TensorFlow.js leaves open what -1 stands for, and then knows no shape behind it. */
function resolved(topology: Topology): Topology {
  const rows = rowsOf(topology);
  const written = topology.config.layers.map((layer, i) =>
    layer.class_name === 'Reshape'
      ? { ...layer, config: { ...layer.config, target_shape: [...rows[i]!.shape] } }
      : layer,
  );
  return { ...topology, config: { ...topology.config, layers: written } } as Topology;
}

function problemIn(topology: Topology): Problem | null {
  const { layers } = topology.config;
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
  const torn = topology.class_name === 'Functional' ? tornIn(topology) : null;
  if (torn !== null) return torn;
  const { rows, problem } = walk(topology);
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

/** Where layers do not lead from the input to the output. */
function tornIn({ config: { layers, input_layers: inputs, output_layers: outputs } }: Functional): Problem | null {
  const names = layers.map((layer) => layer.name);
  const last = names.at(-1)!;
  if (layers[0]!.class_name !== 'InputLayer') {
    return { path: ['config', 'layers', 0], message: 'the first layer is the InputLayer, which says what a sample is' };
  }
  if (inputs[0]![0] !== names[0]) {
    return { path: ['config', 'input_layers'], message: `the input is the first layer, "${names[0]}"` };
  }
  for (const [i, { inbound_nodes: calls }] of layers.entries()) {
    const path = ['config', 'layers', i, 'inbound_nodes'];
    const taken = calls.flat().map(([one]) => one);
    if (i === 0 && taken.length > 0) return { path, message: 'the input takes from no layer' };
    if (i > 0 && taken.length === 0) return { path, message: 'it names the layers that this one takes from' };
    const odd = taken.find((one) => !names.slice(0, i).includes(one));
    if (odd !== undefined) {
      const message = names.includes(odd)
        ? `"${odd}" comes later: put it before this layer`
        : `there is no layer "${odd}"`;
      return { path, message };
    }
  }
  const used = new Set(layers.flatMap(({ inbound_nodes: calls }) => calls.flat().map(([one]) => one)));
  const loose = names.findIndex((one) => !used.has(one) && one !== last);
  if (loose >= 0) {
    return { path: ['config', 'layers', loose], message: 'nothing takes what it gives: leave it out' };
  }
  if (outputs[0]![0] === last) return null;
  return { path: ['config', 'output_layers'], message: `the output is the last layer, "${last}"` };
}

/** Layer after layer, up to the first that does not fit. */
function walk(topology: Topology): { rows: LayerRow[]; problem: Problem | null } {
  const { layers } = topology.config;
  const sources = sourcesOf(topology);
  const rows: LayerRow[] = [];
  for (const [i, layer] of layers.entries()) {
    const taken = sources[i]!.map((source) => rows[source]!.shape);
    const traced = trace(layer, i === 0 ? [inputOf(layers)!] : taken);
    if ('misfit' in traced) {
      const field = traced.field === undefined ? [] : ['config', traced.field];
      return { rows, problem: { path: ['config', 'layers', i, ...field], message: traced.misfit } };
    }
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
