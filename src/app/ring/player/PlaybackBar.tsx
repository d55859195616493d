/** The controls of a player: restart, step, play, pause, position and speed. */
import type { ComponentChildren } from 'preact';
import { uiMessages } from '../../locales/index.ts';
import type { Playback } from './playback.ts';
import { MAX_SPEED_DOUBLINGS, nextPlaybackSpeed, formatPlaybackSpeed } from './speed.ts';

/** The number of steps of the position slider. */
const SCRUB = 1000;

const MOST_TICKS = 40;

/**
 * Settings of the speed slider, in doublings of the speed. SPEED_STEP is its step. Within
 * SPEED_PULL of a power of two, the slider snaps to this power.
 */
const SPEED_STEP = 0.05;
const SPEED_PULL = 0.12;

interface Props {
  player: Playback;
  /** The parts of a round, above the slider of the position. */
  phases: ComponentChildren;
  /** Indices of the steps after which a part ends. */
  turns: readonly number[];
  /** The position in words. */
  done: string;
  /** A text about the speed. */
  note: ComponentChildren;
}

export function PlaybackBar({ player, phases, turns, done, note }: Props) {
  const { ring } = uiMessages.value;
  const empty = player.pacing.value === null;
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
      <div class="scrub">
        {phases}
        <div class="track">
          <Ticks player={player} turns={turns} />
          <Handle player={player} disabled={empty} done={done} />
        </div>
      </div>
      <Speed player={player} disabled={empty} />
      <p class="dim small slowdown">{note}</p>
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
      title={uiMessages.value.ring.withKey(name, hint)}
      onClick={onpress}
    >
      <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
        <path d={icon} class={icon === RESTART ? 'glyph-path open' : 'glyph-path'} />
      </svg>
    </button>
  );
}

function Ticks({ player, turns }: { player: Playback; turns: readonly number[] }) {
  const ends = player.pacing.value?.ends ?? [];
  // If there are too many steps for a tick each, only the borders between the phases are shown.
  const shown = ends.length <= MOST_TICKS ? ends.slice(0, -1).keys() : turns;
  return (
    <div class="ticks" aria-hidden="true">
      {[...shown].map((i) => (
        <i key={i} class={turns.includes(i) ? 'turn' : ''} style={{ left: formatCssPercent(ends[i]!) }} />
      ))}
    </div>
  );
}

export function formatCssPercent(share: number): string {
  return `${(share * 100).toFixed(2)}%`;
}

function Handle({ player, disabled, done }: { player: Playback; disabled: boolean; done: string }) {
  const { ring } = uiMessages.value;
  return (
    <input
      type="range"
      aria-label={ring.place}
      aria-valuetext={done}
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
 * A slider for the speed, on a logarithmic scale. Each tick of the scale, and each press of a key,
 * doubles or halves the speed.
 */
function Speed({ player, disabled }: { player: Playback; disabled: boolean }) {
  const { ring } = uiMessages.value;
  const speed = player.speed.value;
  const text = formatPlaybackSpeed(speed);
  return (
    <label class="speed small" title={ring.withKey(ring.speed, '[ ]')}>
      <span class="away">{ring.speed}</span>
      <div class="track">
        <input
          type="range"
          aria-valuetext={text}
          min={-MAX_SPEED_DOUBLINGS}
          max={MAX_SPEED_DOUBLINGS}
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
            player.speed.value = nextPlaybackSpeed(speed, up ? 1 : -1);
          }}
        />
      </div>
      <span class="number speed-text" aria-hidden="true">
        {text}
      </span>
    </label>
  );
}
