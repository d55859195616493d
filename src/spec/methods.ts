/**
 * The methods that a measuring run compares: strategies and codecs that differ in
 * how much they send.
 */
import { reducesGradients, STRATEGIES, STRATEGY_NAMES, type Compared, type StrategyName } from './strategies.ts';

/** A strategy with one of its codecs. */
export interface Method extends Compared {
  strategy: StrategyName;
}

/**
 * The methods by name, from those that change least what is learned to those that change most. The
 * first method of a strategy has the strategy's name.
 */
export const METHODS: ReadonlyMap<string, Method> = new Map(
  STRATEGY_NAMES.flatMap((strategy) =>
    STRATEGIES[strategy].compared.map((compared, i) => [
      i === 0 ? strategy : `${strategy}-${compared.codec}`,
      { strategy, ...compared },
    ]),
  ),
);

export const METHOD_NAMES = [...METHODS.keys()];

/** Returns a method. */
export function methodOf(name: string): Method {
  return METHODS.get(name)!;
}

/**
 * Returns whether a method learns something other than `ddp` does. With a codec, `ddp` still
 * averages all gradients in every step, and residuals are sent later.
 */
export function changesLearning(name: string): boolean {
  return !reducesGradients(methodOf(name).strategy);
}
