/** A hook for the highlight of the picked chunk, used by the ring and the grid. */
import { useComputed } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { moveOf } from './narrate.ts';
import type { Picked, Player } from './player/player.ts';

export interface Highlight extends Picked {
  /** The two ranks that the chunk travels between. */
  from: number;
  to: number;
}

/**
 * Returns the highlight, or `null` if no chunk of this world is picked. The object is the same
 * until the highlight changes.
 */
export function useHighlight(player: Player, n: number): Highlight | null {
  const text = useComputed(() => {
    const picked = player.picked.value;
    const frame = player.frame.value;
    if (picked === null || frame === null || frame.cells.length !== n) return 'null';
    const { from, to } = moveOf(frame, picked.chunk);
    return JSON.stringify({ ...picked, from, to } satisfies Highlight);
  }).value;
  return useMemo(() => JSON.parse(text) as Highlight | null, [text]);
}
