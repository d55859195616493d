/** Waits in `fit` and `evaluate` for code of the page: for datasets and callbacks. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';

/**
 * Ends waits for datasets and callbacks when the group fails. Collectives end by themselves in this
 * case, but datasets and callbacks do not notice it.
 */
export class WaitsUntilFailure {
  readonly #group: Pick<ProcessGroup, 'failure' | 'failed'>;
  readonly #pending = new Set<(error: Error) => void>();

  /**
   * Create only one object per call of `fit` or `evaluate`, because the group keeps each object in
   * memory until the group ends.
   */
  constructor(group: Pick<ProcessGroup, 'failure' | 'failed'>) {
    this.#group = group;
    void group.failed.then((error) => {
      for (const end of this.#pending) end(error);
    });
  }

  /**
   * Settles like `promise`, or rejects with the failure of the group as soon as it fails.
   *
   * @param drop disposes of the value of `promise` if it arrives after the group has failed.
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
