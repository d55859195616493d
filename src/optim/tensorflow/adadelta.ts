/** `tf.train.adadelta`. */
import { setting, TensorflowRule, type Config } from './rule.ts';
import type { OptimizerState } from '../optimizer.ts';
import type { Range } from '../../util/range.ts';

/** Indices into `scalars`. */
const RHO = 1;
const EPSILON = 2;

/**
 * Two slots: the running means of squared gradients and of squared updates. As in TensorFlow.js,
 * and unlike the paper (https://arxiv.org/abs/1212.5701) and PyTorch, an update is divided by the
 * mean before this step's gradient. So the two means stay equal, and each update is the gradient.
 */
export class TensorflowAdadelta extends TensorflowRule {
  constructor(config: Config, size: number) {
    const scalars = [setting(config, 'rho'), setting(config, 'epsilon', 0, Infinity)];
    super({ name: 'tf.adadelta', config, size, scalars, slots: [0, 0] });
  }

  protected override update(
    params: Float32Array,
    gradient: Float32Array,
    ranges: readonly Range[],
    rate: number,
    { scalars, slots }: OptimizerState,
  ): void {
    const gradients = slots[0]!;
    const updates = slots[1]!;
    const rho = Math.fround(scalars[RHO]!);
    const take = Math.fround(1 - scalars[RHO]!);
    const epsilon = Math.fround(scalars[EPSILON]!);
    for (const { start, end } of ranges) {
      for (let i = start; i < end; i++) {
        const g = gradient[i]!;
        const before = gradients[i]!;
        const update = (Math.sqrt(updates[i]! + epsilon) / Math.sqrt(before + epsilon)) * g;
        gradients[i] = rho * before + take * (g * g);
        updates[i] = rho * updates[i]! + take * (update * update);
        params[i] = params[i]! - rate * update;
      }
    }
  }
}
