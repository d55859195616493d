/** Which of the reported steps are part of the state that a class has after tabs have left. */
import type { Observation } from '../../tools/chaos/report.ts';

/**
 * Returns the observations without the steps that left together with tabs. A tab may receive the
 * last part of a step's sum, apply the step and be killed, while the other ranks miss that part. No
 * remaining tab then has this step: the remaining tabs take it again with a window of their own.
 *
 * @param gone names of the tabs that have left.
 */
export function survivingSteps(observations: readonly Observation[], gone: ReadonlySet<string>): Observation[] {
  const kept = new Map<number, Set<string>>();
  for (const { tab, event } of observations) {
    if (event.type !== 'step' || gone.has(tab)) continue;
    kept.set(event.step, (kept.get(event.step) ?? new Set()).add(windowOf(event)));
  }
  return observations.filter(({ tab, event }) => {
    if (event.type !== 'step' || !gone.has(tab)) return true;
    const windows = kept.get(event.step);
    return windows === undefined || windows.has(windowOf(event));
  });
}

function windowOf({ epoch, offset, samples }: { epoch: number; offset: number; samples: number }): string {
  return [epoch, offset, samples].join(' ');
}
