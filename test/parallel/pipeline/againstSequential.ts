/** Trains layers in a pipeline and in a `tf.Sequential`, from the same weights. */
import * as tf from '@tensorflow/tfjs';
import { expect } from 'vitest';
import { Schedule1F1B } from '../../../src/parallel/pipeline/pipelineSchedule.ts';
import { PipelineStage } from '../../../src/parallel/pipeline/pipelineStage.ts';
import { runWorld } from '../../../src/testing/index.ts';

export type Layer = tf.layers.Layer;
export type Model = () => Layer[];

export const SAMPLES = 4;
const STEPS = 2;

interface Trained {
  losses: number[];
  weights: number[][];
  outputs: number[];
}

export interface Options {
  /** 1 for layers whose result depends on the other samples of a batch. */
  microBatches?: number;
  /** Changes the built layers before they are trained. */
  prepare?: (layers: readonly Layer[]) => void;
  /** Changes them before a step. */
  between?: (layers: readonly Layer[], step: number) => void;
  recompute?: boolean;
  inputs?: tf.Tensor;
  /** Layers that the ranks hold. By default a layer each. */
  stages?: (layers: number) => number[];
}

function weightsOf(layer: Layer): number[] {
  return layer.weights.flatMap((weight) => Array.from(weight.read().dataSync()));
}

function shapeOf(first: Layer): number[] {
  const shape = first instanceof tf.LayersModel ? first.inputs[0]!.shape : first.batchInputShape;
  return shape.slice(1) as number[];
}

function inputsOf(layers: readonly Layer[]): tf.Tensor {
  return tf.randomUniform([SAMPLES, ...shapeOf(layers[0]!)], -1, 1, 'float32', 5);
}

const targets = () => tf.randomNormal([SAMPLES, 2], 0, 1, 'float32', 6);

/** The weights of each layer before the first step. */
type Weights = readonly tf.Tensor[][];

export async function trainAlone(
  make: Model,
  initial: Weights,
  { prepare, between, inputs }: Options,
): Promise<Trained> {
  const layers = make();
  const x = inputs ?? inputsOf(layers);
  const model = tf.sequential({ layers });
  for (const [i, layer] of layers.entries()) layer.setWeights(initial[i]!);
  prepare?.(layers);
  const losses: number[] = [];
  const y = targets();
  for (let step = 0; step < STEPS; step++) {
    between?.(layers, step);
    // TensorFlow.js collects the trained weights when a model is compiled.
    model.compile({ optimizer: tf.train.sgd(0.1), loss: 'meanSquaredError' });
    losses.push((await model.trainOnBatch(x, y)) as number);
  }
  const outputs = Array.from((model.predict(x) as tf.Tensor).dataSync());
  return { losses, weights: layers.map(weightsOf), outputs };
}

export async function trainInPipeline(
  make: Model,
  initial: Weights | null,
  { microBatches = 2, prepare, between, inputs, recompute = false, stages }: Options,
): Promise<Trained> {
  const cut = stages?.(make().length) ?? make().map(() => 1);
  const ranks = await runWorld(cut.length, async (group) => {
    const layers = make();
    const x = inputs ?? inputsOf(layers);
    const stage = await PipelineStage.create(layers, group, { stages: cut, optimizer: tf.train.sgd(0.1), recompute });
    for (const index of stage.layers) if (initial) layers[index]!.setWeights(initial[index]!);
    prepare?.(layers);
    const schedule = new Schedule1F1B(stage, {
      microBatches,
      loss: (output, target) => tf.losses.meanSquaredError(target, output).asScalar(),
    });
    const losses: number[] = [];
    for (let step = 0; step < STEPS; step++) {
      between?.(layers, step);
      losses.push((await schedule.step({ inputs: x, targets: targets() })).loss);
      await stage.step();
    }
    const outputs = await schedule.eval(x);
    const weights = stage.layers.map((index) => weightsOf(layers[index]!));
    return { losses, weights, outputs: outputs && Array.from(outputs.dataSync()) };
  });
  for (const { losses } of ranks) expect(losses).toEqual(ranks[0]!.losses);
  return {
    losses: ranks[0]!.losses,
    weights: ranks.flatMap(({ weights }) => weights),
    outputs: ranks.at(-1)!.outputs!,
  };
}

function expectClose(actual: readonly number[], expected: readonly number[]): void {
  expect(actual).toHaveLength(expected.length);
  const differences = actual.map((value, i) => Math.abs(value - expected[i]!) / (1 + Math.abs(expected[i]!)));
  expect(Math.max(0, ...differences)).toBeLessThan(2e-5);
}

export function initialOf(make: Model): Weights {
  const layers = make();
  tf.sequential({ layers });
  return layers.map((layer) => layer.getWeights());
}

export async function expectSame(make: Model, options: Options = {}): Promise<Trained> {
  const initial = initialOf(make);
  const alone = await trainAlone(make, initial, options);
  const all = await trainInPipeline(make, initial, options);
  expectClose(all.losses, alone.losses);
  expectClose(all.weights.flat(), alone.weights.flat());
  expectClose(all.outputs, alone.outputs);
  return all;
}

export const seeded = (seed: number) => tf.initializers.glorotUniform({ seed });
export const dense = (units: number, config: object = {}) =>
  tf.layers.dense({ units, kernelInitializer: seeded(units), ...config });
