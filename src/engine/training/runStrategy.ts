/** Creates the strategy of a run. This happens before the run enters a world. */
import { Mesh } from '../../collectives/mesh.ts';
import { ProcessGroup } from '../../collectives/processGroup.ts';
import { createOptimizer } from '../../optim/index.ts';
import { createStrategy } from '../../parallel/strategies/index.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { TrainingPlan } from '../../spec/plan.ts';
import type { Clock } from '../../util/clock.ts';
import type { TrainingTask } from '../tasks/task.ts';

export type RunStrategy = Awaited<ReturnType<typeof createStrategy>>;

interface StrategyEnvironment {
  task: TrainingTask;
  clock: Clock;
  checkDevice: () => void;
  emit: (event: EngineEvent) => void | Promise<void>;
}

export function createRunStrategy(
  plan: TrainingPlan,
  { task, clock, checkDevice, emit }: StrategyEnvironment,
): Promise<RunStrategy> {
  const { optimizer, learningRate, weightDecay } = plan;
  const settings = { learningRate, ...(weightDecay === null ? {} : { weightDecay }) };
  const alone = new Mesh({ rank: 0, worldSize: 1, generation: 0, links: new Map() });
  return createStrategy(plan, {
    model: task.model,
    group: new ProcessGroup(alone, { clock }),
    clock,
    checkGradients: checkDevice,
    onnote: (message) => void emit({ type: 'note', message }),
    onreceived: (received) => void emit({ type: 'distribution', what: 'state', ...received }),
    createOptimizer: (size) => createOptimizer(optimizer, settings, size),
  });
}
