/** Play, pause, step, scrub; and how much slower than life it is. */
import { formatCount, formatMs } from '../format.ts';
import { ringStepCount } from '../../collectives/ringPlan.ts';
import type { Player } from './player.ts';

/** Resolution of the scrubber. */
const SCRUB = 1000;

const MOST_TICKS = 40;

const SPEEDS = [0.25, 0.5, 1, 2, 4] as const;

interface Props {
  player: Player;
  /** Whether anybody measured what is played. */
  simulated?: boolean;
}

export function PlayerBar({ player, simulated = false }: Props) {
  const empty = player.stage.value === null;
  const playing = player.playing.value;
  return (
    <div class="player">
      <div class="row player-buttons">
        <button
          type="button"
          class="icon"
          disabled={empty}
          aria-label="One ring step back"
          title="One ring step back (←)"
          onClick={() => player.stepBy(-1)}
        >
          <Icon d="M4,3v10M13,3L6,8l7,5z" />
        </button>
        <button
          type="button"
          class="icon play"
          disabled={empty}
          aria-label={playing ? 'Pause' : 'Play'}
          title={playing ? 'Pause (space)' : 'Play (space)'}
          onClick={() => player.toggle()}
        >
          <Icon d={playing ? 'M4.5,3h2v10h-2zM9.5,3h2v10h-2z' : 'M4.5,2.5L13,8l-8.5,5.5z'} />
        </button>
        <button
          type="button"
          class="icon"
          disabled={empty}
          aria-label="One ring step on"
          title="One ring step on (→)"
          onClick={() => player.stepBy(1)}
        >
          <Icon d="M12,3v10M3,3l7,5l-7,5z" />
        </button>
      </div>
      <Scrubber player={player} disabled={empty} />
      <label class="speed">
        <span class="away">Speed</span>
        <select
          value={player.speed.value}
          disabled={empty}
          onChange={(event) => (player.speed.value = SPEEDS[event.currentTarget.selectedIndex]!)}
        >
          {SPEEDS.map((speed) => (
            <option key={speed} value={speed}>
              {speed === 0.25 ? '¼ ×' : speed === 0.5 ? '½ ×' : `${speed} ×`}
            </option>
          ))}
        </select>
      </label>
      <p class="dim small slowdown">{simulated ? 'simulated' : <Slowdown player={player} />}</p>
    </div>
  );
}

function Scrubber({ player, disabled }: { player: Player; disabled: boolean }) {
  const ends = player.watch.value?.ends ?? [];
  // Ticks closer than a few pixels are noise: then only where adding up turns into handing out.
  const turn = ends[ends.length / 2 - 1] ?? 0.5;
  const shown = ends.length <= MOST_TICKS ? ends.slice(0, -1) : [turn];
  return (
    <div class="scrub">
      <div class="phases small dim" aria-hidden="true">
        <span>
          adding up <span class="phase-name">reduce-scatter</span>
        </span>
        <span>
          handing out <span class="phase-name">all-gather</span>
        </span>
      </div>
      <div class="track">
        <div class="ticks" aria-hidden="true">
          {shown.map((end) => (
            <i key={end} class={end === turn ? 'turn' : ''} style={{ left: `${(end * 100).toFixed(2)}%` }} />
          ))}
        </div>
        <Handle player={player} disabled={disabled} />
      </div>
    </div>
  );
}

function Handle({ player, disabled }: { player: Player; disabled: boolean }) {
  const position = player.position.value;
  const done = player.frame.value?.completed ?? 0;
  const all = ringStepCount(player.stage.value?.n ?? 1);
  return (
    <input
      type="range"
      aria-label="Place in the round"
      aria-valuetext={`${done} of ${all} ring steps done`}
      min={0}
      max={SCRUB}
      step={1}
      disabled={disabled}
      value={Math.round(position * SCRUB)}
      onInput={(event) => player.seek(event.currentTarget.valueAsNumber / SCRUB)}
      onKeyDown={(event) => {
        if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
        event.preventDefault();
        player.stepBy(event.key === 'ArrowRight' ? 1 : -1);
      }}
    />
  );
}

function Slowdown({ player }: { player: Player }) {
  const watch = player.watch.value;
  if (watch === null) return <>nothing to replay yet</>;
  const took = formatMs(watch.timeline.duration);
  const slower = watch.slowdown / player.speed.value;
  const pace = slower >= 1 ? `${formatCount(slower)}× slower` : `${formatCount(1 / slower)}× faster`;
  return (
    <>
      took {took} as timed by this rank; replayed {pace}
      {watch.stretched && ', quick hops more'}
    </>
  );
}

function Icon({ d }: { d: string }) {
  return (
    <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
      <path d={d} class="glyph-path" />
    </svg>
  );
}
