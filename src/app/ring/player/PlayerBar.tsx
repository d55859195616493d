/**
 * The controls of the player: restart, step, play, pause, position and speed. If the times are
 * measured, a text shows how many times slower the player is than the run.
 */
import { useComputed } from '@preact/signals';
import type { PlanStep } from '../../../collectives/plans/planSteps.ts';
import { formatCount, formatMs } from '../../locales/format.ts';
import { messages } from '../../locales/index.ts';
import type { Player } from './player.ts';
import { usePlan } from './usePlan.ts';
import { DOUBLINGS, nextSpeed, speedText } from './speed.ts';

/** The number of steps of the position slider. */
const SCRUB = 1000;

const MOST_TICKS = 40;

/**
 * For the speed slider, in doublings: its step, which is fine enough to drag, and the distance from
 * a power of two within which the slider snaps to that power.
 */
const SPEED_STEP = 0.05;
const SPEED_PULL = 0.12;

interface Props {
  player: Player;
  /** Whether the times are simulated, not measured. */
  simulated?: boolean;
}

export function PlayerBar({ player, simulated = false }: Props) {
  const { ring } = messages.value;
  const empty = player.stage.value === null;
  const playing = player.playing.value;
  const play = playing ? ring.pause : ring.play;
  return (
    <div class="player">
      <div class="row player-buttons">
        <Press name={ring.restart} hint="Home" disabled={empty} onpress={() => player.restart()} icon={RESTART} />
        <Press name={ring.back} hint="←" disabled={empty} onpress={() => player.stepBy(-1)} icon={BACK} />
        <Press
          name={play}
          hint={ring.space}
          disabled={empty}
          onpress={() => player.toggle()}
          icon={playing ? PAUSE : PLAY}
          main
        />
        <Press name={ring.on} hint="→" disabled={empty} onpress={() => player.stepBy(1)} icon={ON} />
      </div>
      <Scrubber player={player} disabled={empty} />
      <Speed player={player} disabled={empty} />
      <p class="dim small slowdown">{simulated ? ring.simulated : <Slowdown player={player} />}</p>
    </div>
  );
}

const RESTART = 'M8,3.2a4.8,4.8 0 1 1 -4.6,3.4M8.4,0.6L5.6,3.3L8.4,6';
const BACK = 'M4,3v10M13,3L6,8l7,5z';
const PLAY = 'M4.5,2.5L13,8l-8.5,5.5z';
const PAUSE = 'M4.5,3h2v10h-2zM9.5,3h2v10h-2z';
const ON = 'M12,3v10M3,3l7,5l-7,5z';

interface PressProps {
  name: string;
  /** The key that has the same action. */
  hint: string;
  disabled: boolean;
  onpress: () => void;
  icon: string;
  main?: boolean;
}

function Press({ name, hint, disabled, onpress, icon, main = false }: PressProps) {
  return (
    <button
      type="button"
      class={main ? 'icon play' : 'icon'}
      disabled={disabled}
      aria-label={name}
      title={messages.value.ring.withKey(name, hint)}
      onClick={onpress}
    >
      <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
        <path d={icon} class={icon === RESTART ? 'glyph-path open' : 'glyph-path'} />
      </svg>
    </button>
  );
}

function Scrubber({ player, disabled }: { player: Player; disabled: boolean }) {
  const ends = player.pacing.value?.ends ?? [];
  const { steps = [], algorithm = 'ring' } = usePlan(player) ?? {};
  /** The last step of each phase but the last phase. */
  const turns = steps.flatMap(({ phase }, i) => (i + 1 < steps.length && steps[i + 1]!.phase !== phase ? [i] : []));
  // If there are too many steps for separate ticks, only the borders between the phases are shown.
  const shown = ends.length <= MOST_TICKS ? ends.slice(0, -1).keys() : turns;
  return (
    <div class="scrub">
      {algorithm === 'ring' ? <RingPhases /> : <Phases steps={steps} ends={ends} />}
      <div class="track">
        <div class="ticks" aria-hidden="true">
          {[...shown].map((i) => (
            <i key={i} class={turns.includes(i) ? 'turn' : ''} style={{ left: percent(ends[i]!) }} />
          ))}
        </div>
        <Handle player={player} disabled={disabled} />
      </div>
    </div>
  );
}

/** The two phases of a ring, with an explanation. */
function RingPhases() {
  const { ring } = messages.value;
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
  const { ring } = messages.value;
  return (
    <div class="phases placed small" aria-hidden="true">
      {steps.flatMap(({ phase, hop, hops }, i) => {
        if (hop > 0) return [];
        const start = ends[i - 1] ?? 0;
        const width = (ends[i + hops - 1] ?? 1) - start;
        return [
          <span key={phase} class="ellipsis" style={{ width: percent(width) }}>
            {ring.phases[phase].title}
          </span>,
        ];
      })}
    </div>
  );
}

function percent(share: number): string {
  return `${(share * 100).toFixed(2)}%`;
}

function Handle({ player, disabled }: { player: Player; disabled: boolean }) {
  const { ring } = messages.value;
  const done = useComputed(() => player.frame.value?.completed ?? 0);
  const plan = usePlan(player);
  return (
    <input
      type="range"
      aria-label={ring.place}
      aria-valuetext={ring.done(done.value, plan?.steps.length ?? 0, (plan?.algorithm ?? 'ring') === 'ring')}
      min={0}
      max={SCRUB}
      step={1}
      disabled={disabled}
      value={Math.round(player.position.value * SCRUB)}
      onInput={(event) => player.seek(event.currentTarget.valueAsNumber / SCRUB)}
      onKeyDown={(event) => {
        if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
        event.preventDefault();
        player.stepBy(event.key === 'ArrowRight' ? 1 : -1);
      }}
    />
  );
}

/**
 * A slider for the speed, on a logarithmic scale. A step of the scale, like a press of a key,
 * doubles or halves the speed.
 */
function Speed({ player, disabled }: { player: Player; disabled: boolean }) {
  const { ring } = messages.value;
  const speed = player.speed.value;
  const text = speedText(speed);
  return (
    <label class="speed small" title={ring.withKey(ring.speed, '[ ]')}>
      <span class="away">{ring.speed}</span>
      <div class="track">
        <input
          type="range"
          aria-valuetext={text}
          min={-DOUBLINGS}
          max={DOUBLINGS}
          step={SPEED_STEP}
          disabled={disabled}
          value={Math.log2(speed)}
          onInput={(event) => {
            const doublings = event.currentTarget.valueAsNumber;
            const whole = Math.round(doublings);
            player.speed.value = 2 ** (Math.abs(doublings - whole) < SPEED_PULL ? whole : doublings);
          }}
          onKeyDown={(event) => {
            const up = event.key === 'ArrowRight' || event.key === 'ArrowUp';
            if (!up && event.key !== 'ArrowLeft' && event.key !== 'ArrowDown') return;
            event.preventDefault();
            player.speed.value = nextSpeed(speed, up ? 1 : -1);
          }}
        />
      </div>
      <span class="number speed-text" aria-hidden="true">
        {text}
      </span>
    </label>
  );
}

function Slowdown({ player }: { player: Player }) {
  const { ring } = messages.value;
  const pacing = player.pacing.value;
  if (pacing === null) return <>{ring.nothing}</>;
  const slower = pacing.slowdown / player.speed.value;
  const pace = slower >= 1 ? ring.slower(formatCount(slower)) : ring.faster(formatCount(1 / slower));
  return <>{ring.took(formatMs(pacing.timeline.duration), pace, pacing.stretched)}</>;
}
