/**
 * Training on uneven inputs: a rank without inputs takes part in the collectives of the other ranks
 * until all have finished, as with torch.distributed.algorithms.Join
 * (https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html).
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { EarlyTerminationError, MismatchError } from '../../util/errors.ts';
import { nameRanks } from '../../util/text.ts';

export interface JoinOptions {
  /**
   * The divisor with `average: 'ranks'`. With true (default) it is the world size, so that every
   * sample has the same weight. With false it is the number of ranks that still have inputs. With
   * `average: 'samples'` the option has no effect.
   */
  divideByInitialWorldSize?: boolean;
  /**
   * Whether all ranks stop with EarlyTerminationError as soon as one rank has no more inputs.
   * Default false.
   */
  throwOnEarlyTermination?: boolean;
  /**
   * A signal that ends the call of `join`. When it is aborted, the group fails on every rank with
   * AbortError, which names this rank.
   */
  signal?: AbortSignal | undefined;
}

/** One rank's report before an iteration. */
interface RankStatus {
  /** Whether the rank has inputs. */
  isActive: boolean;
  /**
   * Whether the rank's gradients are reduced in this iteration. Inside `noSync` they are only kept.
   */
  synchronizes: boolean;
  /**
   * Whether the rank adds gradients to the reduction. A rank without inputs may still have kept
   * gradients.
   */
  contributes: boolean;
}

/** The reports of all ranks before an iteration. */
export interface JoinStatus {
  /** Ranks that have inputs, ascending. */
  active: readonly number[];
  synchronizes: boolean;
  contributors: number;
}

/** State of one `join` call on one rank. */
export class DdpJoinContext {
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
    // If no rank has any inputs, the highest rank is the last joiner.
    this.#lastJoiner = group.worldSize - 1;
  }

  /** The highest rank with inputs in the last iteration: all ranks end with its model. */
  get lastJoiner(): number {
    return this.#lastJoiner;
  }

  /**
   * Starts an iteration and exchanges the reports of all ranks. Every rank must call it, with or
   * without inputs.
   *
   * @throws (rejects) EarlyTerminationError on every rank if `throwOnEarlyTermination` is set and
   *   at least one rank has no more inputs; MismatchError on every rank if only some ranks
   *   synchronize.
   */
  async exchangeStatus({ isActive, synchronizes, contributes }: RankStatus): Promise<JoinStatus> {
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
          ? `Rank ${rank} stopped after ${this.#iterations} iterations because the inputs of ${nameRanks(finished)} ended.`
          : `Rank ${rank} has no more inputs after ${this.#iterations} iterations, so all ranks stop.`,
        { rank, worldSize },
      );
    }
    if (synchronizing.length > 0 && synchronizing.length < inside.length) {
      throw new MismatchError(
        `Only ${nameRanks(synchronizing)} reduced the gradients of this iteration; the other ranks kept theirs. Use noSync in the ` +
          'same iterations on every rank.',
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
