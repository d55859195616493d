/**
 * A rank's training state, reduced to what membership can affect: the applied steps, their order,
 * and how much of the next step was computed. Numbers take the place of parameters and gradients:
 * two numbers are equal only if their histories are equal. The code for progress and state election
 * is the real one.
 */
import type { RetainedGradientStore } from '../../src/engine/training/data/sampleAssigner.ts';
import {
  recordAppliedStep,
  initialTrainingProgress,
  type TrainingProgress,
} from '../../src/parallel/recovery/progress.ts';
import type { DataCursorPosition } from '../../src/parallel/data/cursor.ts';
import type { ElectedState, PeerState } from '../../src/parallel/recovery/stateElection.ts';

/** Number of samples in an epoch. A run is one epoch, and a window has one sample per rank. */
export const EPOCH_SAMPLES = 8;

/** An averaged gradient. */
interface Gradient {
  generation: number;
  /** Samples in the gradient, one bit each. */
  samples: number;
  next: DataCursorPosition;
}

export class Replica implements RetainedGradientStore {
  /** The run whose state the replica has; 0 if it has none. */
  run = 0;
  /**
   * For each step, the hash of the state after it, and the generation that applied it. Index 0 is
   * the start.
   */
  hashes: number[] = [];
  generations: number[] = [];
  progress: TrainingProgress = initialTrainingProgress();
  /** Samples in all applied gradients, one bit each. */
  learned = 0;
  /**
   * Number of samples of the next step whose gradients this rank has computed, and the hash of the
   * state in which it computed them.
   */
  heldSamples = 0;
  base = 0;
  /** The gradient of the latest step. */
  kept: Gradient | null = null;

  get steps(): number {
    return this.hashes.length - 1;
  }

  get hash(): number {
    return this.hashes[this.hashes.length - 1] ?? 0;
  }

  get isThrough(): boolean {
    return this.progress.position.epoch > 0;
  }

  drop(): void {
    this.heldSamples = 0;
  }

  copy(): Replica {
    const copy = new Replica();
    copy.#become(this);
    [copy.heldSamples, copy.base, copy.kept] = [this.heldSamples, this.base, this.kept];
    return copy;
  }

  /** Returns the state that the rank reports when it enters a generation of `run`. */
  reconnectState(run: number): PeerState {
    const { step, appliedIn, previousAppliedIn, verdicts } = this.progress;
    const isFresh = this.run !== run;
    const digest = String(isFresh ? startOf(run) : this.hash);
    return { isFresh, step, appliedIn, previousAppliedIn, verdicts, digest, keepsGradient: this.kept !== null };
  }

  apply(gradient: Gradient): void {
    const { generation, samples, next } = gradient;
    this.hashes.push(mix(mix(this.hash, generation), samples));
    this.generations.push(generation);
    this.learned |= samples;
    this.drop();
    this.kept = gradient;
    recordAppliedStep(this.progress, generation, next);
  }

  /** Loads another rank's state. */
  load(other: Replica): void {
    this.#become(other);
    this.drop();
    this.kept = null;
  }

  /** Begins `run` if no rank has a state. */
  begin(run: number): void {
    this.load(new Replica());
    this.run = run;
    this.hashes = [startOf(run)];
    this.generations = [0];
  }

  #become({ run, hashes, generations, progress, learned }: Replica): void {
    this.run = run;
    this.hashes = hashes.slice();
    this.generations = generations.slice();
    this.progress = { ...progress };
    this.learned = learned;
  }
}

/** Loads the elected state of a generation into the replica of `rank`. */
type TakeOver = (
  replica: Replica,
  rank: number,
  all: readonly Replica[],
  comparison: ElectedState,
  run: number,
) => void;

export const takeOver: TakeOver = (replica, rank, all, { sources, late, gradientSource }, run) => {
  const elected = all[sources[0]!]!;
  if (elected.run !== run) replica.begin(run);
  else if (late.includes(rank)) replica.apply(all[gradientSource!]!.kept!);
  else if (!sources.includes(rank)) replica.load(elected);
};

function startOf(run: number): number {
  return mix(run, 1);
}

function mix(a: number, b: number): number {
  let h = Math.imul(a ^ b, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
