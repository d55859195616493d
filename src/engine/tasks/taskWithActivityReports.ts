/**
 * Names the work of a task, so that a rank that computes for a long time is not considered dead.
 */
import type { ThreadActivity } from '../../util/activity.ts';
import type { TrainingTask } from './task.ts';

/** Returns a task that does the same work as `task`, and reports each part of it to `activity`. */
export function taskWithActivityReports<T extends TrainingTask>(task: T, activity: ThreadActivity): T {
  return {
    ...task,
    dataHash: () => activity.during('hash the data', () => task.dataHash()),
    withBatch: (indices, use, at, size) =>
      activity.during(
        `step ${at.step}`,
        (end) => task.withBatch(indices, (pass) => use(pass, end), at, size),
        Math.max(1, size),
      ),
    evaluate: (indices) => activity.during('evaluate', () => task.evaluate(indices), Math.max(1, indices.length)),
  };
}
