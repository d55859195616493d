/** Describes a frame of the ring in a sentence, for the caption and for screen readers. */
import { modulo, transferFrom, transfersAt, type Transfer } from '../../collectives/plans/ringPlan.ts';
import { messages } from '../locales/index.ts';
import { chunkName, type Frame, type Parts } from './frameAt.ts';
import { sumsOf, type Numbers } from './numbers.ts';
import type { Picked } from './player/player.ts';

interface Narration {
  /** Two or three words for the ring's centre. */
  title: string;
  text: string;
}

/** Longer lists of ranks would not be readable. */
const MOST_LISTED = 6;

/** @param you this page's rank in the ring; `null` if it has none. */
export function narrate(frame: Frame, n: number, you: number | null): Narration {
  const { ring } = messages.value;
  const half = n - 1;
  const isRun = you !== null;
  if (frame.phase === 'done') return { title: ring.titles.done, text: ring.doneText(isRun) };
  if (frame.completed === 0 && frame.flights.length === 0)
    return { title: ring.titles.own, text: ring.ownText(isRun, n) };
  const step = shownStep(frame);
  const isAdding = step < half;
  const title = isAdding ? ring.titles.reduceScatter(step + 1, half) : ring.titles.allGather(step - half + 1, half);
  if (you === null) return { title, text: isAdding ? ring.reduceScatterText(isRun) : ring.allGatherText(isRun) };
  const yours = transferFrom(n, step, you);
  const theirs = transferFrom(n, step, modulo(you - 1, n));
  const describe = isAdding ? ring.youAdd : ring.youCopy;
  return { title, text: describe(chunkName(yours.chunk), yours.to, chunkName(theirs.chunk), theirs.from) };
}

/**
 * Describes the picked chunk in a sentence: `Rank 2, chunk B: the partial sum of ranks 1 and 2, 5 +
 * 2 = 7.`
 */
export function narratePicked(frame: Frame, picked: Picked, numbers: Numbers | undefined): string {
  const { ring } = messages.value;
  const holder = holderOf(frame, picked);
  const name = chunkName(picked.chunk);
  const parts = frame.cells[holder]![picked.chunk]!;
  const isOnItsWay = picked.rank === null && frame.flights.length > 0;
  const sums = numbers === undefined ? '' : sumsOf(parts, numbers, picked.chunk).join('; ');
  return ring.cellText(
    isOnItsWay ? ring.travelling(name) : ring.cell(holder, name),
    holds(parts, frame.cells.length),
    sums,
  );
}

function holds({ first, count }: Parts, n: number): string {
  const { ring } = messages.value;
  if (count === n) return ring.holdsAll(n);
  if (count === 1) return ring.holdsOwn(first);
  if (count > MOST_LISTED) return ring.holdsMany(first, (first + count - 1) % n, count, n);
  return ring.holdsSome(Array.from({ length: count }, (_, i) => (first + i) % n).sort((a, b) => a - b));
}

/**
 * Returns the rank whose copy of a chunk is picked. If the travelling chunk is picked, this is its
 * sender, and once the chunk has arrived, its receiver.
 */
export function holderOf(frame: Frame, { rank, chunk }: Picked): number {
  if (rank !== null) return rank;
  const { from, to } = moveOf(frame, chunk);
  return frame.flights.length > 0 || frame.completed === 0 ? from : to;
}

/** Returns the transfer of `chunk` in the ring step that the frame shows. */
export function moveOf(frame: Frame, chunk: number): Transfer {
  return transfersAt(frame.cells.length, shownStep(frame)).find((one) => one.chunk === chunk)!;
}

/**
 * Returns the ring step that a frame shows, 0 to 2(n-1)-1. Between two ring steps, it is the
 * earlier one.
 */
function shownStep({ completed, flights }: Frame): number {
  return flights.length > 0 ? completed : Math.max(0, completed - 1);
}

/**
 * Returns the chunk on the edge from `rank` to its right neighbour, in the ring step that the frame
 * shows.
 */
export function chunkOnEdge(frame: Frame, rank: number): number {
  return transferFrom(frame.cells.length, shownStep(frame), rank).chunk;
}
