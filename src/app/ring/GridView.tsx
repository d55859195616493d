/**
 * Who holds what: a row per rank, a column per chunk, and in each cell one slot per rank whose numbers are in the sum.
 * Reads like a loom: at first each row has only its own colour, at the end all rows are the same. The rows' labels and
 * the columns' letters are text; the cells, up to 64 x 64 of them, are a canvas.
 */
import { effect, useSignal, type ReadonlySignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { RankMark } from '../parts/RankMark.tsx';
import { useSize } from '../parts/useSize.ts';
import { theme, zoom } from '../theme.ts';
import { drawGrid, readPalette } from './drawGrid.ts';
import { chunkName, type Frame } from './frameAt.ts';
import { narrateCell } from './narrate.ts';
import type { Player } from './player.ts';

interface Props {
  names: readonly string[];
  player: Player;
  /** The rank whose clock timed what is played; `null`: nobody did, it is simulated. */
  clock: number | null;
}

export function GridView({ names, player }: Props) {
  const n = names.length;
  const { frame } = player;
  const canvas = useRef<HTMLCanvasElement>(null);
  const { width } = useSize(canvas);
  const hovered = useSignal<{ rank: number; chunk: number } | null>(null);
  const rowHeight = (n <= 4 ? 32 : n <= 8 ? 24 : n <= 16 ? 16 : n <= 32 ? 10 : 6) * (n <= 16 ? zoom.value : 1);
  const height = rowHeight * n;
  const colours = theme.value;
  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext('2d') ?? null;
    if (element === null || context === null || width === 0) return undefined;
    const scale = devicePixelRatio;
    element.width = Math.round(width * scale);
    element.height = Math.round(height * scale);
    const palette = readPalette(element);
    let completed = -1;
    let flying = false;
    const draw = (now: Frame | null): void => {
      context.setTransform(scale, 0, 0, scale, 0, 0);
      drawGrid(context, { n, width, height, frame: now, palette });
    };
    const stop = effect(() => {
      const now = frame.value;
      // Of another world, until its first trace: nothing to show.
      if (now === null || now.cells.length !== n) {
        completed = -1;
        draw(null);
        return;
      }
      const newlyFlying = now.flights.length > 0;
      if (now.completed === completed && newlyFlying === flying) return;
      completed = now.completed;
      flying = newlyFlying;
      draw(now);
    });
    return () => {
      stop();
    };
  }, [canvas, n, width, height, colours, frame]);
  const point = (event: PointerEvent): void => {
    if (width === 0) return;
    const rank = Math.min(n - 1, Math.floor((event.offsetY / height) * n));
    const chunk = Math.min(n - 1, Math.floor((event.offsetX / width) * n));
    const old = hovered.peek();
    if (old?.rank !== rank || old.chunk !== chunk) hovered.value = { rank, chunk };
  };
  return (
    <div class="grid">
      <div class="grid-rows" style={{ '--row': `${rowHeight}px` }} aria-hidden="true">
        {names.map((name, rank) => (
          <span key={rank} class="grid-row">
            {n <= 16 ? (
              <>
                <RankMark rank={rank} /> {n <= 8 && <span class="dim ellipsis">{name}</span>}
              </>
            ) : (
              rank % 8 === 0 && <span class="number grid-tick">{rank}</span>
            )}
          </span>
        ))}
      </div>
      <div class="grid-columns" aria-hidden="true">
        {names.map((_, chunk) => (
          <span key={chunk}>{n <= 16 || chunk % 8 === 0 ? chunkName(chunk) : ''}</span>
        ))}
      </div>
      <canvas
        ref={canvas}
        class="grid-cells"
        style={{ height: `${height}px` }}
        role="img"
        aria-label="Ranks by chunks; the caption says what is happening."
        onPointerMove={point}
        onPointerLeave={() => (hovered.value = null)}
      />
      <p class="grid-note dim small">
        <CellNote frame={frame} n={n} at={hovered.value} />
      </p>
    </div>
  );
}

function CellNote({
  frame,
  n,
  at,
}: {
  frame: ReadonlySignal<Frame | null>;
  n: number;
  at: { rank: number; chunk: number } | null;
}) {
  // Under no cell the note never changes: do not follow every frame for it.
  const now = at === null ? null : frame.value;
  if (at === null || now === null)
    return <>One column per chunk; a slot per rank whose numbers are in it. Equal rows: done.</>;
  return <>{narrateCell(now, n, at.rank, at.chunk)}</>;
}
