/**
 * Shows a pipeline's plan: a row for each rank, a column for each tick, and in each cell the
 * micro-batch of a pass. Empty cells are the bubble. A line shows the position of the player, and a
 * click changes it.
 */
import { contextInCssPixels } from '../components/canvas.ts';
import { useEffect, useRef } from 'preact/hooks';
import { idleShare, stageTakesTime, type PipelinePlan } from '../../parallel/pipeline/schedules.ts';
import { smallTextPixels, theme, zoom } from '../browser/theme.ts';
import { RankMark } from '../components/RankMark.tsx';
import { useElementSize } from '../components/useElementSize.ts';
import { formatPercent } from '../locales/format.ts';
import { uiMessages } from '../locales/index.ts';
import { formatCssPercent } from '../ring/player/PlaybackBar.tsx';
import { playbackPositionAfterSteps } from '../ring/player/pacing.ts';
import { drawPipelinePlan, readPassColours } from './drawPlan.ts';
import type { PipelinePlayer } from './pipelinePlayer.ts';
import { PipelineLegend } from './PipelinePlaybackBar.tsx';

/**
 * With more ranks than MOST_MARKS, rows are too low for the ranks' marks. With more passes than
 * MOST_LISTED, the list for screen readers would be too long.
 */
const MOST_MARKS = 16;
const MOST_LISTED = 64;

export function PlanGrid({ player }: { player: PipelinePlayer }) {
  const { pipeline: labels } = uiMessages.value;
  const plan = player.reel.value?.plan ?? null;
  if (plan === null) return null;
  const n = plan.ranks;
  const rowHeight = Math.round((n <= 8 ? 24 : n <= MOST_MARKS ? 18 : n <= 32 ? 10 : 6) * zoom.value);
  return (
    <div class="plan-grid">
      <PipelineLegend />
      <div class="plan-lanes" style={{ '--row': `${rowHeight}px` }}>
        <div class="plan-ranks" aria-hidden="true">
          {Array.from({ length: n }, (_, rank) => (
            <span key={rank}>
              {n <= MOST_MARKS ? <RankMark rank={rank} /> : rank % 4 === 0 && <span class="number">{rank}</span>}
            </span>
          ))}
        </div>
        <Cells plan={plan} player={player} rowHeight={rowHeight} />
      </div>
      <p class="dim small">{labels.planNote(formatPercent(idleShare(plan)), !stageTakesTime(plan, 0))}</p>
      {plan.microBatches * 2 <= MOST_LISTED && <PlanTable plan={plan} />}
    </div>
  );
}

function Cells({ plan, player, rowHeight }: { plan: PipelinePlan; player: PipelinePlayer; rowHeight: number }) {
  const { pipeline: labels } = uiMessages.value;
  const canvas = useRef<HTMLCanvasElement>(null);
  const { width } = useElementSize(canvas);
  const height = rowHeight * plan.ranks;
  const text = smallTextPixels.value;
  const colours = theme.value;
  useEffect(() => {
    const element = canvas.current;
    const context = contextInCssPixels(element, width, height);
    if (element === null || context === null) return;
    drawPipelinePlan(context, { plan, width, rowHeight, textSize: text, colours: readPassColours(element) });
  }, [plan, width, height, rowHeight, text, colours]);
  return (
    <div class="plan-cells">
      <canvas
        ref={canvas}
        style={{ height: `${height}px` }}
        role="img"
        aria-label={labels.planLabel(plan.ranks, plan.ticks)}
        onPointerDown={(event) => {
          const pace = player.pacing.peek();
          const share = event.offsetX / event.currentTarget.clientWidth;
          if (pace !== null) player.seek(playbackPositionAfterSteps(pace, share * plan.ticks));
        }}
      />
      <Playhead player={player} ticks={plan.ticks} />
    </div>
  );
}

function Playhead({ player, ticks }: { player: PipelinePlayer; ticks: number }) {
  return <i class="playhead" style={{ left: formatCssPercent(Math.min(1, player.time.value / ticks)) }} />;
}

/** The passes of each rank, in order, for screen readers. */
function PlanTable({ plan }: { plan: PipelinePlan }) {
  const { pipeline: labels, run } = uiMessages.value;
  return (
    <div class="away">
      <table>
        <caption>{labels.plan}</caption>
        <tbody>
          {plan.passes.map((own, rank) => (
            <tr key={rank}>
              <th scope="row">
                {run.rank} {rank}
              </th>
              {own.map(({ kind, microBatch, stage, tick }) => (
                <td key={`${kind}/${stage}/${microBatch}`}>{labels.passIn(kind, microBatch, stage, tick + 1)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
