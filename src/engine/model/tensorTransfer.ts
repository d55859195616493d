/** Sends the values of a tensor from one rank to another, in pieces. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Work } from '../../collectives/work.ts';
import { piecesOfArray, pieceRangesOf, sendLayerPieces } from '../../parallel/pipeline/layerState.ts';
import { PIPELINE_TIMEOUT_MS } from '../../parallel/pipeline/pipelineStage.ts';

/** Number of pieces that a rank is ready to receive at the same time. */
const AHEAD = 2;
/** The slowest connection for which the deadlines suffice, in bytes per millisecond. */
const SLOWEST = 100;

/** Returns the deadline of each message while tensors of `elements` elements are sent. */
export function transferTimeoutMs(elements: number): number {
  return PIPELINE_TIMEOUT_MS + (elements * Float32Array.BYTES_PER_ELEMENT) / SLOWEST;
}

/** Sends `values` to rank `to`, which calls {@link receiveTensorValues}. */
export function sendTensorValues(
  group: ProcessGroup,
  values: Float32Array<ArrayBuffer>,
  to: number,
  timeoutMs: number,
): Promise<void> {
  return sendLayerPieces(group, group.ranks[to]!, { timeoutMs }, piecesOfArray(values));
}

/** Yields `size` values that rank `from` sends, in pieces. */
export async function* receiveTensorValues(
  group: ProcessGroup,
  size: number,
  from: number,
  timeoutMs: number,
): AsyncGenerator<Float32Array<ArrayBuffer>, void> {
  const ranges = pieceRangesOf(size);
  const expected: { piece: Float32Array<ArrayBuffer>; work: Work<number> }[] = [];
  while (ranges.length > 0 || expected.length > 0) {
    for (const { length } of ranges.splice(0, AHEAD - expected.length)) {
      const piece = new Float32Array(length);
      expected.push({ piece, work: group.irecv(piece, group.ranks[from], { timeoutMs }) });
    }
    const { piece, work } = expected.shift()!;
    await work;
    yield piece;
  }
}
