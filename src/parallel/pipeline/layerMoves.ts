/** Moves layers with their state between ranks, when a model is cut again. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import {
  layerPieceCopier,
  layerPieceReceiver,
  sendLayerPieces,
  type LayerStateSource,
  type ReadStatePiece,
} from './layerState.ts';

/** Tag of the messages that carry layers. */
const TAG = 1001;

/** A layer that a rank needs, and the rank that sends it. A rank may be its own sender. */
export interface LayerMove {
  layer: number;
  from: number;
  to: number;
}

/**
 * Returns who sends which layer to whom, in the order of the layers. A rank keeps a layer that it
 * already has. The source of any other layer is the rank with the layer that has sent the fewest
 * layers so far.
 *
 * @param held the layers that each rank has.
 * @param wanted the layers that each rank needs.
 * @returns the moves, and the layers that no rank has.
 */
export function planLayerMoves(
  held: readonly (readonly number[])[],
  wanted: readonly (readonly number[])[],
): { moves: LayerMove[]; lost: number[] } {
  const sent = held.map(() => 0);
  const lost: number[] = [];
  const moves: LayerMove[] = [];
  const layers = [...new Set(wanted.flat())].sort((a, b) => a - b);
  for (const layer of layers) {
    const holders = held.flatMap((own, rank) => (own.includes(layer) ? [rank] : []));
    if (holders.length === 0) lost.push(layer);
    else {
      for (const [to, own] of wanted.entries()) {
        if (!own.includes(layer)) continue;
        const from = holders.includes(to) ? to : holders.reduce((a, b) => (sent[b]! < sent[a]! ? b : a));
        if (from !== to) sent[from]! += 1;
        moves.push({ layer, from, to });
      }
    }
  }
  return { moves, lost };
}

/**
 * Sends and receives this rank's layers. Every rank of the world must call it with the same moves.
 * All ranks do their moves in the same order, so no two ranks wait for each other.
 *
 * @param sourceOf returns a source that has the layer, for layers that this rank sends or keeps.
 * @param load stores a layer that this rank needs.
 */
export async function moveLayers(
  world: ProcessGroup,
  moves: readonly LayerMove[],
  sourceOf: (layer: number) => LayerStateSource,
  load: (layer: number, read: ReadStatePiece) => Promise<void>,
): Promise<void> {
  const { rank } = world;
  for (const { layer, from, to } of moves) {
    if (from === rank && to === rank) await load(layer, layerPieceCopier(sourceOf(layer).pieces(layer)));
    else if (from === rank) await sendLayerPieces(world, to, { tag: TAG }, sourceOf(layer).pieces(layer));
    else if (to === rank) await load(layer, layerPieceReceiver(world, from, TAG));
  }
}
