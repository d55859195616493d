/**
 * Shows the confusion matrix: a row for each class and a column for each prediction. A sentence
 * names the most frequent mistake.
 */
import type { ComponentChildren } from 'preact';
import { CollapsedSection } from '../components/CollapsedSection.tsx';
import type { RunView } from '../state/run.ts';
import { uiMessages } from '../locales/index.ts';
import { sumOfCounts, mostFrequentMistake } from './confusionMatrix.ts';

/** Shows the name of a class, which is in the language of the data. */
const named = (name: string): ComponentChildren => (
  <strong class="class-name" lang="und">
    {name}
  </strong>
);

export function ConfusionPanel({ confusion }: { confusion: NonNullable<RunView['confusion']> }) {
  const { confusion: labels } = uiMessages.value.inspection;
  const { step, classes, counts } = confusion;
  const worst = mostFrequentMistake(confusion);
  return (
    <CollapsedSection title={labels.title} class="confusion-panel">
      <p>{worst === null ? labels.none : labels.most(named(worst.truth), named(worst.answer), worst.times)}</p>
      {/* A table of many classes scrolls. It needs the focus, so that keys can scroll it. */}
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
      <p class="small dim">{labels.about(sumOfCounts(counts.flat()), step + 1)}</p>
    </CollapsedSection>
  );
}

function kindOf(count: number, isRight: boolean): string {
  if (count === 0) return 'never';
  return isRight ? 'is-right' : 'is-wrong';
}

/**
 * Returns the strength of a cell's colour, from the cell's share of its row. The square root makes
 * mistakes of a few per cent visible.
 */
function shade(count: number, row: readonly number[]): number {
  return count === 0 ? 0 : Math.sqrt(count / sumOfCounts(row));
}
