/**
 * The controls of the player of an all-reduce. If the times are measured, a text says how much
 * slower the player is than the run.
 */
import { useComputed } from '@preact/signals';
import type { PlanStep } from '../../../collectives/plans/planSteps.ts';
import { formatCount, formatMs } from '../../locales/format.ts';
import { uiMessages } from '../../locales/index.ts';
import { formatCssPercent, PlaybackBar } from './PlaybackBar.tsx';
import type { RingPlayer } from './player.ts';
import { usePlayedPlan } from './usePlayedPlan.ts';

interface Props {
  player: RingPlayer;
  /** Whether the times are simulated, not measured. */
  simulated?: boolean;
}

export function PlayerBar({ player, simulated = false }: Props) {
  const { ring } = uiMessages.value;
  const done = useComputed(() => player.frame.value?.completed ?? 0);
  const ends = player.pacing.value?.ends ?? [];
  const { steps = [], algorithm = 'ring' } = usePlayedPlan(player) ?? {};
  /** The last step of each phase except the last phase. */
  const turns = steps.flatMap(({ phase }, i) => (i + 1 < steps.length && steps[i + 1]!.phase !== phase ? [i] : []));
  return (
    <PlaybackBar
      player={player}
      phases={algorithm === 'ring' ? <RingPhases /> : <Phases steps={steps} ends={ends} />}
      turns={turns}
      done={ring.done(done.value, steps.length, algorithm === 'ring')}
      note={simulated ? ring.simulated : <Slowdown player={player} />}
    />
  );
}

/** The two phases of a ring, with an explanation. */
function RingPhases() {
  const { ring } = uiMessages.value;
  return (
    <div class="phases small dim" aria-hidden="true">
      <span>
        reduce-scatter <span class="phase-gloss">{ring.reduceScatter}</span>
      </span>
      <span>
        all-gather <span class="phase-gloss">{ring.allGather}</span>
      </span>
    </div>
  );
}

/** The phases of an algorithm, each over its steps. */
function Phases({ steps, ends }: { steps: readonly PlanStep[]; ends: readonly number[] }) {
  const { ring } = uiMessages.value;
  return (
    <div class="phases placed small" aria-hidden="true">
      {steps.flatMap(({ phase, hop, hops }, i) => {
        if (hop > 0) return [];
        const start = ends[i - 1] ?? 0;
        const width = (ends[i + hops - 1] ?? 1) - start;
        return [
          <span key={phase} class="ellipsis" style={{ width: formatCssPercent(width) }}>
            {ring.phases[phase].title}
          </span>,
        ];
      })}
    </div>
  );
}

function Slowdown({ player }: { player: RingPlayer }) {
  const { ring } = uiMessages.value;
  const pacing = player.pacing.value;
  if (pacing === null) return <>{ring.nothing}</>;
  const slower = pacing.slowdown / player.speed.value;
  const pace = slower >= 1 ? ring.slower(formatCount(slower)) : ring.faster(formatCount(1 / slower));
  return <>{ring.took(formatMs(pacing.timeline.duration), pace, pacing.stretched)}</>;
}
