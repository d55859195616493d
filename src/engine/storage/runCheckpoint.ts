/** Converts a run's state to a checkpoint, and a checkpoint to a run's state. */
import type { Checkpoint, CheckpointMeta } from '../../formats/checkpoint.ts';
import type { StateArray } from '../../formats/stateFile.ts';
import { optimizerInRunState } from '../../spec/plan.ts';
import { DataError, UsageError } from '../../util/errors.ts';
import { hashOfArrays } from '../../util/hash.ts';
import type { RunState } from './runState.ts';

/** The metadata of a checkpoint that the run's state does not contain. */
export type RunCheckpointMetadata = Pick<CheckpointMeta, 'id' | 'room' | 'job' | 'savedAt' | 'worldSize'>;

/**
 * Returns the state as a checkpoint. Its arrays are, in this order: the order of the parameters,
 * the parameters, the buffers, the optimizer's scalars, and the optimizer's running averages. Only
 * the order is copied; the other arrays are shared with the state.
 *
 * @throws UsageError if the state has the averages of some shards, but not of all.
 */
export function runStateToCheckpoint(
  { progress, replica, agreed, vocabulary }: RunState,
  about: RunCheckpointMetadata,
): Checkpoint {
  const { step, position, losses, evaluateEvery, trainedMs, verdicts } = progress;
  const { order, parameters, buffers, optimizer } = replica;
  const { scalars, slots } = optimizer;
  if (replica.shards) {
    throw new UsageError(
      "This rank has only its shard of the optimizer's averages, so it cannot save the run now. Save a checkpoint while the run trains.",
    );
  }
  const stateHash = hashOfArrays([parameters, scalars, ...slots]);
  return {
    meta: {
      ...about,
      step,
      position,
      losses,
      evaluateEvery,
      trainedMs,
      verdicts,
      stateHash,
      ...(agreed && { agreed }),
      ...(vocabulary && { vocabulary }),
    },
    arrays: [Int32Array.from(order), parameters, buffers, scalars, ...slots],
  };
}

/** @throws DataError if the arrays are not those of a run's state. */
export function runStateFromCheckpoint({ meta, arrays }: Checkpoint): RunState {
  const { id, job, step, position, losses, evaluateEvery, trainedMs, verdicts, agreed, vocabulary } = meta;
  const [order, parameters, buffers, scalars, ...slots] = arrays;
  const isState =
    order instanceof Int32Array &&
    isFloat32(parameters) &&
    isFloat32(buffers) &&
    scalars instanceof Float64Array &&
    slots.every(isFloat32);
  if (!isState) {
    throw new DataError(
      `Checkpoint ${id} was saved by another version of peergrad. Remove it, and resume another checkpoint.`,
    );
  }
  return {
    // Generations are numbered per room. This run starts in a different room, so the saved numbers
    // are not used.
    progress: { step, appliedIn: 0, previousAppliedIn: 0, position, losses, evaluateEvery, trainedMs, verdicts },
    replica: {
      order: [...order],
      parameters,
      buffers,
      optimizer: { name: optimizerInRunState(job), scalars: scalars as Float64Array<ArrayBuffer>, slots },
    },
    ...(agreed && { agreed }),
    ...(vocabulary && { vocabulary }),
  };
}

function isFloat32(array: StateArray | undefined): array is Float32Array<ArrayBuffer> {
  return array instanceof Float32Array;
}
