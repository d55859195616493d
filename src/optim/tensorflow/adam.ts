/** `tf.train.adam`. */
import { setting, TensorflowRule, type Config } from './rule.ts';
import type { OptimizerState } from '../optimizer.ts';
import type { Range } from '../../util/range.ts';

/** Indices into `scalars`. */
const BETA1 = 1;
const BETA2 = 2;
const EPSILON = 3;
/**
 * beta1^t and beta2^t in step t, as running products in float32, as TensorFlow.js keeps them. The
 * first step has t = 1.
 */
const BETA1_POWER = 4;
const BETA2_POWER = 5;

/**
 * The algorithm of https://arxiv.org/abs/1412.6980 with bias correction; epsilon is added to the
 * corrected root, as in PyTorch. Two slots: the running means of the gradient and of its square.
 */
export class TensorflowAdam extends TensorflowRule {
  constructor(config: Config, size: number) {
    const [beta1, beta2] = [setting(config, 'beta1'), setting(config, 'beta2')];
    super({
      name: 'tf.adam',
      config,
      size,
      scalars: [beta1, beta2, setting(config, 'epsilon', 0, Infinity), Math.fround(beta1), Math.fround(beta2)],
      slots: [0, 0],
    });
  }

  protected override update(
    params: Float32Array,
    gradient: Float32Array,
    ranges: readonly Range[],
    rate: number,
    { scalars, slots }: OptimizerState,
  ): void {
    const mean = slots[0]!;
    const square = slots[1]!;
    const beta1 = Math.fround(scalars[BETA1]!);
    const beta2 = Math.fround(scalars[BETA2]!);
    const take1 = Math.fround(1 - scalars[BETA1]!);
    const take2 = Math.fround(1 - scalars[BETA2]!);
    const correction1 = Math.fround(1 - scalars[BETA1_POWER]!);
    // The corrections are applied outside the loop, as in `../adam.ts`.
    const root2 = Math.sqrt(Math.fround(1 - scalars[BETA2_POWER]!));
    const stepSize = (rate * root2) / correction1;
    const epsilon = Math.fround(scalars[EPSILON]!) * root2;
    for (const { start, end } of ranges) {
      for (let i = start; i < end; i++) {
        const g = gradient[i]!;
        const m = beta1 * mean[i]! + take1 * g;
        const v = beta2 * square[i]! + take2 * (g * g);
        mean[i] = m;
        square[i] = v;
        params[i] = params[i]! - (stepSize * m) / (Math.sqrt(v) + epsilon);
      }
    }
    scalars[BETA1_POWER] = Math.fround(scalars[BETA1_POWER]! * beta1);
    scalars[BETA2_POWER] = Math.fround(scalars[BETA2_POWER]! * beta2);
  }
}
