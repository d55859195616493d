/**
 * The state of layers: values of parameters, the optimizers' averages and buffers. It is read,
 * hashed and sent in pieces, so that no rank needs a second copy of it.
 */
import type { MessageOptions } from '../../collectives/options.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Work } from '../../collectives/work.ts';
import { hashOfArrays } from '../../util/hash.ts';
import { createFlatLayout } from '../flat/buckets.ts';
import { readVariables, type Variable } from '../backward/flatten.ts';

/** Number of elements of a piece, which is 1 MiB. */
const PIECE_ELEMENTS = 256 * 1024;
/** Largest number of pieces that are on their way to a rank at the same time. */
const PIECES_IN_FLIGHT = 4;

/** The pieces of one layer: first each parameter's values and averages, then the buffers. */
export type LayerPieces = AsyncGenerator<Float32Array, void>;

/** Fills an array with the next values. The array is at most as long as a piece. */
export type ReadStatePiece = (into: Float32Array) => Promise<void>;

/** The state of some layers of a model. */
export interface LayerStateSource {
  /** Indices of the layers in the model. */
  readonly layers: readonly number[];
  /** Reads the state of a layer. The state must not change until all pieces are read. */
  pieces(layer: number): LayerPieces;
}

/** A part of an array of `size` elements. */
export interface PieceRange {
  at: number;
  length: number;
}

/** Divides an array into pieces. */
export function pieceRangesOf(size: number): PieceRange[] {
  return Array.from({ length: Math.ceil(size / PIECE_ELEMENTS) }, (_, i) => ({
    at: i * PIECE_ELEMENTS,
    length: Math.min(PIECE_ELEMENTS, size - i * PIECE_ELEMENTS),
  }));
}

export function piecesOfArray<Buffer extends ArrayBufferLike>(array: Float32Array<Buffer>): Float32Array<Buffer>[] {
  return pieceRangesOf(array.length).map(({ at, length }) => array.subarray(at, at + length));
}

/** Reads variables from the device into one array. */
export async function readVariablesFlat(variables: readonly Variable[]): Promise<Float32Array<ArrayBuffer>> {
  const { slots, size } = createFlatLayout(variables.map((variable) => variable.size));
  const values = new Float32Array(size);
  await readVariables(variables, slots, values);
  return values;
}

/** Fills an array that may be longer than a piece, with one call of `read` per piece. */
export async function fillByPieces(array: Float32Array, read: ReadStatePiece): Promise<void> {
  for (const piece of piecesOfArray(array)) await read(piece);
}

/** Sends pieces to a rank of the world, which receives each of them with the same options. */
export async function sendLayerPieces(
  group: ProcessGroup,
  to: number,
  options: MessageOptions,
  pieces: LayerPieces | Iterable<Float32Array>,
): Promise<void> {
  const sends: Work<void>[] = [];
  for await (const piece of pieces) {
    sends.push(group.isend(piece, to, options));
    if (sends.length >= PIECES_IN_FLIGHT) await sends.shift();
  }
  for (const send of sends) await send;
}

/** Returns a function that receives the pieces of {@link sendLayerPieces} with this tag. */
export function layerPieceReceiver(group: ProcessGroup, from: number, tag: number): ReadStatePiece {
  return async (into) => {
    await group.irecv(into, from, { tag });
  };
}

/** Returns a function that calls `read` and then `onprogress`. */
export function withPieceProgress(read: ReadStatePiece, onprogress: () => void): ReadStatePiece {
  return async (into) => {
    await read(into);
    onprogress();
  };
}

/** Returns a function that copies the next piece into an array of the same length. */
export function layerPieceCopier(pieces: LayerPieces): ReadStatePiece {
  return async (into) => {
    const { value } = await pieces.next();
    into.set(value!);
  };
}

/** A hash of states that is computed piece by piece. */
export class PiecewiseStateHash {
  readonly #hashes: string[] = [];

  /** Adds a piece of a parameter and of its averages, or a piece of buffers. */
  add(...parts: readonly ArrayBufferView[]): void {
    this.#hashes.push(hashOfArrays(parts));
  }

  digest(): string {
    return hashOfArrays([new TextEncoder().encode(this.#hashes.join())]);
  }
}
