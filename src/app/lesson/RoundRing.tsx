/** Shows the ring of a round. When a step is taken, the chunks of this step are animated. */
import { useSignalEffect, type Signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { ringStepCount } from '../../collectives/plans/ringPlan.ts';
import { roundStepCount } from '../../engine/lesson/lessonRound.ts';
import type { LessonRound } from '../../protocol/lesson.ts';
import { RingView } from '../ring/RingView.tsx';
import type { PlayedRound } from '../ring/player/player.ts';
import { useRingPlayer } from '../ring/player/usePlayer.ts';
import { uiMessages } from '../locales/index.ts';
import { viewpointRank, type LessonControls } from './lessonControls.ts';
import { roundPhaseOf } from './describeLessonStep.ts';

interface Props {
  controls: LessonControls;
  /** Receives the number of steps that the ring has shown. */
  shown: Signal<number>;
}

export function RoundRing({ controls, shown }: Props) {
  const { lesson } = uiMessages.value;
  const { state, you, isSolo } = controls;
  const { round, members, slow } = state;
  const { n, mode, steps } = round;
  const isRing = mode === 'ring';
  const at = viewpointRank(controls);
  const stage = useMemo(() => (isRing && n > 1 ? stageOf(round, at) : null), [round, at, isRing, n]);
  const player = useRingPlayer(stage, { autoplay: false, keys: false });
  const taken = steps.length;
  useEffect(() => player.showStep(taken), [player, taken]);
  useSignalEffect(() => {
    shown.value = player.frame.value?.completed ?? Infinity;
  });
  const count = roundStepCount(mode, n);
  const names = members
    .slice(0, n)
    .map(({ name }, rank) => ({ name: rank === you && isSolo ? lesson.grid.you : name }));
  const edges = names.map((_, rank) => {
    const isSlow = slow?.rank === rank;
    return { up: !isSlow, label: isSlow ? lesson.ring.slow(slow.seconds) : '' };
  });
  return (
    <RingView
      members={names}
      you={you !== null && you < n ? you : null}
      shape={isRing ? 'ring' : 'star'}
      edges={edges}
      player={isRing ? player : null}
      centre={{
        top: lesson.phases[roundPhaseOf(round)],
        title: n > 1 ? `${taken} / ${count}` : '',
        bottom: isSolo ? lesson.ring.simulated : '',
      }}
      label={isRing ? lesson.ring.label(n, taken, count) : lesson.ring.star(n)}
    />
  );
}

/** Returns the round as a trace with the times of one rank, for the player of the ring. */
function stageOf({ number, n, own, steps }: LessonRound, rank: number): PlayedRound {
  const hops = Array.from({ length: ringStepCount(n) }, (_, planStep) => ({
    planStep,
    sentAt: null,
    receivedAt: steps[planStep]?.endedAt[rank] ?? null,
  }));
  const trace = { step: number, bucket: 0, bytes: 0, algorithm: 'ring' as const, startedAt: 0, hops };
  return { trace, n, numbers: own };
}
