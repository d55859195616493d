/** `tf.train.rmsprop`. */
import { setting, TensorflowRule, type Config } from './rule.ts';
import type { OptimizerState } from '../optimizer.ts';
import type { Range } from '../../util/range.ts';

/** Indices into `scalars`. */
const DECAY = 1;
const MOMENTUM = 2;
const EPSILON = 3;

/**
 * `velocity = momentum * velocity + learningRate * gradient / root; params -= velocity`. The root
 * is that of the running mean of squares + epsilon. With `centered` it is that of the mean of
 * squares - (the square of the mean + epsilon).
 *
 * So with `centered` a parameter becomes NaN as soon as the variance of its gradient is below
 * epsilon, as at a gradient of zero in the first step. TensorFlow.js does the same; TensorFlow adds
 * epsilon instead.
 *
 * Slots: the running mean of squares, the velocity, and with `centered` the running mean.
 */
export class TensorflowRmsprop extends TensorflowRule {
  constructor(config: Config, size: number) {
    const isCentered = config['centered'] === true;
    super({
      name: 'tf.rmsprop',
      config,
      size,
      scalars: [setting(config, 'decay'), setting(config, 'momentum'), setting(config, 'epsilon', 0, Infinity)],
      slots: isCentered ? [0, 0, 0] : [0, 0],
    });
  }

  protected override update(
    params: Float32Array,
    gradient: Float32Array,
    ranges: readonly Range[],
    rate: number,
    { scalars, slots }: OptimizerState,
  ): void {
    const squares = slots[0]!;
    const velocity = slots[1]!;
    const mean = slots[2];
    const decay = Math.fround(scalars[DECAY]!);
    const take = Math.fround(1 - scalars[DECAY]!);
    const momentum = Math.fround(scalars[MOMENTUM]!);
    const epsilon = Math.fround(scalars[EPSILON]!);
    for (const { start, end } of ranges) {
      for (let i = start; i < end; i++) {
        const g = gradient[i]!;
        const square = decay * squares[i]! + take * (g * g);
        squares[i] = square;
        let divisor = square + epsilon;
        if (mean) {
          const m = decay * mean[i]! + take * g;
          mean[i] = m;
          divisor = square - (m * m + epsilon);
        }
        const moved = momentum * velocity[i]! + (rate * g) / Math.sqrt(divisor);
        velocity[i] = moved;
        params[i] = params[i]! - moved;
      }
    }
  }
}
