/**
 * The history of a pipeline's final state. If a stage is lost, ranks may return to an earlier step,
 * so that later steps are taken again. The functions are pure.
 */
import type { Observation } from '../chaos/report.ts';

interface FinalHistory {
  /** The events without steps that were undone later, and without the states after them. */
  observations: Observation[];
  /** The largest number of steps that a tab has taken and that were undone. */
  stepsLost: number;
}

/** @param observations events in the order of time, without those of tabs that have left. */
export function finalHistory(observations: readonly Observation[]): FinalHistory {
  /** Observations of steps that the same tab takes again later. */
  const undone = new Set<Observation>();
  const earliest = new Map<string, number>();
  const lost = new Map<string, number>();
  for (const observation of observations.toReversed()) {
    const { tab, event } = observation;
    if (event.type !== 'step' && event.type !== 'hashes') continue;
    // A state is reported after its step, so both are undone by a later event of that step.
    const next = earliest.get(tab) ?? Infinity;
    if (event.step >= next) {
      undone.add(observation);
      if (event.type === 'step') lost.set(tab, (lost.get(tab) ?? 0) + 1);
    } else if (event.type === 'step') {
      earliest.set(tab, event.step);
    }
  }
  return {
    observations: observations.filter((observation) => !undone.has(observation)),
    stepsLost: Math.max(0, ...lost.values()),
  };
}
