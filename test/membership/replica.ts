/**
 * One rank's training state, abstracted to what membership can get wrong: which steps were applied,
 * in which order, and how much was computed of the next one. Numbers stand for parameters and
 * gradients: two are equal exactly if their histories are. The rules by which ranks go on with it
 * are production's.
 */
import type { GradientStore } from '../../src/engine/training/data/sampleAssigner.ts';
import { advance, startOfRun, type Progress } from '../../src/parallel/recovery/progress.ts';
import type { CursorPosition } from '../../src/parallel/data/cursor.ts';
import type { ElectedState, PeerState } from '../../src/parallel/recovery/stateElection.ts';

/** Samples of a pass; a run is one pass. A window has one sample per rank. */
export const PASS = 8;

/** An averaged gradient. */
interface Gradient {
  generation: number;
  /** Samples, one bit each. */
  samples: number;
  next: CursorPosition;
}

export class Replica implements GradientStore {
  /** 0: it has no state. */
  run = 0;
  /** By step: the state's hash after it, and the generation that applied it; at 0 the start. */
  hashes: number[] = [];
  generations: number[] = [];
  progress: Progress = startOfRun();
  /** Samples applied, one bit each. */
  learned = 0;
  /** Samples of its part whose gradients it has computed, and the state at which it did. */
  heldSamples = 0;
  base = 0;
  /** The gradient of its last step. */
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

  /** What it brings into a generation of `run`. */
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
    advance(this.progress, generation, next);
  }

  /** Takes over a state. */
  load(other: Replica): void {
    this.#become(other);
    this.drop();
    this.kept = null;
  }

  /** Begins `run`, where nobody has a state. */
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

/**
 * Gives `rank` of a generation the state that a comparison of its ranks' found, as ranks get it
 * from each other.
 */
type TakeOver = (
  replica: Replica,
  rank: number,
  all: readonly Replica[],
  comparison: ElectedState,
  run: number,
) => void;

export const takeOver: TakeOver = (replica, rank, all, { sources, late, gradientSource }, run) => {
  const theirs = all[sources[0]!]!;
  if (theirs.run !== run) replica.begin(run);
  else if (late.includes(rank)) replica.apply(all[gradientSource!]!.kept!);
  else if (!sources.includes(rank)) replica.load(theirs);
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
