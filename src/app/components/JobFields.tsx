/**
 * What the parts of the job form share: fields offer the job that they make, which is taken if
 * nothing is wrong with it.
 */
import type { JobSpec } from '../../spec/job.ts';
import { NumberField } from './Fields.tsx';

/**
 * Takes a job, or while something is half typed only looks at it; what is wrong with it, or `null`.
 */
export type Offer = (job: JobSpec, isSettled?: boolean) => string | null;

/** Fields of a job that are numbers, or none. */
type NumberName = {
  [Name in keyof JobSpec]-?: JobSpec[Name] extends number | null ? Name : never;
}[keyof JobSpec];

interface Props {
  name: NumberName;
  label: string;
  /** What no number means, where there may be none. */
  empty?: string;
  job: JobSpec;
  offer: Offer;
}

export function JobNumber({ name, label, empty, job, offer }: Props) {
  return (
    <NumberField
      label={label}
      value={job[name]}
      {...(empty !== undefined && { empty })}
      onpick={(value, isSettled) => offer({ ...job, [name]: value }, isSettled)}
    />
  );
}
