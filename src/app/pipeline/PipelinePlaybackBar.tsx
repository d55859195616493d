/** The controls of the player of a pipeline's plan, and a description of the current frame. */
import { useComputed } from '@preact/signals';
import type { PassKind, PipelinePlan, StagePass } from '../../parallel/pipeline/schedules.ts';
import { idleShare, stageTakesTime } from '../../parallel/pipeline/schedules.ts';
import { formatPercent } from '../locales/format.ts';
import { uiMessages } from '../locales/index.ts';
import { formatCssPercent, PlaybackBar } from '../ring/player/PlaybackBar.tsx';
import type { PipelinePlayer } from './pipelinePlayer.ts';

/**
 * A part that is shorter than this share of the bar has no title, because the title would be cut
 * off.
 */
const LEAST_TITLED = 0.15;

export function PipelinePlaybackBar({ player }: { player: PipelinePlayer }) {
  const { pipeline: labels } = uiMessages.value;
  const done = useComputed(() => player.frame.value?.tick ?? 0).value;
  const plan = player.reel.value?.plan ?? null;
  if (plan === null) return null;
  const ends = player.pacing.value?.ends ?? [];
  const { filled, drains } = turnsOf(plan);
  const parts = [
    { title: labels.fills, from: 0, to: filled },
    { title: labels.runs, from: filled, to: drains },
    { title: labels.drains, from: drains, to: plan.ticks },
  ].filter(({ from, to }) => to > from);
  return (
    <PlaybackBar
      player={player}
      phases={
        <div class="phases placed small" aria-hidden="true">
          {parts.map(({ title, from, to }) => {
            const share = (ends[to - 1] ?? 1) - (ends[from - 1] ?? 0);
            return (
              <span key={title} class="ellipsis" style={{ width: formatCssPercent(share) }}>
                {share >= LEAST_TITLED ? title : ''}
              </span>
            );
          })}
        </div>
      }
      turns={[filled - 1, drains - 1].filter((tick) => tick >= 0)}
      done={labels.done(done, plan.ticks)}
      note={labels.planIdle(formatPercent(idleShare(plan)))}
    />
  );
}

/**
 * Returns two ticks of the plan: `filled`, the first tick at which every rank has begun, and
 * `drains`, the first tick at which a rank has ended its last pass. `drains` is at least `filled`.
 */
function turnsOf(plan: PipelinePlan): { filled: number; drains: number } {
  const { ticks } = plan;
  const passes = plan.passes.map((own) => own.filter(({ stage }) => stageTakesTime(plan, stage)));
  const filled = Math.max(...passes.map((own) => own[0]?.tick ?? 0));
  const drains = Math.min(ticks, ...passes.map((own) => (own.at(-1)?.tick ?? 0) + 1));
  return { filled, drains: Math.max(filled, drains) };
}

/** Describes what this rank does in the current frame, and how many ranks compute. */
export function PipelineCaption({ player, place }: { player: PipelinePlayer; place: number | null }) {
  const text = useComputed(() => {
    const { pipeline: labels } = uiMessages.value;
    const frame = player.frame.value;
    const plan = player.reel.value?.plan;
    if (frame === null || plan === undefined) return '';
    if (frame.tick >= plan.ticks) return labels.end;
    const own: StagePass | null | undefined = place === null ? undefined : frame.passes[place];
    const busy = frame.passes.filter((pass) => pass !== null).length;
    const sentences = [
      labels.tick(frame.tick + 1, plan.ticks),
      ...(own === undefined ? [] : [own === null ? labels.youWait : labels.youCompute(own)]),
      labels.busy(busy, plan.ranks),
    ];
    return labels.sentences(sentences);
  });
  return <>{text.value}</>;
}

/** The colours of micro-batches. */
export function PipelineLegend() {
  const { pipeline: labels } = uiMessages.value;
  const kinds: readonly PassKind[] = ['forward', 'backward'];
  return (
    <p class="legend dim small">
      {labels.legend}{' '}
      {kinds.map((kind) => (
        <span key={kind} class="nowrap key">
          <i class={`swatch ${kind}`} /> {labels.kinds[kind]}{' '}
        </span>
      ))}
    </p>
  );
}
