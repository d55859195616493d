/**
 * The forward and backward passes of a step, and the passes of the warm-up before the first step.
 */
import { keepingBuffers } from '../../parallel/ddp/flatten.ts';
import type { PassOptions } from '../../parallel/ddp/pass.ts';
import type { StepReport } from '../../parallel/strategies/index.ts';
import type { TrainingPlan } from '../../spec/plan.ts';
import type { Task } from '../tasks/task.ts';
import type { RunStrategy } from './runStrategy.ts';
import type { StepAssignment } from './data/sampleAssigner.ts';

interface Learner {
  task: Task;
  plan: TrainingPlan;
  strategy: RunStrategy;
}

/**
 * Takes a step. Computes the gradient of this rank's part of the step in micro-batches. The
 * strategy combines this gradient with the other ranks' gradients.
 *
 * @param onapplied called when the step is applied, with the mean loss and the number of samples.
 */
export async function learn(
  { task, plan, strategy }: Learner,
  step: number,
  { window, indices, microBatches }: StepAssignment,
  onapplied: (loss: number, samples: number) => void,
): Promise<StepReport> {
  const { elastic } = strategy;
  const todo = indices.slice(elastic?.heldSamples ?? 0);
  const batches = Array.from({ length: microBatches }, (_, i) =>
    todo.subarray(i * plan.batchSize, (i + 1) * plan.batchSize),
  );
  const last = batches.pop()!;
  if (elastic) {
    for (const batch of batches) {
      await task.withBatch(batch, (pass) => elastic.accumulate(pass, optionsOf(batch)), step);
    }
  }
  const options = { ...optionsOf(last), totalSamples: window.size };
  return task.withBatch(
    last,
    (pass) => strategy.step(pass, options, ({ loss, samples }) => onapplied(loss, samples)),
    step,
  );
}

/** Runs every kind of pass once, to compile shaders. The state does not change. */
export async function warmUp({ task, plan, strategy }: Learner, testsHeldOut: boolean): Promise<void> {
  const first = Uint32Array.from({ length: Math.min(plan.batchSize, task.trainSamples) }, (_, i) => i);
  await keepingBuffers(task.model, () => task.withBatch(first, (pass) => strategy.warmUp(pass, optionsOf(first)), 0));
  if (task.testSamples > 0 && testsHeldOut) await task.evaluate(new Uint32Array());
}

/** Returns the options of a pass over some samples. A task's loss is the sum over these samples. */
function optionsOf({ length }: Uint32Array): PassOptions {
  return { samples: length, reduction: 'sum' };
}
