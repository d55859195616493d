/**
 * The grid of a plan, with a row for each stage and a column for each tick, and the activations
 * that each stage keeps.
 */
import { useEffect, useRef } from 'preact/hooks';
import type { PipelinePlan } from '../../../parallel/pipeline/schedules.ts';
import { RankMark } from '../../components/RankMark.tsx';
import { uiMessages } from '../../locales/index.ts';
import { keptActivationsByStage, passAtTick } from './board.ts';

interface Props {
  caption: string;
  /** The passes that were computed so far. */
  plan: PipelinePlan;
  /** Number of ticks to show. */
  columns: number;
  /** Whether to show the activations that each stage keeps. */
  hasKept: boolean;
  /** The stage whose next pass a person chooses; `null` if nobody chooses. */
  chooses: number | null;
}

export function PipelinePlanGrid({ caption, plan, columns, hasKept, chooses }: Props) {
  const { board } = uiMessages.value.pipelineLesson;
  const ticks = Array.from({ length: columns }, (_, tick) => tick);
  const scroller = useRef<HTMLDivElement>(null);
  const seen = useRef(plan.ticks);
  useEffect(() => {
    if (seen.current === plan.ticks) return;
    seen.current = plan.ticks;
    // On a narrow page, the latest tick may be out of view, so the grid scrolls to it.
    const latest = scroller.current!.querySelector<HTMLElement>('th.latest');
    scroller.current!.scrollLeft = latest === null ? 0 : latest.offsetLeft - scroller.current!.clientWidth / 2;
  }, [plan.ticks]);
  return (
    <div class={hasKept ? 'board with-kept' : 'board'}>
      <div class="board-columns">
        <div ref={scroller} class="board-scroll" role="region" aria-label={caption} tabIndex={0}>
          <table style={{ '--ticks': columns }}>
            <thead>
              <tr>
                <th scope="col">
                  <span class="away">{board.stages}</span>
                  <span aria-hidden="true">{board.ticks}</span>
                </th>
                {ticks.map((tick) => (
                  <th
                    key={tick}
                    scope="col"
                    class={tick === plan.ticks - 1 ? 'latest' : ''}
                    aria-label={board.tick(tick + 1)}
                  >
                    {tick + 1}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {plan.passes.map((_, rank) => (
                <tr key={rank} class={rank === chooses ? 'mine' : ''}>
                  <th scope="row" aria-label={board.stage(rank)}>
                    <RankMark rank={rank} />
                  </th>
                  {ticks.map((tick) => (
                    <Square key={tick} plan={plan} rank={rank} tick={tick} isAsked={rank === chooses} />
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        {hasKept && <Kept plan={plan} />}
      </div>
    </div>
  );
}

function Square({ plan, rank, tick, isAsked }: { plan: PipelinePlan; rank: number; tick: number; isAsked: boolean }) {
  const { board } = uiMessages.value.pipelineLesson;
  if (tick === plan.ticks && isAsked)
    return (
      <td class="square asked">
        <span aria-hidden="true">?</span>
        <span class="away">{board.yours}</span>
      </td>
    );
  if (tick >= plan.ticks) return <td class="square" />;
  const pass = passAtTick(plan, rank, tick);
  return (
    <td class={`square ${pass?.kind ?? 'waits'}`}>
      <span class="away">{pass === null ? board.waits : board[pass.kind]} </span>
      {pass !== null && pass.microBatch + 1}
    </td>
  );
}

/**
 * Shows for each stage the micro-batches whose activations it keeps. Empty places fill the row up
 * to the largest number that the stage has kept at the same time.
 */
function Kept({ plan }: { plan: PipelinePlan }) {
  const { kept } = uiMessages.value.pipelineLesson;
  return (
    <div class="kept">
      <p class="small dim">{kept.title}</p>
      <ul class="plain">
        {keptActivationsByStage(plan).map(({ now, most }, stage) => (
          <li key={stage} style={{ '--slots': plan.microBatches }}>
            <span class="away">{kept.label(stage, now.length, most)}</span>
            <span class="kept-mark" aria-hidden="true">
              <RankMark rank={stage} />
            </span>
            <span class="kept-slots" aria-hidden="true">
              {Array.from({ length: most }, (_, i) => (
                <i key={i} class={i < now.length ? 'square forward' : 'square'}>
                  {i < now.length && now[i]! + 1}
                </i>
              ))}
            </span>
            <span class="small number nowrap" aria-hidden="true">
              {kept.text(now.length, most)}
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}
