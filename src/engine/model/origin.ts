/** Reads the checkpoint or the weights from which a room's first run starts. */
import { decodeCheckpoint, type CheckpointMeta } from '../../formats/checkpoint.ts';
import { looksLikeStateFile } from '../../formats/stateFile.ts';
import { openWeights, type WeightsFile } from '../../formats/weights/weightsFile.ts';
import { checkModelFileSize } from '../../spec/modelFile.ts';
import { DataError, errorMessageOf, PeergradError } from '../../util/errors.ts';
import type { Checkpoints } from '../storage/checkpoints.ts';
import { runStateFromCheckpoint } from '../storage/runCheckpoint.ts';
import type { RunState } from '../storage/runState.ts';

/** The checkpoint or the weights from which a room's first run starts. */
export type RunOrigin =
  | { kind: 'checkpoint'; meta: CheckpointMeta; state: RunState }
  | { kind: 'weights'; weights: WeightsFile };

/** This many bytes at the start of a file show which kind of file it is. */
const HEAD_BYTES = 32;

/**
 * Loads the checkpoint or the weights from which a room's first run starts.
 *
 * @param source a file, or the id of a checkpoint in this browser.
 * @throws (rejects) DataError if the file cannot be read, or if this browser has no such
 *   checkpoint.
 */
export async function loadRunOrigin(
  source: File | string,
  openCheckpoints: () => Promise<Pick<Checkpoints, 'load'>>,
): Promise<RunOrigin> {
  if (typeof source !== 'string') return readRunOrigin(source);
  const checkpoint = await (await openCheckpoints()).load(source);
  return { kind: 'checkpoint', meta: checkpoint.meta, state: runStateFromCheckpoint(checkpoint) };
}

/**
 * Reads a checkpoint or weights.
 *
 * @throws (rejects) DataError if `file` cannot be read, is truncated or damaged, or is neither a
 *   checkpoint nor weights.
 */
export async function readRunOrigin(file: File): Promise<RunOrigin> {
  try {
    const head = new Uint8Array(await file.slice(0, HEAD_BYTES).arrayBuffer());
    if (looksLikeStateFile(head)) {
      checkModelFileSize(file.name, file.size);
      const checkpoint = await decodeCheckpoint(file.name, file);
      return { kind: 'checkpoint', meta: checkpoint.meta, state: runStateFromCheckpoint(checkpoint) };
    }
    return { kind: 'weights', weights: await openWeights(file.name, file) };
  } catch (error) {
    if (error instanceof PeergradError) throw error;
    throw new DataError(
      `${file.name} could not be read (${errorMessageOf(error)}). Choose the file again.`,
      {},
      { cause: error },
    );
  }
}
