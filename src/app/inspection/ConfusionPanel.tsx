/**
 * Which class is taken for which: a row for each class, a column for each answer, and the worst of
 * it in words.
 */
import type { ComponentChildren } from 'preact';
import { Fold } from '../components/Fold.tsx';
import type { Run } from '../state/run.ts';
import { messages } from '../locales/index.ts';
import { sampleCount, mostConfused } from './confusionMatrix.ts';

/** A name of the data's, in whatever language it is. */
const named = (name: string): ComponentChildren => (
  <strong class="class-name" lang="und">
    {name}
  </strong>
);

export function ConfusionPanel({ confusion }: { confusion: NonNullable<Run['confusion']> }) {
  const { confusion: labels } = messages.value.learned;
  const { step, classes, counts } = confusion;
  const worst = mostConfused(confusion);
  return (
    <Fold title={labels.title} class="confusion-panel">
      <p>{worst === null ? labels.none : labels.most(named(worst.truth), named(worst.answer), worst.times)}</p>
      {/* It scrolls where there are many classes: by keys, too. */}
      <div class="confusion-box" tabIndex={0} role="group" aria-label={labels.title}>
        <table class="confusion" aria-label={labels.title}>
          <thead>
            <tr>
              <th scope="col" rowSpan={2}>
                {labels.truth}
              </th>
              <th scope="colgroup" colSpan={classes.length}>
                {labels.answer}
              </th>
            </tr>
            <tr>
              {classes.map((name, k) => (
                <th key={k} scope="col" title={name} lang="und">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {counts.map((row, i) => (
              <tr key={i}>
                <th scope="row" title={classes[i]} lang="und">
                  {classes[i]}
                </th>
                {row.map((count, k) => (
                  <td key={k} class={kindOf(count, i === k)} style={{ '--share': shade(count, row) }}>
                    {count}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="small dim">{labels.about(sampleCount(counts.flat()), step + 1)}</p>
    </Fold>
  );
}

function kindOf(count: number, isRight: boolean): string {
  if (count === 0) return 'never';
  return isRight ? 'is-right' : 'is-wrong';
}

/**
 * Between none of a row and all of it. By its root, as mistakes are a few in a hundred, and are
 * what one looks for.
 */
function shade(count: number, row: readonly number[]): number {
  return count === 0 ? 0 : Math.sqrt(count / sampleCount(row));
}
