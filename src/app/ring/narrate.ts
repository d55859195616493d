/** Describes a frame of an all-reduce in a sentence, for the caption and for screen readers. */
import type { PlanStep, PlanTransfer } from '../../collectives/plans/planSteps.ts';
import { uiMessages } from '../locales/index.ts';
import { chunkName, type RingFrame, type SummedRanks } from './frameAt.ts';
import { formatChunkSums, type RankVectors } from './numbers.ts';
import type { PickedChunk } from './player/player.ts';

interface Narration {
  /** A title for the centre of the picture, of two or three words. */
  title: string;
  text: string;
}

/** Maximum number of ranks that a sentence lists. */
const MOST_LISTED = 6;

/** @param you this page's rank in the ring; `null` if it has none. */
export function narrateFrame(frame: RingFrame, you: number | null): Narration {
  const { ring } = uiMessages.value;
  const { plan } = frame;
  const isRun = you !== null;
  if (frame.phase === 'done') return { title: ring.titles.done, text: ring.doneText(isRun) };
  if (frame.completed === 0 && frame.flights.length === 0)
    return { title: ring.titles.own, text: ring.ownText(isRun, plan.chunks) };
  const { phase, hop, hops, transfers } = planStepOfFrame(frame);
  const title = ring.titles.step(ring.phases[phase].title, hop + 1, hops);
  if (you === null) return { title, text: ring.phaseText(phase, isRun) };
  const sent = transfers.find(({ from }) => from === you);
  const got = transfers.find(({ to }) => to === you);
  const text = ring.youMove(
    phase,
    sent === undefined ? null : { chunks: describeChunks(sent, plan.chunks), rank: sent.to, adds: sent.reduces },
    got === undefined ? null : { chunks: describeChunks(got, plan.chunks), rank: got.from, adds: got.reduces },
  );
  return { title, text };
}

/** Returns the chunks of a transfer in words: `chunk A`, `chunks A to D`, `the whole gradient`. */
export function describeChunks({ first, count }: Pick<PlanTransfer, 'first' | 'count'>, chunks: number): string {
  const { ring } = uiMessages.value;
  if (count === chunks) return ring.whole;
  return count === 1
    ? ring.oneChunk(chunkName(first))
    : ring.manyChunks(chunkName(first), chunkName(first + count - 1));
}

/**
 * Describes the picked chunk in a sentence: `Rank 2, chunk B: the partial sum of ranks 1 and 2, 5 +
 * 2 = 7.`
 */
export function narratePickedChunk(frame: RingFrame, picked: PickedChunk, numbers: RankVectors | undefined): string {
  const { ring } = uiMessages.value;
  const { plan } = frame;
  const move = transferOfPickedChunk(frame, picked);
  if (picked.sender !== null && move === null) return ring.sendsNothing(picked.sender);
  const holder = holderOfPickedChunk(frame, picked);
  const isTransfer = picked.sender !== null && move !== null;
  const chunk = isTransfer ? move.first : picked.chunk;
  const name = isTransfer ? describeChunks(move, plan.chunks) : describeChunks({ first: chunk, count: 1 }, plan.chunks);
  const parts = frame.cells[holder]![chunk]!;
  const isOnItsWay = picked.rank === null && frame.flights.length > 0;
  const sums = numbers === undefined ? '' : formatChunkSums(parts, numbers, chunk).join('; ');
  return ring.cellText(isOnItsWay ? ring.travelling(name) : ring.cell(holder, name), holds(parts, frame), sums);
}

function holds(parts: SummedRanks, { plan }: RingFrame): string {
  const { ring } = uiMessages.value;
  const { n, algorithm } = plan;
  const [first, last] = [parts[0]!, parts.at(-1)!];
  if (parts.length === n) return ring.holdsAll(n);
  if (parts.length === 1) return ring.holdsOwn(first);
  if (parts.length <= MOST_LISTED) return ring.holdsSome(parts.toSorted((a, b) => a - b));
  return algorithm === 'ring' ? ring.holdsMany(first, last, parts.length, n) : ring.holdsCount(parts.length, n);
}

/**
 * Returns the rank whose copy of a chunk is picked. If a travelling chunk is picked, this is its
 * sender until the chunk arrives, and then its receiver.
 */
export function holderOfPickedChunk(frame: RingFrame, picked: PickedChunk): number {
  if (picked.rank !== null) return picked.rank;
  const move = transferOfPickedChunk(frame, picked);
  if (move === null) return picked.sender ?? 0;
  return frame.flights.length > 0 || frame.completed === 0 ? move.from : move.to;
}

/**
 * Returns the picked transfer in the step that the frame shows. If a sender is picked, it is the
 * transfer from this sender. Otherwise it is the transfer of the picked chunk, preferably to or
 * from the picked rank. Returns `null` if no transfer is picked.
 */
export function transferOfPickedChunk(frame: RingFrame, { chunk, rank, sender }: PickedChunk): PlanTransfer | null {
  const { transfers } = planStepOfFrame(frame);
  if (sender !== null) return transfers.find(({ from }) => from === sender) ?? null;
  const moves = transfers.filter(({ first, count }) => chunk >= first && chunk < first + count);
  const own = moves.find(({ to }) => to === rank) ?? moves.find(({ from }) => from === rank);
  return own ?? moves[0] ?? null;
}

/** Returns the step that a frame shows. Between two steps, this is the earlier step. */
export function planStepOfFrame({ plan, completed, flights }: RingFrame): PlanStep {
  return plan.steps[flights.length > 0 ? completed : Math.max(0, completed - 1)]!;
}

/**
 * Returns the transfer from `rank` in the step that the frame shows; `null` if it sends nothing.
 */
export function transferFromRank(frame: RingFrame, rank: number): PlanTransfer | null {
  return planStepOfFrame(frame).transfers.find(({ from }) => from === rank) ?? null;
}
