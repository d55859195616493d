/** Labelled inputs. They report when a value is settled (`change`), not on every key. */

export function Select<Value extends string>({
  label,
  value,
  options,
  onpick,
}: {
  label: string;
  value: Value;
  options: Record<Value, string>;
  onpick: (value: Value) => void;
}) {
  const values = Object.keys(options) as Value[];
  return (
    <label class="field">
      <span>{label}</span>
      <select value={value} onChange={(event) => onpick(values[event.currentTarget.selectedIndex]!)}>
        {values.map((one) => (
          <option key={one} value={one}>
            {options[one]}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A number; where `empty` is given, nothing typed means `null` and is shown as that word. */
export function NumberField<Value extends number | null>({
  label,
  value,
  empty,
  onpick,
}: {
  label: string;
  value: Value;
  empty?: string;
  onpick: (value: Value) => void;
}) {
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type="text"
        inputMode="decimal"
        autocomplete="off"
        value={value ?? ''}
        placeholder={empty ?? ''}
        onChange={(event) => {
          const text = event.currentTarget.value.trim();
          // What is no number goes on as NaN: the job's schema says what it must be.
          const next = text === '' && empty !== undefined ? null : text === '' ? Number.NaN : Number(text);
          onpick(next as Value);
        }}
      />
    </label>
  );
}

export function NameField({ value, oninput }: { value: string; oninput: (value: string) => void }) {
  return (
    <label class="field">
      <span>Your name</span>
      <input
        type="text"
        name="name"
        autocomplete="nickname"
        maxLength={40}
        required
        value={value}
        onInput={(event) => oninput(event.currentTarget.value)}
      />
    </label>
  );
}
