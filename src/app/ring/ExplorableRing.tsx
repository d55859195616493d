/**
 * The ring of the front page. It plays by itself. A reader can step through it, see the chunks of
 * every rank, and choose the world size. These choices are stored in the address, so that a link
 * such as `#?ranks=32&step=7&speed=0.5` shows the same picture.
 */
import { useComputed, useSignal } from '@preact/signals';
import { useLayoutEffect, useMemo } from 'preact/hooks';
import { pageRoute } from '../state/address.ts';
import { uiMessages } from '../locales/index.ts';
import { ChunkGrid } from './grid/ChunkGrid.tsx';
import { PlayerBar } from './player/PlayerBar.tsx';
import { RingCaption, RingLegend, MAX_SIMULATED_RING_RANKS, TitledRing, useSimulatedRound } from './SimulatedRing.tsx';
import { useSettingsInAddress } from './player/useSettingsInAddress.ts';
import { playbackPositionAfterSteps } from './player/pacing.ts';

/** World sizes: the default, and the fewest ranks that explain the ring. */
const USUAL_RANKS = 4;
const LEAST_RANKS = 2;

export function ExplorableRing() {
  const { ring } = uiMessages.value;
  const asked = pageRoute.value.query.get('ranks');
  const isOpen = useSignal(asked !== null);
  const ranks = useSignal(ranksIn(asked));
  useLayoutEffect(() => {
    isOpen.value = asked !== null;
    ranks.value = ranksIn(asked);
  }, [asked, isOpen, ranks]);
  const n = ranks.value;
  const members = useMemo(() => Array.from({ length: n }, () => ({ name: '' })), [n]);
  const names = useMemo(() => members.map((one) => one.name), [members]);
  const player = useSimulatedRound(n);
  useLayoutEffect(() => {
    const step = Number.parseInt(pageRoute.peek().query.get('step') ?? '', 10);
    const plan = player.pacing.peek();
    if (step >= 0 && plan !== null) player.seek(playbackPositionAfterSteps(plan, step));
  }, [player]);
  useSettingsInAddress(
    useComputed(() => {
      if (!isOpen.value) return { ranks: null, step: null };
      const step = player.playing.value ? null : String(player.frame.value?.completed ?? 0);
      return { ranks: String(ranks.value), step };
    }),
  );
  return (
    <figure class={isOpen.value ? 'simulated explored' : 'simulated'} aria-label={ring.stage}>
      <div>
        <TitledRing members={members} you={null} player={player} kind={ring.simulated} />
        <p class="caption">
          <RingCaption player={player} you={null} />
        </p>
      </div>
      {isOpen.value ? (
        <>
          <ChunkGrid names={names} player={player} clock={null} />
          <div class="explored-bar">
            <PlayerBar player={player} simulated />
          </div>
          <label class="row small">
            <span>{ring.ranks}</span>
            <div class="track ranks-track">
              <input
                type="range"
                min={LEAST_RANKS}
                max={MAX_SIMULATED_RING_RANKS}
                value={n}
                onInput={(event) => (ranks.value = event.currentTarget.valueAsNumber)}
              />
            </div>
            <span class="number">{n}</span>
          </label>
        </>
      ) : (
        <RingLegend />
      )}
      {/* This is one button in both states, so that it keeps the focus. */}
      <p key="explore" class="explore">
        <button type="button" aria-expanded={isOpen.value} onClick={() => (isOpen.value = !isOpen.peek())}>
          {isOpen.value ? ring.fold : ring.explore}
        </button>
      </p>
    </figure>
  );
}

function ranksIn(text: string | null): number {
  const ranks = Number.parseInt(text ?? '', 10);
  return ranks >= LEAST_RANKS && ranks <= MAX_SIMULATED_RING_RANKS ? ranks : USUAL_RANKS;
}
