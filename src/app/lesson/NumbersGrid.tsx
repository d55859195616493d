/**
 * Shows the numbers of every rank: a row for each rank and a column for each number. Marks under a
 * number show which ranks are in its sum. Finished sums and new numbers are highlighted.
 */
import { clamp } from '../../util/clamp.ts';
import { useSignal, type Signal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { chunkRange } from '../../collectives/plans/ringPlan.ts';
import { lessonMovesAt, summedRanksAfter } from '../../engine/lesson/lessonRound.ts';
import type { LessonRound } from '../../protocol/lesson.ts';
import { RankMark } from '../components/RankMark.tsx';
import { rankIdentityOf } from '../components/rankIdentity.ts';
import { chunkName } from '../ring/frameAt.ts';
import { uiMessages } from '../locales/index.ts';
import { viewpointRank, type LessonControls } from './lessonControls.ts';
import { formatLessonNumber, formatSum } from './describeLessonStep.ts';
import { ranksShownInRows } from './rows.ts';

/** With more ranks than this, marks would be too thin to see. */
const MOST_MARKS = 8;

interface Cell {
  row: number;
  place: number;
}

export function NumbersGrid({ controls, litSums }: { controls: LessonControls; litSums: boolean }) {
  const { grid } = uiMessages.value.lesson;
  const { state, you } = controls;
  const { round, members } = state;
  const { n, mode, held, own } = round;
  const taken = round.steps.length;
  const parts = useMemo(() => summedRanksAfter(mode, n, taken), [mode, n, taken]);
  const fresh = freshOf(round);
  const columns = columnsOf(round);
  const places = own[0]!.length;
  const ranks = ranksShownInRows(n, viewpointRank(controls));
  const waiting = members.slice(n);
  const at = useSignal<Cell>({ row: 0, place: 0 });
  const picked = useSignal<Cell | null>(null);
  const cursor = { row: Math.min(at.value.row, ranks.length - 1), place: Math.min(at.value.place, places - 1) };
  /** The terms of each number in words. They are computed once for each step. */
  const texts = useMemo(() => {
    const nameOf = (place: number): string => columns.find(({ end }) => place < end)!.name;
    return ranks.map((rank) =>
      held[rank]!.map((value, place) => {
        const inIt = parts[rank]![place]!;
        const terms = inIt.map((one) => own[one]![place]!);
        const sum = terms.length > 1 ? `${formatSum(terms)} = ${formatLessonNumber(value)}` : formatLessonNumber(value);
        return grid.cell(rank, nameOf(place), sum, inIt);
      }),
    );
  }, [round, grid]);
  const onkey = (event: KeyboardEvent): void => {
    const go = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (go === undefined) return;
    event.preventDefault();
    const row = clamp(cursor.row + go[0]!, 0, ranks.length - 1);
    const place = clamp(cursor.place + go[1]!, 0, places - 1);
    at.value = picked.value = { row, place };
    const table = (event.currentTarget as HTMLElement).closest('table')!;
    table.querySelector<HTMLElement>(`[data-at="${row} ${place}"]`)?.focus();
  };
  return (
    <>
      <div class="numbers-scroll">
        <table class={`numbers ${n > 4 ? 'many' : ''} ${n > 8 ? 'dense' : ''}`} role="grid" aria-label={grid.caption}>
          <thead>
            <tr>
              <th scope="col">
                <span class="away">{grid.rank}</span>
              </th>
              {columns.map(({ name, short, start, end }) => (
                <th key={start} scope="colgroup" colSpan={end - start} aria-label={name}>
                  {short}
                </th>
              ))}
            </tr>
          </thead>
          <tbody onKeyDown={onkey}>
            {ranks.map((rank, row) => (
              <tr key={rank} class={rank === you ? 'mine' : ''}>
                <th scope="row">
                  <RankMark rank={rank} />{' '}
                  <span class="ellipsis dim small">{rank === you ? grid.you : members[rank]!.name}</span>
                </th>
                {held[rank]!.map((value, place) => {
                  const inIt = parts[rank]![place]!;
                  const isDone = inIt.length === n && n > 1;
                  const isFresh = fresh(rank, place);
                  return (
                    <td
                      key={place}
                      data-at={`${row} ${place}`}
                      class={`${isDone ? 'done' : ''} ${isFresh ? 'fresh' : ''}`}
                      tabIndex={row === cursor.row && place === cursor.place ? 0 : -1}
                      aria-label={texts[row]![place]}
                      onPointerEnter={() => (picked.value = { row, place })}
                      onPointerLeave={() => (picked.value = null)}
                      onFocus={() => (at.value = picked.value = { row, place })}
                      onBlur={() => (picked.value = null)}
                    >
                      {formatLessonNumber(value)}
                      {n <= MOST_MARKS && <Marks n={n} parts={inIt} />}
                    </td>
                  );
                })}
              </tr>
            ))}
            {waiting.map(({ member, name }, i) => (
              <tr key={member} class="waits">
                <th scope="row">
                  <RankMark rank={n + i} /> <span class="ellipsis dim small">{n + i === you ? grid.you : name}</span>
                </th>
                <td colSpan={places} class="dim small">
                  {grid.waits}
                </td>
              </tr>
            ))}
          </tbody>
          <tfoot class={litSums ? 'lit' : ''}>
            <tr>
              <th scope="row" class="dim small">
                {grid.sum}
              </th>
              {own[0]!.map((_, place) => (
                <td key={place}>{formatLessonNumber(own.reduce((sum, list) => sum + list[place]!, 0))}</td>
              ))}
            </tr>
          </tfoot>
        </table>
      </div>
      <p class="numbers-note dim small">
        <Note texts={texts} picked={picked} idle={ranks.length < n ? grid.some(n) : grid.hint} />
      </p>
    </>
  );
}

/**
 * Describes in words the number under the pointer. It is a separate component, so a move of the
 * pointer does not draw the grid again.
 */
function Note({ texts, picked, idle }: { texts: readonly string[][]; picked: Signal<Cell | null>; idle: string }) {
  const at = picked.value;
  return <>{(at === null ? null : texts[at.row]?.[at.place]) ?? idle}</>;
}

function Marks({ n, parts }: { n: number; parts: readonly number[] }) {
  return (
    <span class="parts" aria-hidden="true">
      {Array.from({ length: n }, (_, rank) => (
        <i
          key={rank}
          style={parts.includes(rank) ? { background: `var(--rank-${rankIdentityOf(rank).colour})` } : {}}
        />
      ))}
    </span>
  );
}

/**
 * Returns the columns of the table. On the ring, each column is a chunk. With a parameter server
 * there are no chunks, so each column is one number.
 */
function columnsOf({ mode, n, own }: LessonRound): { name: string; short: string; start: number; end: number }[] {
  const { grid } = uiMessages.value.lesson;
  const places = own[0]!.length;
  if (mode === 'ring') {
    return Array.from({ length: n }, (_, chunk) => {
      const short = chunkName(chunk);
      return { name: grid.chunk(short), short, ...chunkRange(places, n, chunk) };
    });
  }
  return Array.from({ length: places }, (_, place) => {
    return { name: grid.place(place + 1), short: String(place + 1), start: place, end: place + 1 };
  });
}

/** Returns a function that returns whether a rank received a number in the latest step. */
function freshOf({ mode, n, steps }: LessonRound): (rank: number, place: number) => boolean {
  if (steps.length === 0) return () => false;
  const moves = lessonMovesAt(mode, n, steps.length - 1);
  return (rank, place) => moves.some(({ to, start, end }) => to === rank && place >= start && place < end);
}
