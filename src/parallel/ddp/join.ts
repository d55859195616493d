/**
 * Training on uneven inputs: a rank that has run dry goes on with the others' collectives until all
 * have, as torch.distributed.algorithms.Join
 * (https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html).
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { EarlyTerminationError, MismatchError } from '../../util/errors.ts';

export interface JoinOptions {
  /**
   * With `average: 'ranks'`: whether to divide by the world size for ever (default), so that every
   * sample weighs the same, or by the number of ranks that still have inputs. Averages over samples
   * need neither.
   */
  divideByInitialWorldSize?: boolean;
  /**
   * Whether all ranks stop with EarlyTerminationError as soon as one has run dry. Default false.
   */
  throwOnEarlyTermination?: boolean;
}

/** What a rank says of its next iteration. */
interface Status {
  /** Whether it has inputs. */
  active: boolean;
  /** Whether its gradients will be reduced, not only kept (`noSync`). */
  synchronises: boolean;
  /** Whether it adds anything to that reduction: a dry rank may have kept gradients. */
  contributes: boolean;
}

/** What all ranks say of their next iteration. */
export interface Roll {
  /** Ranks that have inputs, ascending. */
  active: readonly number[];
  synchronises: boolean;
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
    // Where no rank has any inputs, all are last.
    this.#lastJoiner = group.worldSize - 1;
  }

  /** The highest rank that took part in the last iteration: its model is everyone's in the end. */
  get lastJoiner(): number {
    return this.#lastJoiner;
  }

  /**
   * Starts an iteration on every rank, dry or not.
   *
   * @throws (rejects) EarlyTerminationError on every rank where that was asked for and some have
   *   run dry; MismatchError on every rank where only some synchronise.
   */
  async callRoll({ active, synchronises, contributes }: Status): Promise<Roll> {
    const { rank, worldSize } = this.#group;
    const all = await this.#group.allGather(Float32Array.of(Number(active), Number(synchronises), Number(contributes)));
    const ranks = [...all.keys()];
    const inside = ranks.filter((r) => all[r]![0] === 1);
    const dry = ranks.filter((r) => all[r]![0] === 0);
    const synchronising = inside.filter((r) => all[r]![1] === 1);
    if (inside.length === 0) return { active: [], synchronises: false, contributors: 0 };
    if (dry.length > 0 && this.#throws) {
      throw new EarlyTerminationError(
        active
          ? `Rank ${rank} stopped after ${this.#iterations} iterations, as rank ${dry.join(', ')} has no more inputs.`
          : `Rank ${rank} has no more inputs after ${this.#iterations} iterations, so all ranks stop.`,
        { rank, worldSize },
      );
    }
    if (synchronising.length > 0 && synchronising.length < inside.length) {
      throw new MismatchError(
        `Rank ${synchronising.join(', ')} reduces the gradients of this iteration and the others keep theirs: use ` +
          'noSync in the same iterations on every rank.',
        { rank, worldSize },
      );
    }
    this.#iterations += 1;
    this.#lastJoiner = inside.at(-1)!;
    return {
      active: inside,
      synchronises: synchronising.length > 0,
      contributors: all.filter(([, , contributing]) => contributing === 1).length,
    };
  }
}
