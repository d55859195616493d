/**
 * Custom models as data, in the formats of Keras and TensorFlow.js (`model.to_json()`,
 * `model.toJSON()`): a Sequential or a Functional. A Functional may branch. It has one input and
 * one output, and its layers are listed in the order of computation. Validation does not use
 * TensorFlow.js, so a server or a page without it can reject or describe a model.
 */
import * as v from 'valibot';
import { elementCountOf } from '../util/shape.ts';
import { strictFieldsSchema, valibotIssuePath, type FieldProblem } from './fields.ts';
import { InboundNodesSchema, oneEndSchema, type InboundNodes } from './graph.ts';
import { formatShape, traceLayerShape, type LayerShape } from './layerShapes.ts';
import { LayerSpec, LayerNameSchema } from './layers.ts';

const MAX_LAYERS = 64;
/**
 * The largest size of the layers' JSON, in bytes. The job must fit in one control message, together
 * with the room's members and a list of files.
 */
const MAX_TOPOLOGY_BYTES = 12 * 1024;
/**
 * The largest number of weights of a tab. Their gradient is 40 MB, which takes several seconds per
 * step over WebRTC. With a pipeline, this limit applies to each stage.
 */
const MAX_PARAMETERS = 10_000_000;
/**
 * The largest number of output elements of a layer for one sample. A batch of 32 samples then takes
 * half a gigabyte.
 */
const MAX_LAYER_VALUES = 4_000_000;

const any = v.optional(v.unknown());
/** Fields that Keras and TensorFlow.js write for every model. A job ignores them. */
const UNUSED = {
  module: any,
  registered_name: any,
  build_config: any,
  compile_config: any,
  keras_version: any,
  backend: any,
};

/** A description of a layer for people. */
interface LayerRow {
  name: string;
  kind: LayerSpec['class_name'];
  shape: LayerShape;
  parameters: number;
}

type NamedLayer = LayerSpec & { config: { name: string } };
/** TensorFlow.js expects the name here, next to `config`. */
type GraphLayer = NamedLayer & { name: string; inbound_nodes: InboundNodes };

interface Sequential {
  class_name: 'Sequential';
  config: { name: string; layers: NamedLayer[] };
}

interface Functional {
  class_name: 'Functional';
  config: { name: string; layers: GraphLayer[]; input_layers: [string, 0, 0][]; output_layers: [string, 0, 0][] };
}

/** A validated model. */
export type ModelTopology = Sequential | Functional;

const nameOr = (usual: string) => v.optional(v.pipe(v.string(), v.maxLength(64)), usual);
const layersOf = <const Schema extends v.GenericSchema>(schema: Schema) =>
  v.pipe(v.array(schema), v.minLength(1), v.maxLength(MAX_LAYERS));

const SequentialFields = v.pipe(
  strictFieldsSchema({
    class_name: v.literal(
      'Sequential',
      'a model must be a Sequential, a sequence of layers, or a Functional, which may branch',
    ),
    config: strictFieldsSchema({
      name: nameOr('sequential'),
      layers: layersOf(LayerSpec),
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
  strictFieldsSchema({
    /** `Model` is the name in TensorFlow.js and old versions of Keras. */
    class_name: v.picklist(['Functional', 'Model']),
    config: strictFieldsSchema({
      name: nameOr('model'),
      layers: layersOf(
        v.intersect([LayerSpec, v.object({ name: LayerNameSchema, inbound_nodes: InboundNodesSchema })]),
      ),
      input_layers: oneEndSchema('input'),
      output_layers: oneEndSchema('output'),
      trainable: any,
      dtype: any,
      build_input_shape: any,
    }),
    ...UNUSED,
  }),
  v.transform(({ config }): Functional => {
    // Keras 3 always writes the name next to `config`, but not always inside `config`.
    const withNames = config.layers.map((layer) =>
      layer.name === undefined ? layer : ({ ...layer, config: { name: layer.name, ...layer.config } } as LayerSpec),
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

export const ModelTopology = v.pipe(
  v.lazy((model): v.GenericSchema<unknown, ModelTopology> => {
    const { class_name: kind } = model as { class_name?: unknown };
    return kind === 'Functional' || kind === 'Model' ? FunctionalFields : SequentialFields;
  }),
  v.rawCheck(({ dataset, addIssue }) => {
    const problem = dataset.typed ? problemIn(dataset.value) : null;
    if (problem !== null) addIssue({ message: problem.message, path: valibotIssuePath(problem.path) });
  }),
  v.transform((topology): ModelTopology => resolved(topology)),
);

export function layerRowsOf(topology: ModelTopology): LayerRow[] {
  return walk(topology).rows;
}

/**
 * For each layer, returns the indices of the layers whose outputs it reads. The list of the first
 * layer is empty.
 */
export function inputLayerIndicesOf(topology: ModelTopology): number[][] {
  if (topology.class_name === 'Sequential') return topology.config.layers.map((_, i) => (i === 0 ? [] : [i - 1]));
  const { layers } = topology.config;
  return layers.map(({ inbound_nodes: calls }) =>
    calls.flat().map(([taken]) => layers.findIndex((layer) => layer.name === taken)),
  );
}

export function inputAndOutputShapes(topology: ModelTopology): { input: LayerShape; outputs: LayerShape } {
  return { input: inputOf(topology.config.layers)!, outputs: layerRowsOf(topology).at(-1)!.shape };
}

/**
 * Returns the reason why a model does not fit samples of this shape with `outputs` outputs each;
 * `null` if it fits. The model may also expect a sample as one flat row.
 *
 * @param samples the name of the samples in the message.
 */
export function whyModelDoesNotFitSamples(
  topology: ModelTopology,
  samples: string,
  shape: LayerShape,
  outputs: number,
): FieldProblem | null {
  const { layers } = topology.config;
  const ends = inputAndOutputShapes(topology);
  const row = formatShape([elementCountOf(shape)]);
  if (![formatShape(shape), row].includes(formatShape(ends.input))) {
    const taken = formatShape(shape) === row ? row : `${formatShape(shape)}, or ${row} in one row`;
    return {
      path: ['config', 'layers', 0, 'config', 'batch_input_shape'],
      message: `the model needs samples of ${formatShape(ends.input)}, but ${samples} are ${taken}`,
    };
  }
  if (formatShape(ends.outputs) === formatShape([outputs])) return null;
  return {
    path: ['config', 'layers', layers.length - 1],
    message: `the model outputs ${formatShape(ends.outputs)}, but ${samples} have ${outputs === 1 ? 'an amount: [1]' : `${outputs} classes: [${outputs}]`}`,
  };
}

/** Returns whether the last layer applies a softmax. */
export function endsInSoftmax({ config: { layers } }: ModelTopology): boolean {
  return hasSoftmax(layers.at(-1)!);
}

/**
 * Gives names to layers that have none. A name consists of the class and a number, and is the same
 * on every rank.
 */
function named(layers: readonly LayerSpec[]): NamedLayer[] {
  return layers.map((layer, i) => {
    const { class_name: kind, config } = layer;
    const before = layers.slice(0, i).filter((other) => other.class_name === kind).length;
    const { name = `${kind.toLowerCase()}${before + 1}`, ...fields } = config;
    return { class_name: kind, config: { name, ...fields } } as NamedLayer;
  });
}

/**
 * Replaces -1 in the target shape of a Reshape by the number for which it stands, because
 * TensorFlow.js would otherwise not know the layer's output shape.
 */
function resolved(topology: ModelTopology): ModelTopology {
  const rows = layerRowsOf(topology);
  const written = topology.config.layers.map((layer, i) =>
    layer.class_name === 'Reshape'
      ? { ...layer, config: { ...layer.config, target_shape: [...rows[i]!.shape] } }
      : layer,
  );
  return { ...topology, config: { ...topology.config, layers: written } } as ModelTopology;
}

function problemIn(topology: ModelTopology): FieldProblem | null {
  const { layers } = topology.config;
  const twice = layers.findIndex(({ config: { name } }, i) => layers.findIndex((one) => one.config.name === name) < i);
  if (twice >= 0) {
    const { name } = layers[twice]!.config;
    return {
      path: ['config', 'layers', twice, 'config', 'name'],
      message: `another layer has the name "${name}", too`,
    };
  }
  if (inputOf(layers) === undefined) {
    return {
      path: ['config', 'layers', 0, 'config'],
      message: 'the first layer must state the shape of a sample, as "batch_input_shape": [null, 28, 28, 1]',
    };
  }
  const late = layers.findIndex(
    ({ class_name: kind, config }, i) => i > 0 && (kind === 'InputLayer' || config.batch_input_shape !== undefined),
  );
  if (late >= 0)
    return { path: ['config', 'layers', late], message: 'only the first layer may state the shape of a sample' };
  const early = layers.findIndex((layer, i) => i < layers.length - 1 && hasSoftmax(layer));
  if (early >= 0) {
    const message = 'only the last layer may be a softmax: remove it, or use another activation';
    return { path: ['config', 'layers', early], message };
  }
  const torn = topology.class_name === 'Functional' ? tornIn(topology) : null;
  if (torn !== null) return torn;
  const { rows, problem } = walk(topology);
  if (problem !== null) return problem;
  const large = rows.findIndex(({ shape }) => elementCountOf(shape) > MAX_LAYER_VALUES);
  if (large >= 0) {
    const message = `its output has ${elementCountOf(rows[large]!.shape)} numbers per sample, but at most ${MAX_LAYER_VALUES} are supported`;
    return { path: ['config', 'layers', large], message };
  }
  const parameters = rows.reduce((sum, row) => sum + row.parameters, 0);
  if (parameters === 0) return { path: ['config', 'layers'], message: 'no layer has weights to learn' };
  const bytes = JSON.stringify(layers).length;
  if (bytes <= MAX_TOPOLOGY_BYTES) return null;
  const message = `the layers take ${bytes} bytes, but at most ${MAX_TOPOLOGY_BYTES} are supported: use fewer layers or shorter names`;
  return { path: ['config', 'layers'], message };
}

/**
 * Returns a problem if a model has too many weights for its job.
 *
 * @param stages number of stages of the job's pipeline; 1 without a pipeline.
 */
export function whyModelIsTooLarge(topology: ModelTopology, stages: number): FieldProblem | null {
  const rows = layerRowsOf(topology);
  const parameters = rows.reduce((sum, row) => sum + row.parameters, 0);
  const most = MAX_PARAMETERS * stages;
  if (parameters <= most) return null;
  const largest = rows.findIndex((row) => row.parameters === Math.max(...rows.map((one) => one.parameters)));
  const where = stages === 1 ? 'in a tab: choose a pipeline' : `in ${stages} stages: choose more stages`;
  const message = `the model has ${parameters} weights, most of them in this layer, but at most ${most} are supported ${where}`;
  return { path: ['config', 'layers', largest], message };
}

/** Returns the first problem in the connections of the layers. */
function tornIn({ config: { layers, input_layers: inputs, output_layers: outputs } }: Functional): FieldProblem | null {
  const names = layers.map((layer) => layer.name);
  const last = names.at(-1)!;
  if (layers[0]!.class_name !== 'InputLayer') {
    return {
      path: ['config', 'layers', 0],
      message: 'the first layer must be the InputLayer, which states the shape of a sample',
    };
  }
  if (inputs[0]![0] !== names[0]) {
    return { path: ['config', 'input_layers'], message: `the input must be the first layer, "${names[0]}"` };
  }
  for (const [i, { inbound_nodes: calls }] of layers.entries()) {
    const path = ['config', 'layers', i, 'inbound_nodes'];
    const taken = calls.flat().map(([one]) => one);
    if (i === 0 && taken.length > 0) return { path, message: 'the input cannot read another layer' };
    if (i > 0 && taken.length === 0) return { path, message: 'it must list the layers that this layer reads' };
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
    return { path: ['config', 'layers', loose], message: 'no layer reads its output: remove it' };
  }
  if (outputs[0]![0] === last) return null;
  return { path: ['config', 'output_layers'], message: `the output must be the last layer, "${last}"` };
}

/** Computes the layers' outputs, up to the first layer with a problem. */
function walk(topology: ModelTopology): { rows: LayerRow[]; problem: FieldProblem | null } {
  const { layers } = topology.config;
  const sources = inputLayerIndicesOf(topology);
  const rows: LayerRow[] = [];
  for (const [i, layer] of layers.entries()) {
    const taken = sources[i]!.map((source) => rows[source]!.shape);
    const traced = traceLayerShape(layer, i === 0 ? [inputOf(layers)!] : taken);
    if ('problem' in traced) {
      const field = traced.field === undefined ? [] : ['config', traced.field];
      return { rows, problem: { path: ['config', 'layers', i, ...field], message: traced.problem } };
    }
    rows.push({ name: layer.config.name, kind: layer.class_name, ...traced });
  }
  return { rows, problem: null };
}

/** Returns the shape of a sample, if the first layer states it. */
function inputOf([first]: readonly LayerSpec[]): LayerShape | undefined {
  return first?.config.batch_input_shape?.slice(1) as LayerShape | undefined;
}

function hasSoftmax({ class_name: kind, config }: LayerSpec): boolean {
  return kind === 'Softmax' || ('activation' in config && config.activation === 'softmax');
}
