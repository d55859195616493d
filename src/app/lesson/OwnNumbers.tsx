/** This tab's own numbers: fields before a round, and for the next one while this tab is in none. */
import { useSignal } from '@preact/signals';
import { isUnderWay } from '../../engine/lessonRound.ts';
import { MAX_NUMBER } from '../../protocol/lesson.ts';
import { words } from '../words/index.ts';
import type { Desk } from './desk.ts';

export function OwnNumbers({ desk: { state, you, order } }: { desk: Desk }) {
  const { own } = words.value.lesson;
  const { numbers, round } = state;
  const mine = numbers[you]!;
  const isInRound = isUnderWay(round) && you < round.n;
  const set = (place: number, value: number): void =>
    order({ type: 'edit', rank: you, numbers: mine.with(place, value) });
  return (
    <>
      <div class="own-numbers">
        {mine.map((value, place) => (
          <NumberInput
            key={place}
            label={own.number(place + 1)}
            value={value}
            disabled={isInRound}
            onnumber={(next) => set(place, next)}
          />
        ))}
      </div>
      <p class="dim small">{isInRound ? own.locked : isUnderWay(round) ? own.nextRound : own.range(MAX_NUMBER)}</p>
    </>
  );
}

interface InputProps {
  label: string;
  value: number;
  disabled: boolean;
  onnumber: (value: number) => void;
}

function NumberInput({ label, value, disabled, onnumber }: InputProps) {
  /** What stands there while it is typed, be it no number yet. */
  const typed = useSignal<string | null>(null);
  return (
    <input
      type="number"
      aria-label={label}
      min={-MAX_NUMBER}
      max={MAX_NUMBER}
      step={1}
      required
      disabled={disabled}
      value={typed.value ?? value}
      onInput={({ currentTarget: input }) => {
        typed.value = input.value;
        if (input.validity.valid) onnumber(input.valueAsNumber);
      }}
      onBlur={() => (typed.value = null)}
    />
  );
}
