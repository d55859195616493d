/** What a frame of the ring shows, as a sentence: the caption that a person new to all-reduce reads, and a screen reader's. */
import { modulo, transferFrom } from '../../collectives/ringPlan.ts';
import { plural } from '../format.ts';
import { chunkName, type Frame } from './frameAt.ts';

export interface Narration {
  /** Two or three words for the ring's centre. */
  title: string;
  text: string;
}

/** @param you this page's rank, if it is one of the ring's. */
export function narrate(frame: Frame, n: number, you: number | null): Narration {
  const half = n - 1;
  // Who is in no ring yet has not met ranks.
  const each = you === null ? 'tab' : 'rank';
  if (frame.phase === 'done') {
    return {
      title: 'all the same',
      text: `Every ${each} now holds the same sums, and so the same average gradient: all take the same step.`,
    };
  }
  if (frame.completed === 0 && frame.flights.length === 0) {
    return {
      title: 'own gradients',
      text: `Every ${each} has computed a gradient from its own share of the samples, and cut it into ${plural(n, 'chunk')}.`,
    };
  }
  // From the plan, not the flights: between two ring steps this is what comes next.
  const yours = you === null ? null : transferFrom(n, frame.completed, you);
  const theirs = you === null ? null : transferFrom(n, frame.completed, modulo(you - 1, n));
  if (frame.phase === 'reduce-scatter') {
    const title = `adding up ${frame.completed + 1}/${half}`;
    if (theirs === null || yours === null) {
      return {
        title,
        text: `Each ${each} passes one chunk to the right, and adds its own numbers to the one that comes in.`,
      };
    }
    return {
      title,
      text: `You send chunk ${chunkName(yours.chunk)} to rank ${yours.to}, and add your numbers to chunk ${chunkName(theirs.chunk)} from rank ${theirs.from}.`,
    };
  }
  const title = `handing out ${frame.completed - half + 1}/${half}`;
  if (theirs === null || yours === null) {
    return { title, text: `Each finished sum travels round once more, and every ${each} that it meets keeps a copy.` };
  }
  return {
    title,
    text: `You pass the finished chunk ${chunkName(yours.chunk)} on to rank ${yours.to}, and keep a copy of chunk ${chunkName(theirs.chunk)} from rank ${theirs.from}.`,
  };
}

/** The same for one cell of the grid. */
export function narrateCell(frame: Frame, n: number, rank: number, chunk: number): string {
  const parts = frame.cells[rank]?.[chunk];
  if (parts === undefined) return '';
  const name = `Rank ${rank}, chunk ${chunkName(chunk)}`;
  if (parts.count === n) return `${name}: the finished sum of all ${plural(n, 'rank')}.`;
  if (parts.count === 1) return `${name}: its own numbers only.`;
  const ranks = Array.from({ length: parts.count }, (_, i) => (parts.first + i) % n).sort((a, b) => a - b);
  return `${name}: the sum of ranks ${ranks.slice(0, -1).join(', ')} and ${ranks.at(-1)} so far.`;
}
