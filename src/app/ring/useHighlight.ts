/** What lights up, in the ring and in the grid alike, while somebody looks at a chunk. */
import { useComputed } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { moveOf } from './narrate.ts';
import type { Picked, Player } from './player.ts';

export interface Highlight extends Picked {
  /** The ranks that it goes from and to. */
  from: number;
  to: number;
}

/** The same object until it changes; `null` while nobody looks at one, or at another world's. */
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
