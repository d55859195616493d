/** Reads and writes the variables of the models that the library can save. */
import type * as tf from '@tensorflow/tfjs';
import type { NamedTensor, KerasTopology } from '../../formats/weights/namedTensor.ts';
import { assignWeights, readModelWeights } from '../../engine/model/modelWeights.ts';
import type { Optimizer } from '../../optim/optimizer.ts';
import type { FlatLayout } from '../../parallel/flat/buckets.ts';
import type { DistributedDataParallel } from '../../parallel/ddp/distributedDataParallel.ts';
import { variablesOf, type Model, type ModelVariables, type Variable } from '../../parallel/backward/flatten.ts';
import type { TensorflowOptimizer } from '../../parallel/flat/optimizerOf.ts';
import { checkModelFileSize } from '../../spec/modelFile.ts';
import { UsageError } from '../../util/errors.ts';

/** A wrapped model whose parameters are also in one flat array: DDP or DataParallel. */
export interface WrappedModel {
  readonly variables: ModelVariables;
  readonly parameters: Float32Array<ArrayBuffer>;
  readonly layout: FlatLayout;
  /** Whether the caller has set weights on the model, so that they differ from `parameters`. */
  readonly isModelChanged: boolean;
  /** Copies `parameters` to the model. */
  writeParameters(): void;
  /** Drops the gradients that were computed from earlier weights. */
  dropGradients(): void;
  flatOptimizer(optimizer: Optimizer | TensorflowOptimizer): Optimizer;
}

/** A model without a process group: a LayersModel, a list of variables, or a DataParallel. */
export type LocalModel = Model | readonly Variable[] | WrappedModel;

/** A model that can be saved. If it is a DDP, only one of its ranks writes a file. */
export type SavedModel = LocalModel | DistributedDataParallel;

/** A model, its variables in forward order (parameters, then buffers), and their names. */
export interface StorableModel {
  readonly flat: WrappedModel | null;
  readonly ddp: DistributedDataParallel | null;
  readonly model: Model | null;
  readonly parameters: readonly Variable[];
  readonly variables: readonly Variable[];
  readonly names: readonly string[];
}

/**
 * Describes a model. As in `model.save` of TensorFlow.js, the name of a weight in a LayersModel
 * consists of the layer's name and the weight's name: `dense1/kernel`. In a list of variables, each
 * variable keeps its name.
 *
 * @throws UsageError if a variable is not float32, or two variables have the same name.
 */
export function storableModelOf(saved: SavedModel): StorableModel {
  const flat = 'writeParameters' in saved ? saved : null;
  const ddp = flat !== null && 'group' in flat ? (flat as DistributedDataParallel) : null;
  const { model, parameters, buffers } = flat ? flat.variables : variablesOf(saved as Model | readonly Variable[]);
  const variables = [...parameters, ...buffers];
  const names = model ? namesIn(model, variables) : variables.map(({ name }) => name);
  for (const [i, { dtype }] of variables.entries()) {
    if (dtype !== 'float32') {
      throw new UsageError(`The variable "${names[i]}" is ${dtype}, but files have float32 weights. Leave it out.`);
    }
  }
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) {
    throw new UsageError(`Two variables of the model are called "${twice}". Give each layer a name of its own.`);
  }
  return { flat, ddp, model, parameters, variables, names };
}

function namesIn(model: Model, variables: readonly Variable[]): string[] {
  // `originalName` is used because TensorFlow.js adds a suffix to `name`, to make it unique on the
  // page.
  const names = new Map(model.weights.map((weight) => [(weight.read() as tf.Variable).id, weight.originalName]));
  return variables.map((variable) => names.get(variable.id)!);
}

/**
 * Layers whose weights are in inner layers or cells. Keras stores the weights of inner layers and
 * cells at other paths.
 */
const WRAPPER = /^(TimeDistributed|Bidirectional|RNN|SimpleRNN|GRU|LSTM|StackedRNNCells|ConvLSTM2D|ConvRNN2D)$/;

/**
 * Returns the topology of a model, which is needed to write or read a file of Keras weights.
 *
 * @throws UsageError if the model is not made of layers, or if a layer contains inner layers or
 *   cells.
 */
export function topologyOfModel({ model }: StorableModel): KerasTopology {
  if (!model) throw new UsageError('Keras weights need a LayersModel. Save a list of variables as safetensors.');
  const topology = model.toJSON(null, false) as unknown as KerasTopology;
  checkLayers(topology.config.layers);
  return topology;
}

function checkLayers(layers: KerasTopology['config']['layers']): void {
  for (const { class_name: kind, config } of layers) {
    if (WRAPPER.test(kind)) {
      throw new UsageError(
        `The layer "${config.name}" (${kind}) contains other layers or cells, whose place in Keras's ` +
          'format is not supported. Save the model as safetensors.',
      );
    }
    checkLayers(config.layers ?? []);
  }
}

/**
 * Checks the size of a file before its tensors are copied.
 *
 * @param others the arrays in the file that are not weights.
 * @throws DataError if the file would be too large to be loaded.
 */
export function checkModelSize({ variables }: StorableModel, others: readonly ArrayBufferView[]): void {
  const values = variables.reduce((sum, { size }) => sum + size, 0) * Float32Array.BYTES_PER_ELEMENT;
  checkModelFileSize(
    'The file',
    others.reduce((sum, { byteLength }) => sum + byteLength, values),
  );
}

/**
 * Copies the values that all variables have at the time of the call. If the model still has the
 * values of the flat array, parameters are copied from this array, because devices that compute in
 * 16 bits return rounded values.
 */
export async function readModelValues({ flat, parameters, variables, names }: StorableModel): Promise<NamedTensor[]> {
  if (!flat || flat.isModelChanged) return readModelWeights({ names, variables });
  const values = flat.layout.slots
    .toSorted((a, b) => a.parameter - b.parameter)
    .map(({ offset, size }) => flat.parameters.slice(offset, offset + size));
  const count = parameters.length;
  const buffers = readModelWeights({ names: names.slice(count), variables: variables.slice(count) });
  const tensors = values.map((own, i) => ({ name: names[i]!, shape: parameters[i]!.shape, values: own }));
  return [...tensors, ...(await buffers)];
}

/**
 * Sets all variables. Drops the gradients, because they were computed from the old weights.
 *
 * @param values the values of each variable, which {@link matchWeights} has checked.
 */
export function writeModelValues(
  { flat, parameters, variables }: StorableModel,
  values: readonly Float32Array<ArrayBuffer>[],
): void {
  if (!flat) return assignWeights(variables, values);
  for (const { parameter, offset } of flat.layout.slots) flat.parameters.set(values[parameter]!, offset);
  flat.writeParameters();
  flat.dropGradients();
  assignWeights(variables.slice(parameters.length), values.slice(parameters.length));
}
