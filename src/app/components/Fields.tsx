/**
 * Inputs with labels. An input reports its value when the user has finished a change (event
 * `change`). Numbers are also checked while they are typed.
 */
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { MAX_MEMBER_NAME_LENGTH } from '../state/route.ts';
import { uiMessages } from '../locales/index.ts';

/**
 * A choice. If the picked value is refused, the earlier value stays, and the reason is shown until
 * the user picks again.
 */
export function SelectField<Value extends string>({
  label,
  value,
  options,
  about,
  onpick,
}: {
  label: string;
  value: Value;
  options: Record<Value, string>;
  /** Id of the text that describes the value. */
  about?: string;
  /** Returns the reason why the value is refused, or `null` if it is accepted. */
  onpick: (value: Value) => string | null | void;
}) {
  const problem = useSignal<string | null>(null);
  const values = Object.keys(options) as Value[];
  return (
    <label class="field">
      <span>{label}</span>
      <select
        value={value}
        aria-describedby={about}
        onChange={({ currentTarget }) => {
          problem.value = onpick(values[currentTarget.selectedIndex]!) ?? null;
          if (problem.value !== null) currentTarget.value = value;
        }}
      >
        {values.map((one) => (
          <option key={one} value={one}>
            {options[one]}
          </option>
        ))}
      </select>
      {problem.value !== null && (
        <small class="wrong" role="alert">
          ✕ {problem.value}
        </small>
      )}
    </label>
  );
}

/**
 * An input for a number. If `empty` is given, an empty field means `null`, and the field shows the
 * text `empty`. An invalid number stays in the field, next to its error, and the form cannot be
 * submitted.
 */
export function NumberField<Value extends number | null>({
  label,
  value,
  empty,
  onpick,
}: {
  label: string;
  value: Value;
  empty?: string;
  /**
   * Returns the error of the number, or `null` if the number is valid. The number is stored only if
   * `isSettled` is true, not while it is typed.
   */
  onpick: (value: Value, isSettled: boolean) => string | null;
}) {
  const typed = useSignal<string | null>(null);
  const problem = useSignal<string | null>(null);
  const read = (input: HTMLInputElement, isSettled: boolean): void => {
    const text = input.value.trim().replace(',', '.');
    const none = text === '' && empty !== undefined;
    const number = none ? null : Number(text === '' ? Number.NaN : text);
    problem.value = Number.isNaN(number) ? uiMessages.value.job.notNumber : onpick(number as Value, isSettled);
    typed.value = isSettled && problem.value === null ? null : input.value;
    input.setCustomValidity(problem.value ?? '');
  };
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type="text"
        inputMode="decimal"
        autocomplete="off"
        value={typed.value ?? value ?? ''}
        placeholder={empty ?? ''}
        aria-invalid={problem.value !== null}
        onInput={({ currentTarget }) => read(currentTarget, false)}
        onChange={({ currentTarget }) => read(currentTarget, true)}
      />
      {problem.value !== null && (
        <small class="wrong" role="alert">
          ✕ {problem.value}
        </small>
      )}
    </label>
  );
}

export function NameField({ value, oninput }: { value: string; oninput: (value: string) => void }) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    // On touch screens, the field does not get the focus: the keyboard would hide half the page.
    if (input.current?.value === '' && matchMedia('(pointer: fine)').matches) input.current.focus();
  }, []);
  return (
    <label class="field">
      <span>{uiMessages.value.join.yourName}</span>
      <input
        ref={input}
        type="text"
        name="name"
        autocomplete="nickname"
        maxLength={MAX_MEMBER_NAME_LENGTH}
        required
        value={value}
        onInput={(event) => oninput(event.currentTarget.value)}
      />
    </label>
  );
}
