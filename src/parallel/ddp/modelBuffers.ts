/**
 * A model's buffers, in PyTorch's word: state that no gradient changes but a forward pass may, as
 * batch normalization's averages, and weights that are frozen. Every rank's pass sees other
 * samples, so one rank's values are made everyone's.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { createLayout } from './buckets.ts';
import { TensorReader, writeVariables, type Variable } from './flatten.ts';

export class ModelBuffers {
  readonly #variables: readonly Variable[];
  #group: ProcessGroup;
  readonly #reader = new TensorReader();
  /**
   * What each held when all ranks last had the same: a variable that is assigned holds other data.
   */
  #shared: readonly object[] = [];

  /** @param variables float32. */
  constructor(variables: readonly Variable[], group: ProcessGroup) {
    this.#variables = variables;
    this.#group = group;
  }

  /** Goes on in another group, all of whose ranks hold the same values. */
  regroup(group: ProcessGroup): void {
    this.#group = group;
    this.#shared = this.#variables.map(({ dataId }) => dataId);
  }

  get count(): number {
    return this.#variables.length;
  }

  /**
   * For each buffer 1 where this rank has changed it since the last {@link broadcast}, otherwise 0.
   */
  changes(): number[] {
    return this.#variables.map(({ dataId }, i) => (dataId === this.#shared[i] ? 0 : 1));
  }

  /**
   * Gives every rank those that `wanted` is not 0 for (all by default) of rank `src` of the group,
   * in one broadcast.
   */
  async broadcast(src: number, wanted?: ArrayLike<number>): Promise<void> {
    const variables = this.#variables.filter((_, i) => !wanted || wanted[i] !== 0);
    const { rank, ranks, worldSize } = this.#group;
    if (variables.length > 0 && worldSize > 1) {
      const { slots, size } = createLayout(variables.map((variable) => variable.size));
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
