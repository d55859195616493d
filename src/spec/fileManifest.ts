/** The manifest of distributed files: the part of a job that lists names, sizes and digests. */
import * as v from 'valibot';

/**
 * The largest size of all files together, in bytes. It is limited because every rank stores all
 * files and loads their data.
 */
export const MAX_SHARED_BYTES = 2 ** 30;
/**
 * The largest number of files. It is limited because the list must fit in one control message, as
 * part of the job.
 */
export const MAX_SHARED_FILES = 64;
export const MAX_FILE_NAME_LENGTH = 200;

/**
 * Length of a digest of `util/hash.ts`. A slice has a digest of its bytes; a file has a digest of
 * its slices' digests.
 */
export const DIGEST_LENGTH = 16;

export const ManifestFile = v.strictObject({
  name: v.pipe(v.string(), v.minLength(1), v.maxLength(MAX_FILE_NAME_LENGTH)),
  size: v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(MAX_SHARED_BYTES)),
  hash: v.pipe(v.string(), v.regex(new RegExp(`^[\\da-f]{${DIGEST_LENGTH}}$`))),
});
export type ManifestFile = v.InferOutput<typeof ManifestFile>;

/** The files of a job; empty until the host has chosen them. */
export const FileManifest = v.pipe(
  v.array(ManifestFile),
  v.maxLength(MAX_SHARED_FILES),
  v.check((files) => totalFileBytes(files) <= MAX_SHARED_BYTES, 'shared files may have at most 1 GiB together'),
  v.check(
    (files) => new Set(files.map(({ name }) => name)).size === files.length,
    'shared files must have different names',
  ),
);

export function totalFileBytes(files: readonly Pick<ManifestFile, 'size'>[]): number {
  return files.reduce((sum, { size }) => sum + size, 0);
}
