/** `tf.train.sgd` and `tf.train.momentum`. */
import { setting, TensorflowRule, type Config } from './rule.ts';
import type { OptimizerState } from '../optimizer.ts';
import type { Range } from '../../util/range.ts';

/** `params -= learningRate * gradient`. No slots. */
export class TensorflowSgd extends TensorflowRule {
  constructor(config: Config, size: number) {
    super({ name: 'tf.sgd', config, size });
  }

  protected override update(
    params: Float32Array,
    gradient: Float32Array,
    ranges: readonly Range[],
    rate: number,
  ): void {
    for (const { start, end } of ranges) {
      for (let i = start; i < end; i++) params[i] = params[i]! - rate * gradient[i]!;
    }
  }
}

/** Indices into `scalars`. */
const MOMENTUM = 1;
/** 0 or 1. */
const NESTEROV = 2;

/**
 * `velocity = momentum * velocity + gradient; params -= learningRate * velocity`. With
 * `useNesterov`, `gradient + momentum * velocity` replaces the velocity in the second formula.
 */
export class TensorflowMomentum extends TensorflowRule {
  constructor(config: Config, size: number) {
    super({
      name: 'tf.momentum',
      config,
      size,
      scalars: [setting(config, 'momentum'), config['useNesterov'] === true ? 1 : 0],
      slots: [0],
    });
  }

  protected override update(
    params: Float32Array,
    gradient: Float32Array,
    ranges: readonly Range[],
    rate: number,
    { scalars, slots }: OptimizerState,
  ): void {
    const velocity = slots[0]!;
    const momentum = Math.fround(scalars[MOMENTUM]!);
    const nesterov = scalars[NESTEROV] === 1;
    for (const { start, end } of ranges) {
      for (let i = start; i < end; i++) {
        const g = gradient[i]!;
        const moved = momentum * velocity[i]! + g;
        velocity[i] = moved;
        params[i] = params[i]! - rate * (nesterov ? g + momentum * moved : moved);
      }
    }
  }
}
