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
 * The methods by name, sorted by how much they change what is learned: from least to most. The
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

export function methodOf(name: string): Method {
  return METHODS.get(name)!;
}

/**
 * Returns whether a method learns something other than `ddp` does. `ddp` with a codec learns the
 * same, because it averages all gradients in every step, and sends residuals later.
 */
export function changesLearning(name: string): boolean {
  return !reducesGradients(methodOf(name).strategy);
}
