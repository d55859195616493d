/**
 * A model's buffers, as PyTorch calls them: state that no gradient changes, such as the averages of
 * batch normalization and frozen weights. A forward pass may change this state. Every rank's pass
 * has different samples, so the buffers of one rank are broadcast to all.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { MAX_WORLD_SIZE } from '../../protocol/scalars.ts';
import { createFlatLayout } from '../flat/buckets.ts';
import { TensorReader, writeVariables, type Variable } from '../backward/flatten.ts';

/**
 * Number of ranks that share one element of {@link ModelBuffers.flags}. Each of these ranks adds
 * its own power of two, from 2^0 to 2^23. Sums of these powers are exact in float32.
 */
const RANKS_PER_FLAG = 24;
const SOURCE_FLAGS = Math.ceil(MAX_WORLD_SIZE / RANKS_PER_FLAG);

export class ModelBuffers {
  readonly #variables: readonly Variable[];
  #group: ProcessGroup;
  readonly #reader = new TensorReader();
  /**
   * Data id of each buffer at the time when all ranks last had the same values. If a variable is
   * assigned later, its data id is different.
   */
  #shared: readonly object[] = [];

  /** @param variables variables with dtype float32. */
  constructor(variables: readonly Variable[], group: ProcessGroup) {
    this.#variables = variables;
    this.#group = group;
  }

  /** Continues in another group, whose ranks all have the same values. */
  regroup(group: ProcessGroup): void {
    this.#group = group;
    this.#shared = this.#variables.map(({ dataId }) => dataId);
  }

  get count(): number {
    return this.#variables.length;
  }

  /**
   * Returns one number for each buffer: 1 if this rank changed the buffer since the latest
   * {@link broadcast}, otherwise 0.
   */
  changes(): number[] {
    return this.#variables.map(({ dataId }, i) => (dataId === this.#shared[i] ? 0 : 1));
  }

  /** Length of {@link flags}. */
  get flagCount(): number {
    return this.count === 0 ? 0 : SOURCE_FLAGS + this.count;
  }

  /**
   * Returns numbers that ranks sum for {@link share}: which ranks have samples, and the
   * {@link changes}.
   */
  flags(hasSamples: boolean): number[] {
    if (this.count === 0) return [];
    const sources = Array.from({ length: SOURCE_FLAGS }, () => 0);
    const { rank } = this.#group;
    if (hasSamples) sources[Math.floor(rank / RANKS_PER_FLAG)] = 2 ** (rank % RANKS_PER_FLAG);
    return [...sources, ...this.changes()];
  }

  /**
   * Broadcasts the buffers that at least one rank has changed. As in PyTorch, the values are those
   * of rank 0. If rank 0 had no samples, they are those of the lowest rank with samples.
   *
   * @param flags the sums of all ranks' {@link flags}.
   */
  async share(flags: ArrayLike<number>): Promise<void> {
    const changes = Array.from(flags).slice(SOURCE_FLAGS);
    if (changes.some((count) => count > 0)) await this.broadcast(sourceOf(flags), changes);
  }

  /**
   * Broadcasts buffers of rank `src` of the group, in one message.
   *
   * @param wanted one number for each buffer: a buffer with 0 is not sent. By default all buffers
   *   are sent.
   */
  async broadcast(src: number, wanted?: ArrayLike<number>): Promise<void> {
    const variables = this.#variables.filter((_, i) => !wanted || wanted[i] !== 0);
    const { rank, ranks, worldSize } = this.#group;
    if (variables.length > 0 && worldSize > 1) {
      const { slots, size } = createFlatLayout(variables.map((variable) => variable.size));
      const flat = new Float32Array(size);
      if (rank === src) {
        const tensors = slots.map(({ parameter }) => variables[parameter]!);
        await this.#reader.read(0, tensors, flat);
      }
      await this.#group.broadcast(flat, ranks[src]!);
      if (rank !== src) writeVariables(variables, slots, flat);
    }
    this.#shared = this.#variables.map(({ dataId }) => dataId);
  }

  dispose(): void {
    this.#reader.dispose();
  }
}

/** The lowest rank with samples; 0 if no rank has any. */
function sourceOf(flags: ArrayLike<number>): number {
  const at = Array.from({ length: SOURCE_FLAGS }, (_, i) => flags[i]!).findIndex((ranks) => ranks > 0);
  if (at === -1) return 0;
  const ranks = flags[at]!;
  // `ranks & -ranks` is the lowest bit that is set.
  return at * RANKS_PER_FLAG + Math.log2(ranks & -ranks);
}
