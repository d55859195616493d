/** Deals out samples of which every rank has its own. */
import type { ProcessGroup } from '../collectives/processGroup.ts';
import type { CursorPosition } from '../parallel/cursor.ts';
import { ShardCursor } from '../parallel/shardCursor.ts';
import type { Ring } from '../parallel/strategies/index.ts';
import type { Dealer, DealerOptions, Turn } from './turn.ts';

export class ShardDealer implements Dealer {
  readonly #batchSize: number;
  readonly #seed: number;
  #cursor: ShardCursor;

  constructor({ group, samples, seed, batchSize }: DealerOptions) {
    this.#batchSize = batchSize;
    this.#seed = seed;
    this.#cursor = this.#cursorOf(group, samples);
  }

  enter(group: ProcessGroup, samples: readonly number[]): void {
    this.#cursor = this.#cursorOf(group, samples);
  }

  deal(position: CursorPosition): Turn {
    const { dataEpoch, offset, size, indices, largestPart, next } = this.#cursor.windowAt(position, this.#batchSize);
    const rounds = Math.ceil(largestPart / this.#batchSize);
    return { window: { dataEpoch, offset, size, next }, indices, rounds };
  }

  /** Nothing: with other ranks a step has other samples, and a gradient cannot be taken apart. */
  holdingOf(): null {
    return null;
  }

  dealAgain(position: CursorPosition, ring: Ring): Turn {
    ring.drop();
    return this.deal(position);
  }

  stepsLeft({ dataEpoch, offset, parts = 0 }: CursorPosition, epochs: number): number {
    const each = this.#cursor.partsOf(this.#batchSize);
    return (offset === 0 ? each : parts - offset) + (epochs - dataEpoch - 1) * each;
  }

  #cursorOf({ rank }: ProcessGroup, sizes: readonly number[]): ShardCursor {
    return new ShardCursor({ sizes, rank, seed: this.#seed });
  }
}
