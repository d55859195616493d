/** Names the work of a task, so that a rank that computes for long is not taken for dead. */
import type { Activity } from '../../util/activity.ts';
import type { Task } from './task.ts';

/** Returns a task that does the work of `task` as tasks of `activity`. */
export function namingTask<T extends Task>(task: T, activity: Activity): T {
  return {
    ...task,
    dataHash: () => activity.during('hash the data', () => task.dataHash()),
    withBatch: (indices, use, step, size) =>
      activity.during(
        `step ${step}`,
        (end) => task.withBatch(indices, (pass) => use(pass, end), step, size),
        Math.max(1, size),
      ),
    evaluate: (indices) => activity.during('evaluate', () => task.evaluate(indices), Math.max(1, indices.length)),
  };
}
