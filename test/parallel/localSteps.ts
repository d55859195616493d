/** Local steps whose inner and outer optimizers are plain SGD. */
import { Mesh } from '../../src/collectives/mesh.ts';
import { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { createOptimizer } from '../../src/optim/index.ts';
import type { Variable } from '../../src/parallel/backward/flatten.ts';
import { LocalSteps, type LocalStepsOptions } from '../../src/parallel/strategies/localSteps.ts';
import { systemClock } from '../../src/util/clock.ts';

interface Settings extends Pick<LocalStepsOptions, 'syncEvery' | 'createMean' | 'streaming'> {
  learningRate: number;
  outerLearningRate: number;
}

/** Creates the strategy in a group that has only this rank. */
export function createLocalSteps(
  model: readonly Variable[],
  { learningRate, outerLearningRate, ...settings }: Settings,
): Promise<LocalSteps> {
  const alone = new Mesh({ rank: 0, worldSize: 1, generation: 0, links: new Map() });
  return LocalSteps.create({
    ...{ model, group: new ProcessGroup(alone), clock: systemClock, checkGradients: () => {}, onnote: () => {} },
    codec: 'fp32',
    clipNorm: null,
    createOptimizer: (size) => createOptimizer('sgd', { learningRate }, size),
    createOuterOptimizer: (size) => createOptimizer('sgd', { learningRate: outerLearningRate }, size),
    ...settings,
  });
}
