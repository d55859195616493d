import { createOptimizer } from '../../../src/optim/index.ts';
import { createRng } from '../../../src/util/rng.ts';
import type { Suite } from '../suite.ts';

const SIZE = 50;
const STEPS = 200;

const CASES: [Parameters<typeof createOptimizer>[0], Parameters<typeof createOptimizer>[1]][] = [
  ['sgd', { learningRate: 0.1, weightDecay: 0.01 }],
  ['momentum', { learningRate: 0.1, momentum: 0.9, weightDecay: 0.01 }],
  ['momentum', { learningRate: 0.1, momentum: 0.8, dampening: 0.3, weightDecay: 0.01 }],
  ['nesterov', { learningRate: 0.05, momentum: 0.9 }],
  ['nesterov', { learningRate: 0.05, momentum: 0.9, weightDecay: 0.02 }],
  ['adam', { learningRate: 0.01 }],
  ['adam', { learningRate: 0.01, weightDecay: 0.1 }],
  ['adam', { learningRate: 0.01, epsilon: 0 }],
  ['adamw', { learningRate: 0.01 }],
  ['adamw', { learningRate: 0.01, weightDecay: 0.3, epsilon: 1e-3, beta1: 0.5, beta2: 0.9 }],
];

/** All optimizers over 200 steps with changing learning rates. */
export const optimizers: Suite = {
  name: 'optimizers',
  tolerance: 1e-6,
  compute: () => {
    const rng = createRng(3);
    const values = (): number[] => Array.from({ length: SIZE }, () => Math.fround(2 * rng.next() - 1));
    const start = values();
    const gradients = Array.from({ length: STEPS }, values);
    const rates = gradients.map((_, step) => 1 + 0.5 * (step % 3));
    const cases = CASES.map(([name, options]) => {
      const optimizer = createOptimizer(name, options, SIZE);
      const parameters = Float32Array.from(start);
      for (const [step, gradient] of gradients.entries()) {
        optimizer.learningRate = options.learningRate * rates[step]!;
        optimizer.apply(parameters, Float32Array.from(gradient));
      }
      return { name, options, parameters: [...parameters] };
    });
    return Promise.resolve({ start, gradients, rates, cases });
  },
};
