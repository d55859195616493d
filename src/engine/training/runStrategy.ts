/** Creates the strategy of a run. This happens before the run enters a world. */
import { Mesh } from '../../collectives/mesh.ts';
import { ProcessGroup } from '../../collectives/processGroup.ts';
import { createOptimizer } from '../../optim/index.ts';
import { createStrategy } from '../../parallel/strategies/index.ts';
import { ScheduledOptimizer } from '../../parallel/strategies/scheduledOptimizer.ts';
import type { TrainingPlan } from '../../spec/plan.ts';
import type { Clock } from '../../util/clock.ts';
import type { Task } from '../tasks/task.ts';

/** DiLoCo's outer optimizer, with the values that the DiLoCo paper recommends. */
const OUTER_OPTIMIZER = { learningRate: 0.7, momentum: 0.9 };

export type RunStrategy = Awaited<ReturnType<typeof createStrategy>>;

/** Resolves with the strategy and its optimizers. */
export async function createRunStrategy(
  plan: TrainingPlan,
  { task, clock, checkDevice }: { task: Task; clock: Clock; checkDevice: () => void },
): Promise<{ strategy: RunStrategy; optimizers: readonly ScheduledOptimizer[] }> {
  const { optimizer, learningRate, weightDecay, clipNorm } = plan;
  const settings = { learningRate, ...(weightDecay === null ? {} : { weightDecay }) };
  const optimizers: ScheduledOptimizer[] = [];
  const alone = new Mesh({ rank: 0, worldSize: 1, generation: 0, links: new Map() });
  const strategy = await createStrategy(plan, {
    model: task.model,
    group: new ProcessGroup(alone, { clock }),
    clock,
    checkGradients: checkDevice,
    createOptimizer: (size) => {
      const scheduled = new ScheduledOptimizer(createOptimizer(optimizer, settings, size), clipNorm);
      optimizers.push(scheduled);
      return scheduled;
    },
    createOuterOptimizer: (size) => createOptimizer('nesterov', OUTER_OPTIMIZER, size),
  });
  return { strategy, optimizers };
}
