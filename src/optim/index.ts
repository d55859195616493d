/** Optimizers on flat Float32Arrays, bit-identical on every machine. */
import { Adam } from './adam.ts';
import type { OptimizerName } from '../spec/names.ts';
import type { Optimizer, OptimizerOptions } from './optimizer.ts';
import { Momentum, Sgd } from './sgd.ts';
import { UsageError } from '../util/errors.ts';

export type { OptimizerName } from '../spec/names.ts';
export type { Optimizer, OptimizerOptions, OptimizerState } from './optimizer.ts';

/**
 * Creates an optimizer for `size` parameters, with averages of zero.
 *
 * @throws UsageError for an unknown name, a setting out of its range or an invalid size.
 *
 * @example
 * ```ts
 * const ddp = await DistributedDataParallel.create(model, group);
 * const optimizer = createOptimizer('adam', { learningRate: 0.01 }, ddp.parameters.length);
 * ```
 */
export function createOptimizer(name: OptimizerName, options: OptimizerOptions, size: number): Optimizer {
  switch (name) {
    case 'sgd':
      return new Sgd(options, size);
    case 'momentum':
    case 'nesterov':
      return new Momentum(name, options, size);
    case 'adam':
    case 'adamw':
      return new Adam(name, options, size);
    default:
      throw new UsageError(
        `There is no optimizer "${String(name satisfies never)}": use sgd, momentum, nesterov, adam or adamw.`,
      );
  }
}
