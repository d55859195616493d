/**
 * Compares the bytes on the busiest link of the ring with the bytes on the busiest link of a
 * parameter server, for any number of tabs. These bytes are computed by formulas. The measured
 * bytes are also shown.
 */
import { clamp } from '../../util/clamp.ts';
import { useSignal } from '@preact/signals';
import { LESSON_ALGORITHMS, type LessonAlgorithm } from '../../protocol/lesson.ts';
import { formatBytes } from '../locales/format.ts';
import { uiMessages } from '../locales/index.ts';
import type { LessonControls } from './lessonControls.ts';
import { SOLO_RANK_COUNTS } from './solo.ts';

/**
 * Returns the bytes on the busiest link in a round of `n` ranks that have `k` float32 numbers each.
 * The link carries 2k(n-1)/n numbers on a ring with equal chunks, and 2k(n-1) numbers with a
 * parameter server.
 */
export function busiestLinkBytes(mode: LessonAlgorithm, n: number, k: number): number {
  const all = 2 * k * (n - 1) * Float32Array.BYTES_PER_ELEMENT;
  return mode === 'ring' ? all / n : all;
}

export function BusiestLinkComparison({ controls: { state, isSolo } }: { controls: LessonControls }) {
  const { compare } = uiMessages.value.lesson;
  const { round, measured } = state;
  const k = round.own[0]!.length;
  const chosen = useSignal<number | null>(null);
  const n = chosen.value ?? clamp(round.n, SOLO_RANK_COUNTS.min, SOLO_RANK_COUNTS.max);
  const most = busiestLinkBytes('parameter-server', SOLO_RANK_COUNTS.max, k);
  return (
    <>
      <label class="lesson-slider">
        <span>
          {compare.tabs} <b class="number">{n}</b>
        </span>
        <input
          type="range"
          min={SOLO_RANK_COUNTS.min}
          max={SOLO_RANK_COUNTS.max}
          step={1}
          value={n}
          onInput={(event) => (chosen.value = event.currentTarget.valueAsNumber)}
        />
      </label>
      <dl class="compare">
        {LESSON_ALGORITHMS.map((mode) => {
          const bytes = busiestLinkBytes(mode, n, k);
          const seen = measured[mode];
          return (
            <div key={mode}>
              <dt class="small">{compare[mode]}</dt>
              <dd>
                <span class="compare-bar" data-mode={mode} aria-hidden="true">
                  <i style={{ width: `${((bytes / most) * 100).toFixed(2)}%` }} />
                </span>
                <span class="number">{formatBytes(bytes)}</span>{' '}
                {seen !== null && seen.n === n && (
                  <span class="dim small nowrap">
                    {(isSolo ? compare.counted : compare.measured)(formatBytes(seen.bytes))}{' '}
                    {seen.bytes !== bytes && compare.uneven}
                  </span>
                )}
              </dd>
            </div>
          );
        })}
      </dl>
      <p>{compare.times(n)}</p>
      <p class="dim small">{compare.numbers(k)}</p>
    </>
  );
}
