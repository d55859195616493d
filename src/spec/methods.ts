/**
 * The methods that a measuring run compares: strategies and codecs that differ in
 * how much they send.
 */
import { reducesGradients, STRATEGIES, STRATEGY_NAMES, type ComparedCodec, type StrategyName } from './strategies.ts';

/** A strategy with one of its codecs. */
export interface StrategyWithCodec extends ComparedCodec {
  strategy: StrategyName;
}

/**
 * The methods by name, sorted by how much they change what is learned: from least to most. The
 * first method of a strategy has the strategy's name.
 */
export const LEARNING_METHODS: ReadonlyMap<string, StrategyWithCodec> = new Map(
  STRATEGY_NAMES.flatMap((strategy) =>
    STRATEGIES[strategy].compared.map((compared, i) => [
      i === 0 ? strategy : `${strategy}-${compared.codec}`,
      { strategy, ...compared },
    ]),
  ),
);

export const LEARNING_METHOD_NAMES = [...LEARNING_METHODS.keys()];

export function learningMethodByName(name: string): StrategyWithCodec {
  return LEARNING_METHODS.get(name)!;
}

/**
 * Returns whether a method learns something other than `ddp` does. `ddp` with a codec learns the
 * same, because it averages all gradients in every step, and sends residuals later.
 */
export function methodChangesLearning(name: string): boolean {
  return !reducesGradients(learningMethodByName(name).strategy);
}
