/** Counts the commands that this rank's GPU receives in a step. */
import type { StepCommandCounts } from '../../../protocol/stepTrace.ts';
import { currentGpuCommandCounts } from '../../../gpu/commands.ts';

/**
 * Returns a function that returns the commands since this call; `null` if this rank does not
 * compute on WebGPU, or its device was opened again.
 */
export function startCountingGpuCommands(): () => StepCommandCounts | null {
  const before = currentGpuCommandCounts();
  return () => {
    const after = currentGpuCommandCounts();
    if (!before || !after || after.dispatches < before.dispatches) return null;
    return { dispatches: after.dispatches - before.dispatches, submits: after.submits - before.submits };
  };
}
