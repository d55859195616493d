/** The fields for the size of a language model. */
import type { GptPresetName } from '../../spec/gpt.ts';
import type { JobSpec } from '../../spec/job.ts';
import { gptPresetOf, withGptPreset } from '../state/jobForm.ts';
import { uiMessages } from '../locales/index.ts';
import { NumberField, SelectField } from '../components/Fields.tsx';
import type { OfferJobChange } from './JobFields.tsx';

const SIZES = ['layers', 'heads', 'width', 'context', 'dropout'] as const;

/** Selects a preset, or shows that the sizes were set under "Advanced". */
export function GptPresetField({ job, offer }: { job: JobSpec; offer: OfferJobChange }) {
  const { job: labels } = uiMessages.value;
  const preset = gptPresetOf(job);
  // A size that is not a preset can only be set under "Advanced".
  const own = preset === null && { own: labels.ownSize };
  const options = { ...labels.presets, ...own } as Record<GptPresetName | 'own', string>;
  return (
    <SelectField
      label={labels.size}
      value={preset ?? 'own'}
      options={options}
      onpick={(name) => {
        if (name !== 'own') offer(withGptPreset(job, name));
      }}
    />
  );
}

export function GptFields({ job, offer }: { job: JobSpec; offer: OfferJobChange }) {
  const { job: labels } = uiMessages.value;
  const { tokens, vocabulary } = job.gpt;
  const set = (change: Partial<JobSpec['gpt']>, isSettled?: boolean): string | null =>
    offer({ ...job, gpt: { ...job.gpt, ...change } }, isSettled);
  return (
    <>
      {SIZES.map((name) => (
        <NumberField
          key={name}
          label={labels[name]}
          value={job.gpt[name]}
          onpick={(value, isSettled) => set({ [name]: value }, isSettled)}
        />
      ))}
      <SelectField
        label={labels.tokens}
        value={tokens}
        options={labels.tokenKinds}
        onpick={(value) => set({ tokens: value })}
      />
      {tokens === 'byte-pairs' && (
        <NumberField
          label={labels.vocabulary}
          value={vocabulary}
          onpick={(value, isSettled) => set({ vocabulary: value }, isSettled)}
        />
      )}
    </>
  );
}
