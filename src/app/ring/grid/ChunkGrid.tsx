/**
 * Shows the chunks of every rank as a grid, like the figures of Gibiansky ("Bringing HPC techniques
 * to deep learning", 2017). Each row is a rank, each column is a chunk, and each cell shows which
 * ranks are in its sum. At the start, each row has its own colour; at the end, all rows are equal.
 * The labels are text. The cells, up to 256 x 256, are on a canvas.
 */
import { contextInCssPixels } from '../../components/canvas.ts';
import { clamp } from '../../../util/clamp.ts';
import { effect, useComputed, useSignal } from '@preact/signals';
import { useEffect, useId, useMemo, useRef } from 'preact/hooks';
import { RankMark } from '../../components/RankMark.tsx';
import { useElementSize } from '../../components/useElementSize.ts';
import { smallTextPixels, theme, zoom } from '../../browser/theme.ts';
import { uiMessages } from '../../locales/index.ts';
import { PickedChunkDetails } from './PickedChunkDetails.tsx';
import {
  drawChunkGrid,
  drawReceivingCells,
  filledCellShare,
  readGridPalette,
  type ChunkGridPicture,
} from './drawGrid.ts';
import { chunkName } from '../frameAt.ts';
import { narratePickedChunk } from '../narrate.ts';
import { rankVectorsExtentOf } from '../numbers.ts';
import type { RingPlayer } from '../player/player.ts';
import { usePlayedPlan } from '../player/usePlayedPlan.ts';
import { useHighlightOfPickedChunk, type ChunkHighlight } from '../useHighlight.ts';

interface Props {
  names: readonly string[];
  player: RingPlayer;
  /** The rank that measured the times; `null` if they are simulated. */
  clock: number | null;
}

export function ChunkGrid({ names, player, clock }: Props) {
  const n = names.length;
  const chunks = usePlayedPlan(player)?.chunks ?? n;
  const lit = useHighlightOfPickedChunk(player, n);
  const hasNumbers = useComputed(() => player.round.value?.numbers !== undefined).value;
  const rowHeight = rowHeightOf(n, hasNumbers) * (n <= 16 ? zoom.value : 1);
  return (
    <div class="grid" style={{ '--row': `${rowHeight}px` }}>
      <div class="grid-columns" aria-hidden="true">
        {Array.from({ length: chunks }, (_, chunk) => (
          <Column key={chunk} chunk={chunk} chunks={chunks} lit={lit} />
        ))}
      </div>
      <div class="grid-rows" aria-hidden="true">
        {names.map((name, rank) => (
          <Row key={rank} rank={rank} n={n} name={name} lit={lit} />
        ))}
      </div>
      <Cells n={n} chunks={chunks} player={player} lit={lit} height={rowHeight * n} />
      <div class="grid-note">
        <PickedChunkDetails player={player} clock={clock} />
      </div>
    </div>
  );
}

/** Returns the height of a row of cells, so that all rows fit on one screen. */
function rowHeightOf(n: number, hasNumbers: boolean): number {
  if (n <= 8) return hasNumbers ? 40 : n <= 4 ? 32 : 24;
  if (n <= 16) return hasNumbers ? 24 : 16;
  return n <= 32 ? 10 : 6;
}

/** Returns the number of ranks or chunks from one label to the next. */
function tickOf(n: number): number {
  return n <= 16 ? 1 : n <= 32 ? 4 : 8;
}

/** Returns whether rank or chunk `i` has a label. The picked rank or chunk always has a label. */
function isNamed(i: number, n: number, lit: number | null): boolean {
  const every = tickOf(n);
  return i === lit || (i % every === 0 && (lit === null || Math.abs(i - lit) >= every / 2));
}

function Column({ chunk, chunks, lit }: { chunk: number; chunks: number; lit: ChunkHighlight | null }) {
  const isLit = lit !== null && chunk >= lit.first && chunk < lit.first + lit.count;
  return <span class={isLit ? 'lit' : ''}>{isNamed(chunk, chunks, lit?.first ?? null) ? chunkName(chunk) : ''}</span>;
}

function Row({ rank, n, name, lit }: { rank: number; n: number; name: string; lit: ChunkHighlight | null }) {
  const named = lit === null ? null : (lit.rank ?? lit.to);
  const isLit = n <= 16 ? lit !== null && [lit.from, lit.to, lit.rank].includes(rank) : named === rank;
  return (
    <span class={isLit ? 'grid-row lit' : 'grid-row'}>
      {n <= 16 ? (
        <>
          <RankMark rank={rank} /> {n <= 8 && <span class="ellipsis">{name}</span>}
        </>
      ) : (
        isNamed(rank, n, named) && <span class="number">{rank}</span>
      )}
    </span>
  );
}

interface CellsProps {
  n: number;
  chunks: number;
  player: RingPlayer;
  lit: ChunkHighlight | null;
  height: number;
}

/** The canvas with its overlay. The user picks a cell with the pointer or the arrow keys. */
function Cells({ n, chunks, player, lit, height }: CellsProps) {
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const { width } = useElementSize(box);
  usePainted(canvas, player, { n, chunks, width, height });
  /** The cell selected with the arrow keys or the pointer. */
  const cursor = useSignal({ rank: 0, chunk: 0 });
  const at = { rank: Math.min(n - 1, cursor.value.rank), chunk: Math.min(chunks - 1, cursor.value.chunk) };
  const hasFocus = (): boolean => document.activeElement === box.current;
  const go = (rank: number, chunk: number): void => {
    cursor.value = { rank, chunk };
    player.picked.value = { ...cursor.value, sender: null };
  };
  const point = (event: PointerEvent): void => {
    const place = box.current!.getBoundingClientRect();
    const rank = clamp(Math.floor(((event.clientY - place.top) / place.height) * n), 0, n - 1);
    const chunk = clamp(Math.floor(((event.clientX - place.left) / place.width) * chunks), 0, chunks - 1);
    const old = player.picked.peek();
    if (old?.rank !== rank || old.chunk !== chunk) go(rank, chunk);
  };
  const onkey = (event: KeyboardEvent): void => {
    if (event.key === 'ArrowLeft') go(at.rank, clamp(at.chunk - 1, 0, chunks - 1));
    else if (event.key === 'ArrowRight') go(at.rank, clamp(at.chunk + 1, 0, chunks - 1));
    else if (event.key === 'ArrowUp') go(clamp(at.rank - 1, 0, n - 1), at.chunk);
    else if (event.key === 'ArrowDown') go(clamp(at.rank + 1, 0, n - 1), at.chunk);
    else if (event.key === 'Home') go(at.rank, 0);
    else if (event.key === 'End') go(at.rank, chunks - 1);
    else if (event.key === 'Escape') box.current!.blur();
    else return;
    event.preventDefault();
  };
  return (
    <div
      ref={box}
      class="grid-cells"
      style={{ height: `${height}px` }}
      tabIndex={0}
      role="grid"
      aria-label={uiMessages.value.ring.grid(n, chunks)}
      aria-rowcount={n}
      aria-colcount={chunks}
      aria-activedescendant={`${id}-${at.rank}-${at.chunk}`}
      onFocus={() => (player.picked.value = { ...at, sender: null })}
      onBlur={() => (player.picked.value = null)}
      onKeyDown={onkey}
      onPointerMove={point}
      onPointerDown={point}
      onPointerLeave={(event) => {
        // Lifting a finger also causes a leave event, but the tapped cell must stay picked.
        if (event.pointerType === 'mouse' && !hasFocus()) player.picked.value = null;
      }}
    >
      <canvas ref={canvas} aria-hidden="true" />
      {lit !== null && <Lights n={n} chunks={chunks} lit={lit} />}
      {/* There may be 65,536 cells. A screen reader needs only the selected cell. */}
      <div key={`${at.rank}-${at.chunk}`} class="away" role="row" aria-rowindex={at.rank + 1}>
        <div role="gridcell" id={`${id}-${at.rank}-${at.chunk}`} aria-colindex={at.chunk + 1}>
          <CellText player={player} n={n} rank={at.rank} chunk={at.chunk} />
        </div>
      </div>
    </div>
  );
}

function CellText({ player, n, rank, chunk }: { player: RingPlayer; n: number; rank: number; chunk: number }) {
  const text = useComputed(() => {
    const now = player.frame.value;
    if (now?.plan.n !== n || chunk >= now.plan.chunks) {
      return uiMessages.value.ring.cell(rank, uiMessages.value.ring.oneChunk(chunkName(chunk)));
    }
    return narratePickedChunk(now, { rank, chunk, sender: null }, player.round.value?.numbers);
  });
  return <>{text}</>;
}

/**
 * The overlay of the canvas. It highlights the columns of the picked chunks, the cells that they
 * travel between, and the picked cell.
 */
function Lights({ n, chunks, lit }: { n: number; chunks: number; lit: ChunkHighlight }) {
  const { first, count, from, to, rank } = lit;
  const across = (i: number): string => `${(100 * i) / chunks}%`;
  const down = (i: number): string => `${(100 * i) / n}%`;
  const cell = (row: number) => ({ left: across(first), top: down(row), width: across(count), height: down(1) });
  return (
    <>
      <i class="veil" style={{ left: 0, width: across(first) }} />
      <i class="veil" style={{ left: across(first + count), right: 0 }} />
      <i class="light from" style={cell(from)} />
      <i class="light to" style={cell(to)} />
      {rank !== null && <i class="light at" style={cell(rank)} />}
    </>
  );
}

/**
 * Paints the canvas on every change. During a step, only the cells that receive a chunk change.
 */
function usePainted(
  canvas: { readonly current: HTMLCanvasElement | null },
  player: RingPlayer,
  { n, chunks, width, height }: Pick<ChunkGridPicture, 'n' | 'chunks' | 'width' | 'height'>,
): void {
  const colours = theme.value;
  const textSize = smallTextPixels.value;
  const numbers = useComputed(() => player.round.value?.numbers).value;
  const shown = useMemo(
    () => (numbers === undefined ? null : { own: numbers, extent: rankVectorsExtentOf(numbers) }),
    [numbers],
  );
  useEffect(() => {
    const element = canvas.current;
    const context = contextInCssPixels(element, width, height);
    if (element === null || context === null) return undefined;
    const scale = devicePixelRatio;
    const palette = readGridPalette(element);
    const family = getComputedStyle(element).fontFamily;
    let painted: { completed: number; filled: number } | null = null;
    return effect(() => {
      const now = player.frame.value;
      // Until the first trace of the present world size arrives, the player still shows a trace of
      // a different world size.
      const frame = now?.plan.n === n && now.plan.chunks === chunks ? now : null;
      const picture = { n, chunks, width, height, scale, frame, numbers: shown, palette, textSize, family };
      const flight = frame?.flights[0];
      const next = frame && {
        completed: frame.completed,
        filled: flight === undefined ? -1 : filledCellShare(flight.progress),
      };
      const steps = next === null || painted === null ? -1 : next.completed - painted.completed;
      if (steps !== 0 && steps !== 1) drawChunkGrid(context, picture);
      else if (steps === 1 || next!.filled !== painted!.filled) {
        if (steps === 1) drawReceivingCells(context, picture, painted!.completed);
        drawReceivingCells(context, picture, next!.completed);
      }
      painted = next;
    });
  }, [canvas, n, chunks, width, height, colours, textSize, player, shown]);
}
