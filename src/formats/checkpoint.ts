/**
 * Checkpoints of a room's run, to continue the run later in this browser or in another one. Stored
 * checkpoints and checkpoint files have the same format, that of {@link encodeStateFile}.
 */
import * as v from 'valibot';
import { UsageError } from '../util/errors.ts';
import { JobSpec } from '../spec/job.ts';
import { ShardFacts } from '../spec/dataFacts.ts';
import { Vocabulary } from '../spec/vocabulary.ts';
import { countSchema, finiteSchema } from '../protocol/scalars.ts';
import { decodeStateFile, encodeStateFile, readStateFileMeta, type StateArray } from './stateFile.ts';

export const CheckpointMeta = v.strictObject({
  /** Identifies the checkpoint. It is also the name under which the checkpoint is stored. */
  id: v.pipe(v.string(), v.regex(/^[\w-]{1,64}$/)),
  room: v.string(),
  job: JobSpec,
  /** Milliseconds since 1970. */
  savedAt: finiteSchema,
  /** Steps done. */
  step: countSchema,
  /** The position in the training data from which the run continues. */
  position: v.strictObject({ epoch: countSchema, offset: countSchema, parts: v.exactOptional(countSchema) }),
  /** Steps between two evaluations on held-out samples. */
  evaluateEvery: countSchema,
  /**
   * Training time in milliseconds when the latest step began. The job's time limit applies to it.
   */
  trainedMs: v.pipe(finiteSchema, v.minValue(0)),
  /**
   * The latest two evaluations of a run with early stopping. For each: `best` is the lowest
   * held-out loss of the run up to this evaluation, and `since` is the number of evaluations after
   * the one with that loss.
   */
  verdicts: v.array(
    v.strictObject({ step: countSchema, best: finiteSchema, bestStep: countSchema, since: countSchema }),
  ),
  /** For each step, the mean loss over the samples of all ranks. */
  losses: v.array(finiteSchema),
  /** Digest of the replica's state, computed in the same way as for comparisons between ranks. */
  stateHash: v.string(),
  worldSize: v.pipe(countSchema, v.minValue(1)),
  /** The facts of the data on which all ranks agreed; missing unless the data come from files. */
  agreed: v.exactOptional(ShardFacts),
  /** Vocabulary of a language model; missing for other models. */
  vocabulary: v.exactOptional(Vocabulary),
});
export type CheckpointMeta = v.InferOutput<typeof CheckpointMeta>;

export interface Checkpoint {
  meta: CheckpointMeta;
  arrays: StateArray[];
}

/**
 * Encodes a checkpoint. The arrays are copied, so the caller may change them afterwards.
 *
 * @throws UsageError if `meta` does not match its schema.
 */
export function encodeCheckpoint(meta: CheckpointMeta, arrays: readonly StateArray[]): Uint8Array<ArrayBuffer> {
  return encodeStateFile(parseMeta(meta), arrays);
}

/**
 * Reads the metadata without the arrays. The arrays' bytes are not verified; {@link
 * decodeCheckpoint} verifies them.
 *
 * @param name the checkpoint's name in errors.
 * @throws (rejects) as {@link readStateFileMeta}.
 */
export function readCheckpointMeta(name: string, blob: Blob): Promise<CheckpointMeta> {
  return readStateFileMeta(name, blob, CheckpointMeta);
}

/**
 * Reads the whole checkpoint.
 *
 * @throws (rejects) as {@link decodeStateFile}.
 */
export function decodeCheckpoint(name: string, blob: Blob): Promise<Checkpoint> {
  return decodeStateFile(name, blob, CheckpointMeta);
}

/**
 * Validates the metadata and puts its fields into the order of the schema, because jobs are
 * compared as JSON text.
 *
 * @throws UsageError if the metadata do not match the schema.
 */
function parseMeta(meta: CheckpointMeta): CheckpointMeta {
  const result = v.safeParse(CheckpointMeta, meta);
  if (result.success) return result.output;
  const [issue] = result.issues;
  throw new UsageError(`The checkpoint cannot be saved: ${v.getDotPath(issue) ?? 'metadata'}: ${issue.message}.`);
}
