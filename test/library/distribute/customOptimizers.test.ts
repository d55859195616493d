import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { errorOf } from '../../errorOf.ts';
import { alone, compiled, distributed, expectEqual, useSamples } from './models.ts';

let x: tf.Tensor;
let y: tf.Tensor;
useSamples((samples) => ({ x, y } = samples));

const ARGS = { shuffle: false, verbose: 0 as const, epochs: 2 };

/** Steps by the sign of the gradient, and counts its steps. */
class SignOptimizer extends tf.Optimizer {
  static className = 'SignOptimizerForTest';
  steps = 0;

  override applyGradients(gradients: tf.NamedTensorMap | { name: string; tensor: tf.Tensor }[]): void {
    this.steps++;
    const list = Array.isArray(gradients)
      ? gradients
      : Object.entries(gradients).map(([name, tensor]) => ({ name, tensor }));
    for (const { name, tensor } of list) {
      const variable = tf.engine().registeredVariables[name]!;
      tf.tidy(() => variable.assign(variable.sub(tensor.sign().mul(0.01))));
    }
  }

  override getConfig(): tf.serialization.ConfigDict {
    return {};
  }
}

const withSigns = () => compiled('mlp', { optimizer: () => new SignOptimizer() });

const withClipping = () =>
  compiled('mlp', {
    optimizer: () => {
      const optimizer = tf.train.adam(0.02);
      const apply = optimizer.applyGradients.bind(optimizer);
      optimizer.applyGradients = (gradients) => {
        const list = gradients as { name: string; tensor: tf.Tensor }[] | tf.NamedTensorMap;
        const all = Array.isArray(list)
          ? list.map(({ name, tensor }) => [name, tensor] as const)
          : Object.entries(list);
        const clipped = Object.fromEntries(all.map(([name, tensor]) => [name, tensor.clipByValue(-0.01, 0.01)]));
        apply(clipped as never);
        tf.dispose(clipped);
      };
      return optimizer;
    },
  });

const withAdam = () => compiled('mlp', { optimizer: () => tf.train.adam(0.02) });

describe('an optimizer runs on rank 0 alone, with the results of model.fit,', () => {
  test('if its class is a custom one', async () => {
    const expected = await alone(withSigns, (model) => model.fit(x, y, { ...ARGS, batchSize: 12 }));
    const all = await distributed(3, withSigns, async (trainer, { rank }) => {
      const history = await trainer.fit(x, y, { ...ARGS, batchSize: 4 });
      expect((trainer.model.optimizer as unknown as SignOptimizer).steps).toBe(rank === 0 ? 8 : 0);
      return history;
    });
    expectEqual(all, expected);
  });

  test('if its applyGradients was replaced, for example to clip gradients', async () => {
    const expected = await alone(withClipping, (model) => model.fit(x, y, { ...ARGS, batchSize: 12 }));
    expectEqual(await distributed(2, withClipping, (model) => model.fit(x, y, { ...ARGS, batchSize: 6 })), expected);
  });

  test('if it has stepped on rank 0 before; training continues from its averages', async () => {
    const expected = await alone(withAdam, async (model) => {
      await model.fit(x, y, { ...ARGS, batchSize: 12 });
      return model.fit(x, y, { ...ARGS, batchSize: 12 });
    });
    const all = await distributed(2, withAdam, async (trainer, { rank }) => {
      if (rank === 0) await trainer.model.fit(x, y, { ...ARGS, batchSize: 12 });
      return trainer.fit(x, y, { ...ARGS, batchSize: 6 });
    });
    expectEqual(all, expected);
  });

  test('but all ranks reject it if it also has averages of distributed steps, which would be lost', async () => {
    const messages = await distributed(2, withAdam, async (trainer) => {
      await trainer.fit(x, y, { ...ARGS, batchSize: 6 });
      await trainer.model.fit(x, y, { ...ARGS, batchSize: 12 });
      const { message } = await errorOf(trainer.fit(x, y, { ...ARGS, batchSize: 6 }));
      await trainer.group.barrier();
      return message;
    });
    for (const { result } of messages) {
      expect(result).toMatch(
        /Adam has done 8 steps by itself, as in model.fit, after distributed steps, .*new optimizer/,
      );
    }
  });
});
