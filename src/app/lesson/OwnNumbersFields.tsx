/**
 * Fields for this tab's own numbers. They are locked while this tab takes part in a round that has
 * begun. If this tab waits for the next round, they can be edited.
 */
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { isLessonRoundUnderWay } from '../../engine/lesson/lessonRound.ts';
import { MAX_LESSON_NUMBER } from '../../protocol/lesson.ts';
import { uiMessages } from '../locales/index.ts';
import type { LessonControls } from './lessonControls.ts';

export function OwnNumbersFields({ state, you, order }: Pick<LessonControls, 'state' | 'order'> & { you: number }) {
  const { own } = uiMessages.value.lesson;
  const { numbers, round } = state;
  const mine = numbers[you]!;
  const isInRound = isLessonRoundUnderWay(round) && you < round.n;
  return (
    <>
      <div class="own-numbers">
        {mine.map((value, place) => (
          <NumberInput
            key={place}
            label={own.number(place + 1)}
            value={value}
            disabled={isInRound}
            onnumber={(next) => order({ type: 'edit', rank: you, place, value: next })}
          />
        ))}
      </div>
      <p class="dim small">
        {isInRound ? own.locked : isLessonRoundUnderWay(round) ? own.nextRound : own.range(MAX_LESSON_NUMBER)}
      </p>
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
  /**
   * The text in the field after typing, valid or not; `null` shows the number of the state. That
   * number may be older than the text, because a change is first sent to the leader.
   */
  const typed = useSignal<string | null>(null);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (document.activeElement !== input.current) typed.value = null;
  }, [value, typed]);
  return (
    <input
      ref={input}
      type="number"
      aria-label={label}
      min={-MAX_LESSON_NUMBER}
      max={MAX_LESSON_NUMBER}
      step={1}
      required
      disabled={disabled}
      value={typed.value ?? value}
      onInput={({ currentTarget }) => {
        typed.value = currentTarget.value;
        if (currentTarget.validity.valid) onnumber(currentTarget.valueAsNumber);
      }}
      onBlur={({ currentTarget }) => {
        if (!currentTarget.validity.valid) typed.value = null;
      }}
    />
  );
}
