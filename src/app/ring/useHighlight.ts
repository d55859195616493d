/** The highlight of the picked chunk in the ring and in the grid. */
import { useComputed } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { moveOf } from './narrate.ts';
import type { Picked, Player } from './player/player.ts';

export interface Highlight extends Picked {
  /** Ranks that the chunk travels between. */
  from: number;
  to: number;
}

/** The same object until it changes; `null` if no chunk of this world is picked. */
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
