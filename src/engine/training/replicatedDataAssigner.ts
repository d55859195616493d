/** Deals out samples that every rank has: what one did not get to is any other's to do. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { dealWindow, GlobalCursor, type CursorPosition, type SampleWindow } from '../../parallel/data/cursor.ts';
import { deal, type Holding } from '../../parallel/recovery/sampleReassignment.ts';
import type { Dealer, DealerOptions, HeldGradient, Turn } from './sampleAssigner.ts';

/** A part that was dealt to this rank. */
interface Dealt {
  window: SampleWindow;
  /** Epoch in which the window was first dealt out. */
  dealtIn: number;
  /** Of this rank's samples, their places in the window: first those that it holds. */
  positions: Uint32Array;
}

export class SharedDealer implements Dealer {
  readonly #cursor: GlobalCursor;
  readonly #batchSize: number;
  #group: ProcessGroup;
  #last: Dealt | null = null;

  constructor({ group, samples, seed, batchSize }: DealerOptions) {
    this.#cursor = new GlobalCursor({ datasetSize: samples[group.rank]!, seed });
    this.#batchSize = batchSize;
    this.#group = group;
  }

  enter(group: ProcessGroup): void {
    this.#group = group;
  }

  deal(position: CursorPosition): Turn {
    const { epoch, rank, worldSize } = this.#group;
    const window = this.#cursor.windowAt(position, this.stepSamples);
    const all = Uint32Array.from(window.indices.keys());
    return this.#turnOf({ window, dealtIn: epoch, positions: dealWindow(all, rank, worldSize) }, 1);
  }

  holdingOf({ heldSamples }: HeldGradient): Holding | null {
    if (!this.#last || heldSamples === 0) return null;
    const { window, dealtIn, positions } = this.#last;
    const { dataEpoch, offset, indices } = window;
    return {
      window: { dataEpoch, offset, size: indices.length, dealtIn },
      positions: positions.slice(0, heldSamples),
    };
  }

  dealAgain(position: CursorPosition, gradient: HeldGradient, holdings: readonly (Holding | null)[]): Turn {
    const { epoch, rank } = this.#group;
    const held = this.holdingOf(gradient);
    const { dataEpoch, offset, indices } = this.#cursor.windowAt(position, this.stepSamples);
    const { window, keeps, positions, rounds } = deal(
      { dataEpoch, offset, size: indices.length, dealtIn: epoch },
      holdings,
      { rank, batchSize: this.#batchSize },
    );
    if (!keeps) gradient.drop();
    const own = keeps && held ? Uint32Array.from([...held.positions, ...positions]) : positions;
    const { dealtIn } = window;
    return this.#turnOf({ window: this.#cursor.windowAt(window, window.size), dealtIn, positions: own }, rounds);
  }

  stepsLeft({ dataEpoch, offset }: CursorPosition, epochs: number): number {
    const { datasetSize } = this.#cursor;
    const inPass = Math.ceil((datasetSize - offset) / this.stepSamples);
    return inPass + (epochs - dataEpoch - 1) * Math.ceil(datasetSize / this.stepSamples);
  }

  get stepSamples(): number {
    return this.#batchSize * this.#group.worldSize;
  }

  #turnOf(dealt: Dealt, rounds: number): Turn {
    this.#last = dealt;
    const { dataEpoch, offset, indices, next } = dealt.window;
    return {
      window: { dataEpoch, offset, size: indices.length, next },
      indices: dealt.positions.map((at) => indices[at]!),
      rounds,
    };
  }
}
