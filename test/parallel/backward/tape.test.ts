/**
 * The contract with the internals of TensorFlow.js's engine that `backward/tape.ts` uses, and with
 * LayerVariable.read().
 */
import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';

test('state.activeTape lists the ops of a forward pass in order, with inputs, outputs and a gradient', () => {
  const weight = tf.variable(tf.scalar(3));
  let names: string[] = [];
  const { value, grads } = tf.variableGrads(() => {
    const squared = weight.square();
    const loss = squared.mul<tf.Scalar>(2);
    const { activeTape, gradientDepth } = tf.engine().state;
    expect(gradientDepth).toBe(1);
    names = activeTape.map(({ kernelName }) => kernelName);
    const inputs = activeTape.map((node) => Object.values(node.inputs).map(({ id }) => id));
    expect(inputs.findIndex((ids) => ids.includes(weight.id))).toBeLessThan(names.indexOf('Multiply'));
    expect(activeTape.at(-1)!.outputs.map(({ id }) => id)).toEqual([loss.id]);
    expect(activeTape.at(-1)!.gradient).toBeInstanceOf(Function);
    return loss;
  });
  expect(names.filter((name) => name === 'Square' || name === 'Multiply')).toEqual(['Square', 'Multiply']);
  expect(grads[weight.name]!.dataSync()).toEqual(Float32Array.of(12));
  expect(tf.engine().state.gradientDepth).toBe(0);
  tf.dispose([value, grads, weight]);
});

test('if the gradient of an op on the tape is replaced, back-propagation calls the replacement in the order of the inputs', () => {
  const weights = [tf.variable(tf.scalar(2)), tf.variable(tf.scalar(5))] as const;
  const called: string[] = [];
  const { value, grads } = tf.variableGrads(() => {
    const loss = weights[0].mul<tf.Scalar>(weights[1]);
    const node = tf.engine().state.activeTape.at(-1)!;
    const { a, b } = node.inputs;
    node.inputs = { b: b!, a: a! };
    const { gradient } = node;
    node.gradient = (dys) => {
      const closures = gradient!(dys);
      const report = (name: string) => () => {
        called.push(name);
        return closures[name]!();
      };
      return { a: report('a'), b: report('b') };
    };
    return loss;
  });
  expect(called).toEqual(['b', 'a']);
  expect(grads[weights[0].name]!.dataSync()[0]).toBe(5);
  tf.dispose([value, grads, [...weights]]);
});

test('state.activeScope is the scope that startScope has opened', () => {
  const engine = tf.engine();
  const outer = engine.state.activeScope;
  engine.startScope();
  expect(engine.state.activeScope).not.toBe(outer);
  engine.endScope();
  expect(engine.state.activeScope).toBe(outer);
});

test("read() of a layer's weight returns its tf.Variable", () => {
  const model = tf.sequential({ layers: [tf.layers.dense({ units: 2, inputShape: [3] })] });
  for (const weight of model.weights) expect(weight.read()).toBeInstanceOf(tf.Variable);
  model.dispose();
});
