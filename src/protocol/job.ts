/**
 * What a room trains: data, never code. Rank 0's job is what every rank runs.
 */
import * as v from 'valibot';
import { UsageError } from '../util/errors.ts';

export const JOB_NAMES = ['digits', 'mnist'] as const;
export const MODEL_NAMES = ['mlp', 'cnn'] as const;
export const OPTIMIZER_NAMES = ['sgd', 'momentum', 'nesterov', 'adam', 'adamw'] as const;

const positiveInteger = (max: number) => v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(max));

/** Where `mnist` takes its IDX files from: a folder's URL, or files each tab's user picked. `digits` draws its own. */
const DataSource = v.variant('kind', [
  v.strictObject({ kind: v.literal('drawn') }),
  v.strictObject({ kind: v.literal('url'), url: v.pipe(v.string(), v.minLength(1), v.maxLength(2048)) }),
  v.strictObject({ kind: v.literal('files') }),
]);

const JobFields = v.strictObject({
  job: v.picklist(JOB_NAMES),
  model: v.picklist(MODEL_NAMES),
  optimizer: v.picklist(OPTIMIZER_NAMES),
  learningRate: v.pipe(v.number(), v.finite(), v.gtValue(0), v.maxValue(10)),
  /** Samples per rank and step. */
  batchSize: positiveInteger(4096),
  /** Passes over the training data. */
  epochs: positiveInteger(1000),
  /** Stop after this many steps, if the passes are not over before. */
  maxSteps: v.nullable(positiveInteger(10_000_000)),
  seed: v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(0xffffffff)),
  /** Compare state hashes, and exchange statistics, every so many steps. */
  hashEvery: positiveInteger(1_000_000),
  data: DataSource,
});

export const JobSpec = v.pipe(
  JobFields,
  v.check(
    (job) => (job.job === 'digits') === (job.data.kind === 'drawn'),
    'digits draws its own data; mnist needs data of kind "url" or "files"',
  ),
);

export type JobSpec = v.InferOutput<typeof JobSpec>;
export type JobName = JobSpec['job'];

export const DEFAULT_JOB: JobSpec = {
  job: 'digits',
  model: 'mlp',
  optimizer: 'adam',
  learningRate: 0.002,
  batchSize: 32,
  epochs: 1,
  maxSteps: null,
  seed: 1,
  hashEvery: 20,
  data: { kind: 'drawn' },
};

/**
 * Fills what `fields` leaves out from {@link DEFAULT_JOB} and checks the whole.
 *
 * @throws UsageError naming the first field that is wrong and what it may be.
 */
export function parseJob(fields: Record<string, unknown>): JobSpec {
  const result = v.safeParse(JobSpec, { ...DEFAULT_JOB, ...fields });
  if (result.success) return result.output;
  const issue = result.issues[0];
  const path = v.getDotPath(issue);
  throw new UsageError(`The job is not valid: ${path === null ? '' : `${path}: `}${issue.message}.`);
}
