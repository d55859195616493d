/**
 * Divides a model's graph into stages at its SyncBatchNormalization layers. A stage needs no data
 * of other ranks; between two stages ranks exchange the statistics of the layers in between. Layers
 * that become ready together share one exchange.
 */
import * as tf from '@tensorflow/tfjs';
import { UsageError } from '../../util/errors.ts';
import type { Model } from './flatten.ts';
import { SyncBatchNormalization } from './syncBatchNorm.ts';

/**
 * One call of a layer. Each value of the graph has a number; inputs and outputs are lists of these
 * numbers.
 */
export interface GraphLayerCall {
  layer: tf.layers.Layer;
  inputs: number[];
  outputs: number[];
}

export interface SyncBatchNormCall {
  layer: SyncBatchNormalization;
  input: number;
  output: number;
}

export interface SyncBatchNormStage {
  /** Calls of this stage, in an order in which they can be computed. */
  calls: GraphLayerCall[];
  /**
   * SyncBatchNormalization calls after this stage; their outputs are values of the next stage. The
   * last stage has none.
   */
  syncs: SyncBatchNormCall[];
  /** Values that the calls read but do not compute, except the model's inputs. */
  reads: number[];
  /** Computed values that other stages or exchanges read, or that are the model's output. */
  keeps: number[];
}

export interface SyncBatchNormModel {
  /** Data type of each value, as the model declares it; the model's inputs come first. */
  dtypes: tf.DataType[];
  outputs: number[];
  stages: SyncBatchNormStage[];
  /**
   * SyncBatchNormalization calls of all stages, in the order in which TensorFlow.js applies them.
   */
  syncs: SyncBatchNormCall[];
}

/** Whether a pass through the model needs other ranks' statistics. */
export function hasSyncBatchNorm({ layers }: Model): boolean {
  return layers.some((layer) =>
    layer instanceof tf.LayersModel
      ? hasSyncBatchNorm(layer)
      : layer instanceof SyncBatchNormalization || isWrapped(layer),
  );
}

/**
 * @throws UsageError if a SyncBatchNormalization layer is inside a layer that cannot be divided:
 *   any layer except a model, such as TimeDistributed.
 */
export function cutAtSyncBatchNorm(model: Model): SyncBatchNormModel {
  const dtypes: tf.DataType[] = [];
  /** For each value, the number of exchanges before it. */
  const depths: number[] = [];
  const addValue = ({ dtype }: tf.SymbolicTensor, depth: number): number => {
    depths.push(depth);
    return dtypes.push(dtype) - 1;
  };
  const calls: GraphLayerCall[] = [];
  const syncs: SyncBatchNormCall[] = [];

  /** Adds a layer call to the graph and returns the values of its outputs. */
  const apply = (layer: tf.layers.Layer, inputs: number[], outputs: readonly tf.SymbolicTensor[]): number[] => {
    if (layer instanceof tf.LayersModel) return expand(layer, inputs);
    rejectWrapped(layer);
    const depth = Math.max(...inputs.map((value) => depths[value]!));
    if (layer instanceof SyncBatchNormalization) {
      const output = addValue(outputs[0]!, depth + 1);
      syncs.push({ layer, input: inputs[0]!, output });
      return [output];
    }
    const values = outputs.map((symbolic) => addValue(symbolic, depth));
    calls.push({ layer, inputs, outputs: values });
    return values;
  };

  /** Adds the graph of a model, or of a nested model, and returns the values of its outputs. */
  const expand = (container: Model, given: readonly number[]): number[] => {
    const values = new Map(container.inputs.map(({ id }, i) => [id, given[i]!]));
    const visit = (symbolic: tf.SymbolicTensor): number => {
      if (!values.has(symbolic.id)) {
        // The last input is visited first, as in TensorFlow.js, because the moving averages of a
        // shared layer depend on the order.
        const inputs = symbolic.inputs.toReversed().map(visit).toReversed();
        const { outputTensors } = symbolic.sourceLayer.inboundNodes[symbolic.nodeIndex]!;
        const results = apply(symbolic.sourceLayer, inputs, outputTensors);
        for (const [i, { id }] of outputTensors.entries()) values.set(id, results[i]!);
      }
      return values.get(symbolic.id)!;
    };
    return container.outputs.map(visit);
  };

  const inputs = model.inputs.map((symbolic) => addValue(symbolic, 0));
  const outputs = expand(model, inputs);

  const stages = Array.from({ length: Math.max(...depths) + 1 }, (_, stage): SyncBatchNormStage => {
    const own = calls.filter((call) => depths[call.outputs[0]!] === stage);
    const computed = new Set(own.flatMap((call) => call.outputs));
    const read = new Set(own.flatMap((call) => call.inputs));
    return {
      calls: own,
      syncs: syncs.filter(({ input }) => depths[input] === stage),
      reads: Array.from(read).filter((value) => !computed.has(value) && value >= inputs.length),
      keeps: Array.from(computed),
    };
  });
  const readElsewhere = new Set([
    ...stages.flatMap(({ reads }) => reads),
    ...syncs.map(({ input }) => input),
    ...outputs,
  ]);
  for (const stage of stages) stage.keeps = stage.keeps.filter((value) => readElsewhere.has(value));
  return { dtypes, outputs, stages, syncs };
}

function isWrapped(layer: tf.layers.Layer): boolean {
  return 'layer' in layer && layer.layer instanceof SyncBatchNormalization;
}

function rejectWrapped(wrapper: tf.layers.Layer): void {
  if (!isWrapped(wrapper)) return;
  throw new UsageError(
    `The layer "${wrapper.name}" wraps a SyncBatchNormalization layer. It can only be synchronized as a layer of the model ` +
      'itself. Take it out of the wrapper.',
  );
}
