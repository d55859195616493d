/** Files that one rank has and the ranks hand on to each other: what a job says of them. */
import * as v from 'valibot';

/** All files together: what reads them has them in memory. */
export const MAX_SHARED_BYTES = 2 ** 30;
/** A job is part of messages that hold no more than 64 KiB. */
export const MAX_SHARED_FILES = 64;
export const MAX_FILE_NAME_LENGTH = 200;

/**
 * A digest of `util/hash.ts`, of a slice, or of a file: of its slices' digests, one behind the
 * other.
 */
export const DIGEST_LENGTH = 16;

export const ManifestFile = v.strictObject({
  name: v.pipe(v.string(), v.minLength(1), v.maxLength(MAX_FILE_NAME_LENGTH)),
  size: v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(MAX_SHARED_BYTES)),
  hash: v.pipe(v.string(), v.regex(new RegExp(`^[\\da-f]{${DIGEST_LENGTH}}$`))),
});
export type ManifestFile = v.InferOutput<typeof ManifestFile>;

/** A job's; none while nobody has chosen them. */
export const FileManifest = v.pipe(
  v.array(ManifestFile),
  v.maxLength(MAX_SHARED_FILES),
  v.check((files) => totalBytes(files) <= MAX_SHARED_BYTES, 'files to spread have 1 GiB at most, all together'),
  v.check(
    (files) => new Set(files.map(({ name }) => name)).size === files.length,
    'files to spread have names of their own',
  ),
);

export function totalBytes(files: readonly Pick<ManifestFile, 'size'>[]): number {
  return files.reduce((sum, { size }) => sum + size, 0);
}
