/** A hook for the highlight of the picked chunk, used by the ring and the grid. */
import { useComputed } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { transferOfPickedChunk } from './narrate.ts';
import type { RingPlayer } from './player/player.ts';

export interface ChunkHighlight {
  /** The picked chunks, `first` .. `first + count - 1`. */
  first: number;
  count: number;
  /** The rank whose copy is picked; `null` if a travelling chunk is picked. */
  rank: number | null;
  /** The two ranks that the chunks travel between. */
  from: number;
  to: number;
}

/**
 * Returns the highlight, or `null` if no chunk of this world is picked. While the highlight does
 * not change, the same object is returned.
 */
export function useHighlightOfPickedChunk(player: RingPlayer, n: number): ChunkHighlight | null {
  const text = useComputed(() => {
    const picked = player.picked.value;
    const frame = player.frame.value;
    if (picked === null || frame?.plan.n !== n) return 'null';
    const move = transferOfPickedChunk(frame, picked);
    if (move === null) return 'null';
    const { first, count } = picked.sender === null ? { first: picked.chunk, count: 1 } : move;
    return JSON.stringify({ first, count, rank: picked.rank, from: move.from, to: move.to } satisfies ChunkHighlight);
  }).value;
  return useMemo(() => JSON.parse(text) as ChunkHighlight | null, [text]);
}
