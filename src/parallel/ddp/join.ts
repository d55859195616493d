/**
 * Training on uneven inputs: a rank without inputs takes part in the collectives of the others
 * until all have finished, as torch.distributed.algorithms.Join
 * (https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html).
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { EarlyTerminationError, MismatchError } from '../../util/errors.ts';

export interface JoinOptions {
  /**
   * The divisor with `average: 'ranks'`: the world size (default), so that every sample has the
   * same weight, or the number of ranks that still have inputs. Averages over samples ignore it.
   */
  divideByInitialWorldSize?: boolean;
  /**
   * Whether all ranks stop with EarlyTerminationError as soon as one has no more inputs. Default
   * false.
   */
  throwOnEarlyTermination?: boolean;
}

/** What one rank reports before an iteration. */
interface RankStatus {
  /** Whether it has inputs. */
  isActive: boolean;
  /** Whether its gradients will be reduced; with `noSync` they are only kept. */
  synchronizes: boolean;
  /** Whether it adds to that reduction; a rank without inputs may have kept gradients. */
  contributes: boolean;
}

/** The reports of all ranks before an iteration. */
export interface Status {
  /** Ranks that have inputs, ascending. */
  active: readonly number[];
  synchronizes: boolean;
  contributors: number;
}

/** One `join` on one rank. */
export class JoinContext {
  readonly #group: ProcessGroup;
  readonly #throws: boolean;
  readonly divideByInitialWorldSize: boolean;
  #iterations = 0;
  #lastJoiner: number;

  constructor(
    group: ProcessGroup,
    { divideByInitialWorldSize = true, throwOnEarlyTermination = false }: JoinOptions = {},
  ) {
    this.#group = group;
    this.#throws = throwOnEarlyTermination;
    this.divideByInitialWorldSize = divideByInitialWorldSize;
    // If no rank has any inputs, the highest rank counts as the last.
    this.#lastJoiner = group.worldSize - 1;
  }

  /** The highest rank with inputs in the last iteration: all ranks end with its model. */
  get lastJoiner(): number {
    return this.#lastJoiner;
  }

  /**
   * Starts an iteration on every rank, with or without inputs.
   *
   * @throws (rejects) EarlyTerminationError on every rank if `throwOnEarlyTermination` is set
   *   and some ranks have no more inputs; MismatchError on every rank if only some synchronize.
   */
  async exchangeStatus({ isActive, synchronizes, contributes }: RankStatus): Promise<Status> {
    const { rank, worldSize } = this.#group;
    const all = await this.#group.allGather(
      Float32Array.of(Number(isActive), Number(synchronizes), Number(contributes)),
    );
    const ranks = [...all.keys()];
    const inside = ranks.filter((r) => all[r]![0] === 1);
    const finished = ranks.filter((r) => all[r]![0] === 0);
    const synchronizing = inside.filter((r) => all[r]![1] === 1);
    if (inside.length === 0) return { active: [], synchronizes: false, contributors: 0 };
    if (finished.length > 0 && this.#throws) {
      throw new EarlyTerminationError(
        isActive
          ? `Rank ${rank} stopped after ${this.#iterations} iterations because rank ${finished.join(', ')} has no more inputs.`
          : `Rank ${rank} has no more inputs after ${this.#iterations} iterations, so all ranks stop.`,
        { rank, worldSize },
      );
    }
    if (synchronizing.length > 0 && synchronizing.length < inside.length) {
      throw new MismatchError(
        `Rank ${synchronizing.join(', ')} reduces the gradients of this iteration and the others keep theirs: use ` +
          'noSync in the same iterations on every rank.',
        { rank, worldSize },
      );
    }
    this.#iterations += 1;
    this.#lastJoiner = inside.at(-1)!;
    return {
      active: inside,
      synchronizes: synchronizing.length > 0,
      contributors: all.filter(([, , contributing]) => contributing === 1).length,
    };
  }
}
