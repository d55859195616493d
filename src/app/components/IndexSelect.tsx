/** Choices from short lists. */
import type { ComponentChildren } from 'preact';

interface IndexProps {
  /** CSS class of the label. */
  class: string;
  label: ComponentChildren;
  options: readonly string[];
  index: number;
  onpick: (index: number) => void;
}

/** A choice of one of several texts, by its index. */
export function IndexSelect({ class: className, label, options, index, onpick }: IndexProps) {
  return (
    <label class={className}>
      {label}
      <select value={options[index]} onChange={(event) => onpick(event.currentTarget.selectedIndex)}>
        {options.map((text) => (
          <option key={text}>{text}</option>
        ))}
      </select>
    </label>
  );
}

interface NumberProps {
  label: ComponentChildren;
  least: number;
  most: number;
  value: number;
  onpick: (value: number) => void;
}

/** A choice of an integer from `least` to `most`. */
export function NumberSelect({ label, least, most, value, onpick }: NumberProps) {
  return (
    <IndexSelect
      class="lesson-ranks"
      label={label}
      options={Array.from({ length: most - least + 1 }, (_, i) => String(least + i))}
      index={value - least}
      onpick={(index) => onpick(least + index)}
    />
  );
}
