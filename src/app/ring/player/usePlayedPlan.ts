/** Hooks for the parts of a frame that change rarely. */
import { computed } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import type { AllReduceSteps, PlanStep } from '../../../collectives/plans/planSteps.ts';
import { planStepOfFrame } from '../narrate.ts';
import type { RingPlayer } from './player.ts';

/** Returns the plan that the player plays; `null` if there is nothing to play. */
export function usePlayedPlan(player: RingPlayer | null): AllReduceSteps | null {
  return useMemo(() => computed(() => player?.frame.value?.plan ?? null), [player]).value;
}

/** Returns the step of the plan that the player shows; `null` if there is nothing to play. */
export function usePlayedStep(player: RingPlayer | null): PlanStep | null {
  return useMemo(
    () =>
      computed(() => {
        const frame = player?.frame.value ?? null;
        return frame === null ? null : planStepOfFrame(frame);
      }),
    [player],
  ).value;
}
