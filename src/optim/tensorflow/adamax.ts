/** `tf.train.adamax`. */
import { setting, TensorflowRule, type Config } from './rule.ts';
import type { OptimizerState } from '../optimizer.ts';
import type { Range } from '../../util/range.ts';

/** Indices into `scalars`. */
const BETA1 = 1;
const BETA2 = 2;
const EPSILON = 3;
const DECAY = 4;
/** beta1^t in step t = 1, 2, ..., as a running product in float32, as TensorFlow.js keeps it. */
const BETA1_POWER = 5;
/** Number of steps done. */
const STEP = 6;

/**
 * Adam with a maximum in place of the mean of squares: `norm = max(beta2 * norm, |gradient|)`,
 * `params -= rate / (1 - beta1^t) * mean / (norm + epsilon)`. `decay` divides the learning rate by
 * 1 + decay * (t - 1). Two slots: the running mean of the gradient, and the norm.
 */
export class TensorflowAdamax extends TensorflowRule {
  constructor(config: Config, size: number) {
    const beta1 = setting(config, 'beta1');
    super({
      name: 'tf.adamax',
      config,
      size,
      scalars: [
        beta1,
        setting(config, 'beta2'),
        setting(config, 'epsilon', 0, Infinity),
        setting(config, 'decay', 0, Infinity),
        Math.fround(beta1),
        0,
      ],
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
    const norms = slots[1]!;
    const beta1 = Math.fround(scalars[BETA1]!);
    const beta2 = Math.fround(scalars[BETA2]!);
    const take1 = Math.fround(1 - scalars[BETA1]!);
    const epsilon = Math.fround(scalars[EPSILON]!);
    const decayed = rate / (1 + scalars[STEP]! * Math.fround(scalars[DECAY]!));
    const stepSize = decayed / Math.fround(1 - scalars[BETA1_POWER]!);
    for (const { start, end } of ranges) {
      for (let i = start; i < end; i++) {
        const g = gradient[i]!;
        const m = beta1 * mean[i]! + take1 * g;
        // Math.max and Math.abs are exact.
        const norm = Math.max(beta2 * norms[i]!, Math.abs(g));
        mean[i] = m;
        norms[i] = norm;
        params[i] = params[i]! - (stepSize * m) / (norm + epsilon);
      }
    }
    scalars[BETA1_POWER] = Math.fround(scalars[BETA1_POWER]! * beta1);
    scalars[STEP]! += 1;
  }
}
