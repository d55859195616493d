/**
 * A model's graph in stages, cut at its SyncBatchNormalization layers: what a stage computes needs
 * no other rank, and between one and the next the statistics of the layers in between are
 * exchanged. Layers that become ready together are in one cut.
 */
import * as tf from '@tensorflow/tfjs';
import { UsageError } from '../../util/errors.ts';
import type { Model } from '../ddp/flatten.ts';
import { SyncBatchNormalization } from './syncBatchNorm.ts';

/** A layer applied once; inputs and outputs are values of the graph by number. */
export interface LayerCall {
  layer: tf.layers.Layer;
  inputs: number[];
  outputs: number[];
}

export interface SyncCall {
  layer: SyncBatchNormalization;
  input: number;
  output: number;
}

export interface Stage {
  /** In an order in which they can be computed. */
  calls: LayerCall[];
  /**
   * Of the cut behind this stage: their outputs are values of the next. The last stage has none.
   */
  syncs: SyncCall[];
  /** What the calls read and do not compute, but for the model's inputs. */
  reads: number[];
  /** What the calls compute that is read elsewhere, or is the model's output. */
  keeps: number[];
}

export interface StagedModel {
  /** By value, as the model declares it; the model's inputs come first. */
  dtypes: tf.DataType[];
  outputs: number[];
  stages: Stage[];
  /** Of all stages, in the order in which TensorFlow.js would apply them. */
  syncs: SyncCall[];
}

/**
 * Whether a pass through the model needs other ranks' statistics: a model of many layers is walked
 * only where it does.
 */
export function hasSyncLayers({ layers }: Model): boolean {
  return layers.some((layer) =>
    layer instanceof tf.LayersModel
      ? hasSyncLayers(layer)
      : layer instanceof SyncBatchNormalization || isWrapped(layer),
  );
}

/**
 * @throws UsageError where a SyncBatchNormalization is inside another layer than a model (such as
 *   TimeDistributed), where no cut reaches it.
 */
export function cutIntoStages(model: Model): StagedModel {
  const dtypes: tf.DataType[] = [];
  /** By value: the number of cuts before it. */
  const depths: number[] = [];
  const addValue = ({ dtype }: tf.SymbolicTensor, depth: number): number => {
    depths.push(depth);
    return dtypes.push(dtype) - 1;
  };
  const calls: LayerCall[] = [];
  const syncs: SyncCall[] = [];

  /** Adds what `layer` does to the graph and gives its outputs' values. */
  const apply = (layer: tf.layers.Layer, inputs: number[], outputs: readonly tf.SymbolicTensor[]): number[] => {
    if (layer instanceof tf.LayersModel) return expand(layer, inputs);
    refuseWrapped(layer);
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

  /** Adds the graph of a model, or of one within it, and gives its outputs' values. */
  const expand = (container: Model, given: readonly number[]): number[] => {
    const values = new Map(container.inputs.map(({ id }, i) => [id, given[i]!]));
    const visit = (symbolic: tf.SymbolicTensor): number => {
      if (!values.has(symbolic.id)) {
        // The last input first, as TensorFlow.js does it: moving averages depend on the order where
        // a layer is shared.
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

  const stages = Array.from({ length: Math.max(...depths) + 1 }, (_, stage): Stage => {
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

function refuseWrapped(wrapper: tf.layers.Layer): void {
  if (!isWrapped(wrapper)) return;
  throw new UsageError(
    `The layer "${wrapper.name}" wraps a SyncBatchNormalization, which can only be synchronized as a layer of the model ` +
      'itself: take it out of the wrapper.',
  );
}
