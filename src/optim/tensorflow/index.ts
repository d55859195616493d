/** TensorFlow.js's optimizers on flat arrays. This folder does not import TensorFlow.js. */
import { TensorflowAdadelta } from './adadelta.ts';
import { TensorflowAdagrad } from './adagrad.ts';
import { TensorflowAdam } from './adam.ts';
import { TensorflowAdamax } from './adamax.ts';
import { TensorflowRmsprop } from './rmsprop.ts';
import { DEFAULT_EPSILON, type Config, type TensorflowRule } from './rule.ts';
import { TensorflowMomentum, TensorflowSgd } from './sgd.ts';

export { DEFAULT_EPSILON, type Config };

/** By TensorFlow.js's class name, which minifiers keep. */
const RULES = new Map<string, new (config: Config, size: number) => TensorflowRule>([
  ['SGD', TensorflowSgd],
  ['Momentum', TensorflowMomentum],
  ['Adagrad', TensorflowAdagrad],
  ['Adadelta', TensorflowAdadelta],
  ['Adam', TensorflowAdam],
  ['Adamax', TensorflowAdamax],
  ['RMSProp', TensorflowRmsprop],
]);

/**
 * Creates the optimizer with the class name and the `getConfig` of one of TensorFlow.js's, as it is
 * before its first step. Returns null if there is no such class.
 *
 * @throws UsageError for a setting out of its range or an invalid size.
 */
export function createTensorflowRule(className: string, config: Config, size: number): TensorflowRule | null {
  const Rule = RULES.get(className);
  return Rule ? new Rule(config, size) : null;
}

/** Whether one of TensorFlow.js's optimizers has this class name. */
export function isTensorflowRule(className: string): boolean {
  return RULES.has(className);
}
