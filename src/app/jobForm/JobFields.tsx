/** Types and the number field that the parts of the job form share. */
import type { JobSpec } from '../../spec/job.ts';
import { NumberField } from '../components/Fields.tsx';

/**
 * Offers a changed job to the form. The form stores the job if the user has finished the change and
 * the job is valid. Returns the error, or `null`.
 */
export type OfferJobChange = (job: JobSpec, isSettled?: boolean) => string | null;

/** Names of the job fields that are numbers or `null`. */
type NumberName = {
  [Name in keyof JobSpec]-?: JobSpec[Name] extends number | null ? Name : never;
}[keyof JobSpec];

interface Props {
  name: NumberName;
  label: string;
  /** The word that an empty field shows for `null`. */
  empty?: string;
  job: JobSpec;
  offer: OfferJobChange;
}

export function JobNumberField({ name, label, empty, job, offer }: Props) {
  return (
    <NumberField
      label={label}
      value={job[name]}
      {...(empty !== undefined && { empty })}
      onpick={(value, isSettled) => offer({ ...job, [name]: value }, isSettled)}
    />
  );
}
