/** Counts the squares of the bubble, and compares their share with the formula. */
import { formatShare } from '../../locales/format.ts';
import { messages } from '../../locales/index.ts';
import { Board } from './Board.tsx';
import { bubbleShare, planFor, squaresOf, type PipelineSize } from './board.ts';
import { Legend } from './Legend.tsx';

export function Bubble({ size }: { size: PipelineSize }) {
  const { bubble, schedules } = messages.value.pipelineLesson;
  const plan = planFor('gpipe', size);
  const { all, waiting } = squaresOf(plan);
  const { stages, microBatches } = size;
  return (
    <section class="pipeline-part" aria-label={bubble.title}>
      <Legend />
      <Board caption={schedules.gpipe} plan={plan} columns={plan.ticks} hasKept={false} chooses={null} />
      <dl class="bubble-sums" aria-live="polite">
        <div>
          <dt class="dim">{bubble.counted}</dt>
          <dd>{bubble.squares(waiting, all)}</dd>
          <dd class="number">{formatShare(waiting / all, 1)}</dd>
        </div>
        <div>
          <dt class="dim">{bubble.formula}</dt>
          <dd>
            ({stages}−1) / ({microBatches}+{stages}−1)
          </dd>
          <dd class="number">{formatShare(bubbleShare(size), 1)}</dd>
        </div>
      </dl>
    </section>
  );
}
