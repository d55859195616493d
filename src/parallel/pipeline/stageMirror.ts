/**
 * A copy of the stage of the left neighbour in the pipeline. If that rank is lost, its layers are
 * restored from here, and no applied step is lost.
 *
 * The left neighbour sends its averaged gradient before a step is applied, and the mirror takes the
 * same step of the same optimizer. So the mirror has the same bits as the stage. For K bytes of
 * parameters on S stages, a step sends K/S bytes of gradients. Parameters and Adam's averages would
 * be 3K/S bytes. All optimizers update each element independently, so the mirror is updated piece
 * by piece.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Optimizer } from '../../optim/optimizer.ts';
import {
  layerPieceCopier,
  fillByPieces,
  PiecewiseStateHash,
  piecesOfArray,
  pieceRangesOf,
  readVariablesFlat,
  layerPieceReceiver,
  withPieceProgress,
  sendLayerPieces,
  type LayerStateSource,
  type LayerPieces,
  type ReadStatePiece,
  type PieceRange,
} from './layerState.ts';
import type { StageMirrorStorage, OpenStageMirrorStorage } from './mirrorStorage.ts';
import { trainedVariables, type PipelineLayer } from './pipelineLayer.ts';
import type { PipelineStage } from './pipelineStage.ts';
import type { StepCommit } from './stageParameters.ts';

/** Tag of the mirror's messages. Messages between stages have smaller tags. */
const TAG = 1000;

/** A parameter of the left neighbour. */
interface Mirrored {
  layer: number;
  size: number;
  /** Index of the parameter's first element in each part of the storage. */
  at: number;
}

interface MirroredBuffers {
  layer: number;
  values: Float32Array<ArrayBuffer>;
  /** The values after the step that is not applied yet. */
  next: Float32Array<ArrayBuffer>;
}

interface MirrorOptions {
  createOptimizer: (size: number) => Optimizer;
  openStorage: OpenStageMirrorStorage;
  /**
   * With a new model: the left neighbour's layers, not built. The mirror starts with their initial
   * values. `null`: the left neighbour sends its stage.
   */
  initial: readonly PipelineLayer[] | null;
  /** Called when a piece of the stage has arrived. */
  onprogress: () => void;
}

export class StageMirror implements LayerStateSource {
  readonly #group: ProcessGroup;
  readonly #parameters: readonly Mirrored[];
  readonly #buffers: readonly MirroredBuffers[];
  readonly #size: number;
  readonly #slotCount: number;
  /**
   * The storage has parts of {@link #size} elements: one for the values, one for each of the
   * optimizer's averages, and one for the gradient.
   */
  readonly #storage: StageMirrorStorage;
  readonly #createOptimizer: (size: number) => Optimizer;
  /** Optimizers of pieces, by length. */
  readonly #optimizers = new Map<number, Optimizer>();
  #scalars: Float64Array<ArrayBuffer>;

  private constructor(
    group: ProcessGroup,
    { parameters, buffers }: StageSizes,
    scalars: Float64Array<ArrayBuffer>,
    storage: StageMirrorStorage,
    { createOptimizer }: MirrorOptions,
  ) {
    let size = 0;
    this.#parameters = parameters.map((parameter) => ({ ...parameter, at: (size += parameter.size) - parameter.size }));
    this.#buffers = buffers.map(({ layer, size: length }) => ({
      layer,
      values: new Float32Array(length),
      next: new Float32Array(length),
    }));
    this.#group = group;
    this.#size = size;
    this.#slotCount = createOptimizer(0).state().slots.length;
    this.#storage = storage;
    this.#createOptimizer = createOptimizer;
    this.#scalars = scalars;
  }

  /** Copies the stage of the left neighbour. Every rank of the stage's group must call it. */
  static async create(stage: PipelineStage, options: MirrorOptions): Promise<StageMirror> {
    const { group } = stage;
    const { createOptimizer, openStorage, initial, onprogress } = options;
    const scalars = stage.parameters.scalars;
    const stages = await group.allGatherObject({ sizes: sizesOf(stage), scalars: scalars && [...scalars] });
    const left = stages[leftOf(group)]!;
    const empty = createOptimizer(0).state();
    const elements = left.sizes.parameters.reduce((sum, { size }) => sum + size, 0);
    const storage = await openStorage(elements * (2 + empty.slots.length));
    const mirror = new StageMirror(
      group,
      left.sizes,
      left.scalars ? Float64Array.from(left.scalars) : empty.scalars.slice(),
      storage,
      options,
    );
    try {
      if (initial) {
        const layers = left.sizes.layers.map((index) => initial[index]!);
        const pieces = initialPieces(layers, createOptimizer);
        try {
          await mirror.#fill(withPieceProgress(layerPieceCopier(pieces), onprogress));
        } finally {
          // Frees the layer that was built last.
          await pieces.return();
        }
      } else
        await Promise.all([
          mirror.#send(allPieces(stage)),
          mirror.#fill(withPieceProgress(mirror.#receiver(), onprogress)),
        ]);
      return mirror;
    } catch (error) {
      mirror.dispose();
      throw error;
    }
  }

  get layers(): readonly number[] {
    return [...new Set([...this.#parameters, ...this.#buffers].map(({ layer }) => layer))];
  }

  get scalars(): Float64Array<ArrayBuffer> | null {
    return this.#parameters.length > 0 ? this.#scalars : null;
  }

  /**
   * Sends the averaged gradients of `stage` to the right neighbour and receives those of the left
   * one. Every rank of the group must call it, before the step is applied.
   */
  async exchangeGradients(stage: PipelineStage): Promise<void> {
    async function* own(): LayerPieces {
      yield* stage.parameters.gradients();
      for (const { values } of await stage.readBuffers()) yield* piecesOfArray(values);
    }
    await Promise.all([this.#send(own()), this.#receiveGradients()]);
  }

  /** Takes the step of the left neighbour. */
  apply({ learningRate, scale }: StepCommit): void {
    let scalars = this.#scalars;
    for (const { at: first, size } of this.#parameters) {
      for (const { at, length } of pieceRangesOf(size)) {
        const [values, ...rest] = this.#read(first + at, length, 2 + this.#slotCount);
        const gradient = rest.pop()!;
        if (scale < 1) for (let i = 0; i < length; i++) gradient[i]! *= scale;
        const optimizer = this.#optimizerOf(length);
        const { name } = optimizer.state();
        optimizer.load({ name, scalars: this.#scalars, slots: rest });
        optimizer.learningRate = learningRate;
        optimizer.apply(values!, gradient);
        const after = optimizer.state();
        for (const [part, array] of [values!, ...after.slots].entries()) {
          this.#storage.write(part * this.#size + first + at, array);
        }
        scalars = after.scalars.slice();
      }
    }
    this.#scalars = scalars;
    for (const { values, next } of this.#buffers) values.set(next);
  }

  async *pieces(layer: number): LayerPieces {
    const own = this.#parameters.filter((parameter) => parameter.layer === layer);
    for (const { at, length } of this.#places(own, 0, this.#slotCount)) {
      const piece = new Float32Array(length);
      this.#storage.read(at, piece);
      yield piece;
    }
    for (const buffers of this.#buffers) if (buffers.layer === layer) yield* piecesOfArray(buffers.values);
  }

  /** Returns the hash that the left neighbour computes of its stage. */
  hash(): string {
    const hash = new PiecewiseStateHash();
    for (const { at: first, size } of this.#parameters) {
      for (const { at, length } of pieceRangesOf(size)) {
        hash.add(...this.#read(first + at, length, 1 + this.#slotCount), this.#scalars);
      }
    }
    for (const { values } of this.#buffers) hash.add(values);
    return hash.digest();
  }

  dispose(): void {
    this.#storage.close();
  }

  #send(pieces: LayerPieces): Promise<void> {
    return sendLayerPieces(
      this.#group,
      this.#global((this.#group.rank + 1) % this.#group.worldSize),
      { tag: TAG },
      pieces,
    );
  }

  #receiver(): ReadStatePiece {
    return layerPieceReceiver(this.#group, this.#global(leftOf(this.#group)), TAG);
  }

  /** Sets the whole state. */
  async #fill(read: ReadStatePiece): Promise<void> {
    await this.#receivePieces(read, 0, this.#slotCount);
    for (const { values } of this.#buffers) await fillByPieces(values, read);
  }

  async #receiveGradients(): Promise<void> {
    const read = this.#receiver();
    const gradient = 1 + this.#slotCount;
    await this.#receivePieces(read, gradient, gradient);
    for (const { next } of this.#buffers) await fillByPieces(next, read);
  }

  async #receivePieces(read: ReadStatePiece, firstPart: number, lastPart: number): Promise<void> {
    for (const { at, length } of this.#places(this.#parameters, firstPart, lastPart)) {
      const piece = new Float32Array(length);
      await read(piece);
      this.#storage.write(at, piece);
    }
  }

  /** Yields the places of pieces in these parts of the storage, in the order of transfers. */
  *#places(parameters: readonly Mirrored[], firstPart: number, lastPart: number): Generator<PieceRange> {
    for (const { at: first, size } of parameters) {
      for (let part = firstPart; part <= lastPart; part++) {
        for (const { at, length } of pieceRangesOf(size)) yield { at: part * this.#size + first + at, length };
      }
    }
  }

  /** Reads the same piece of each of the first `parts` parts of the storage. */
  #read(at: number, length: number, parts: number): Float32Array<ArrayBuffer>[] {
    return Array.from({ length: parts }, (_, part) => {
      const piece = new Float32Array(length);
      this.#storage.read(part * this.#size + at, piece);
      return piece;
    });
  }

  #optimizerOf(length: number): Optimizer {
    const known = this.#optimizers.get(length) ?? this.#createOptimizer(length);
    this.#optimizers.set(length, known);
    return known;
  }

  #global(rank: number): number {
    return this.#group.ranks[rank]!;
  }
}

/** Sizes of a stage's parameters and buffers, in the order in which they travel. */
interface StageSizes {
  layers: readonly number[];
  parameters: { layer: number; size: number }[];
  buffers: { layer: number; size: number }[];
}

function sizesOf(stage: PipelineStage): StageSizes {
  return { layers: stage.layers, parameters: stage.parameters.sizes, buffers: stage.bufferSizes };
}

/** The state of all layers, in the order of a mirror: buffers follow all parameters. */
async function* allPieces(stage: PipelineStage): LayerPieces {
  for (const layer of stage.layers) yield* stage.parameters.pieces(layer);
  for (const { values } of await stage.readBuffers()) yield* piecesOfArray(values);
}

/** The initial state of layers, in the order of a mirror. The layers are built one at a time. */
async function* initialPieces(
  layers: readonly PipelineLayer[],
  createOptimizer: (size: number) => Optimizer,
): LayerPieces {
  const slotCount = createOptimizer(0).state().slots.length;
  const allBuffers: Float32Array[] = [];
  for (const layer of layers) {
    const variables = layer.build();
    try {
      const trained = trainedVariables(layer, variables);
      for (const variable of variables.filter((each) => trained.includes(each))) {
        yield* piecesOfArray(await readVariablesFlat([variable]));
        for (let slot = 0; slot < slotCount; slot++) {
          for (const { length } of pieceRangesOf(variable.size)) yield createOptimizer(length).state().slots[slot]!;
        }
      }
      const buffers = variables.filter((each) => !trained.includes(each));
      if (buffers.length > 0) allBuffers.push(await readVariablesFlat(buffers));
    } finally {
      layer.dispose();
    }
  }
  for (const values of allBuffers) yield* piecesOfArray(values);
}

function leftOf({ rank, worldSize }: ProcessGroup): number {
  return (rank + worldSize - 1) % worldSize;
}
