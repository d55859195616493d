/** `tf.train.adagrad`. */
import { DEFAULT_EPSILON, setting, TensorflowRule, type Config } from './rule.ts';
import type { OptimizerState } from '../optimizer.ts';
import type { Range } from '../../util/range.ts';

/**
 * `sum += gradient^2; params -= learningRate * gradient / sqrt(sum + 1e-7)`. The sum starts at
 * `initialAccumulatorValue`.
 */
export class TensorflowAdagrad extends TensorflowRule {
  constructor(config: Config, size: number) {
    super({ name: 'tf.adagrad', config, size, slots: [setting(config, 'initialAccumulatorValue', 0, Infinity)] });
  }

  protected override update(
    params: Float32Array,
    gradient: Float32Array,
    ranges: readonly Range[],
    rate: number,
    { slots }: OptimizerState,
  ): void {
    const squares = slots[0]!;
    const epsilon = Math.fround(DEFAULT_EPSILON);
    for (const { start, end } of ranges) {
      for (let i = start; i < end; i++) {
        const g = gradient[i]!;
        const sum = squares[i]! + g * g;
        squares[i] = sum;
        params[i] = params[i]! - (rate * g) / Math.sqrt(sum + epsilon);
      }
    }
  }
}
