/** Waits of `fit` and `evaluate` for code of the page: datasets and callbacks. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';

/**
 * Ends waits when the group fails. Collectives end by themselves, but a dataset or a callback does
 * not know the group.
 */
export class PageWaits {
  readonly #group: Pick<ProcessGroup, 'failure' | 'failed'>;
  readonly #pending = new Set<(error: Error) => void>();

  /** Create one per call of `fit` or `evaluate`: the group keeps each one until the group ends. */
  constructor(group: Pick<ProcessGroup, 'failure' | 'failed'>) {
    this.#group = group;
    void group.failed.then((error) => {
      for (const end of this.#pending) end(error);
    });
  }

  /**
   * Settles like `promise`, or rejects with the failure of the group as soon as it fails.
   *
   * @param drop disposes of a value that arrives later.
   */
  until<T>(promise: Promise<T>, drop: (late: T) => void = () => {}): Promise<T> {
    return new Promise((resolve, reject) => {
      let isOver = false;
      const end = (error: unknown): void => {
        isOver = true;
        this.#pending.delete(end);
        reject(error);
      };
      this.#pending.add(end);
      promise.then((value) => {
        if (isOver) drop(value);
        else resolve(value);
        this.#pending.delete(end);
      }, end);
      if (this.#group.failure) end(this.#group.failure);
    });
  }
}
