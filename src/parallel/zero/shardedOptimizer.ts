/**
 * The optimizer of a rank's shard in an elastic run (ZeRO stage 1, see
 * `zeroRedundancyOptimizer.ts`). All ranks have the parameters. The averages of a shard are on the
 * rank that owns the shard. The next rank of the ring has a copy of them, the mirror, which is at
 * most {@link MIRROR_SHARDS_EVERY_STEPS} steps old.
 *
 * A step is applied when the shards of all ranks have arrived. So after an interruption each rank
 * has whole parameters, of this step or of the previous one. A rank that has not received all
 * shards returns to its averages before the step, but also keeps its averages after the step. If
 * another rank has applied the step, this rank continues with the averages after the step.
 *
 * When the world changes, averages move to the new owners of their elements. A rank keeps what it
 * had until all ranks have what they need.
 */
import { leftNeighbourOf, rightNeighbourOf } from '../../collectives/plans/ringPlan.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { checkSameOptimizer, type Optimizer, type OptimizerState } from '../../optim/optimizer.ts';
import type { Clock } from '../../util/clock.ts';
import { MismatchError } from '../../util/errors.ts';
import type { ElementRange } from '../../util/range.ts';
import type { DistributedDataParallel } from '../ddp/distributedDataParallel.ts';
import type { ReplicaOptimizer, SavedOptimizerState } from './replicaOptimizer.ts';
import type { ShardPlace } from '../ddp/bucketShards.ts';
import { clipShards } from './clipShards.ts';
import { packRanges, totalRangeLength, unpackRanges } from '../ddp/ranges.ts';
import { redistributeShards, type ShardRedistribution } from './redistribution.ts';
import { moveShardPieces, WHOLE_SHARD, type ShardPiece } from './shardPiece.ts';

/**
 * Number of steps between two copies of the averages to the next rank. With Adam, n ranks and K
 * bytes of parameters, a copy sends 2K/n bytes, and a step sends 2K(n-1)/n bytes. So copies add
 * 1/(50(n-1)) to the bytes: 0.7 % with four ranks.
 */
export const MIRROR_SHARDS_EVERY_STEPS = 50;

interface ShardedOptimizerOptions {
  /** Creates the optimizer of a shard for a number of elements. */
  createOptimizer: (size: number) => Optimizer;
  /** Largest norm of the gradient of all shards; `null`: no limit. */
  clipNorm: number | null;
  clock: Clock;
  /** Reports averages that were lost or are old. */
  onnote: (message: string) => void;
}

export class ShardedOptimizer implements ReplicaOptimizer {
  readonly repeater = null;
  readonly #ddp: DistributedDataParallel;
  readonly #options: ShardedOptimizerOptions;
  /** The optimizer of this rank's shard. Without {@link #place} it has no elements. */
  #optimizer: Optimizer;
  /** Place of this rank's shard; `null` from a change of the state until {@link attach}. */
  #place: ShardPlace | null = null;
  /** Other averages: the mirror and, until {@link attach} ends, the averages of earlier shards. */
  #others: readonly ShardPiece[] = [];
  /** Order of the parameters in all averages. */
  #order: readonly number[];
  /**
   * The averages after a step that this rank has not applied; see the comment at the top of this
   * file.
   */
  #unconfirmed: { piece: ShardPiece; generation: number } | null = null;
  #stepsSinceMirror = 0;
  #whole: OptimizerState | null = null;

  constructor(ddp: DistributedDataParallel, options: ShardedOptimizerOptions) {
    ddp.shardGradients();
    this.#ddp = ddp;
    this.#options = options;
    this.#optimizer = options.createOptimizer(0);
    this.#order = ddp.parameterOrder;
  }

  get equalState(): OptimizerState {
    return { ...this.#optimizer.state(), slots: [] };
  }

  get learningRate(): number {
    return this.#optimizer.learningRate;
  }

  get isWhole(): boolean {
    return this.#whole !== null || this.#place?.worldSize === 1;
  }

  async update(learningRate = this.learningRate, onapplied: () => void): Promise<number> {
    const { clock, clipNorm } = this.#options;
    const { group, gradient, parameters, shards } = this.#ddp;
    const { own } = shards;
    const startedAt = clock.now();
    if (this.#stepsSinceMirror >= MIRROR_SHARDS_EVERY_STEPS) this.#others = await this.#exchangeMirrors();
    const averaged = packRanges(gradient, own);
    if (clipNorm !== null) await clipShards(group, averaged, [{ start: 0, end: averaged.length }], clipNorm);
    const clippedAt = clock.now();
    const before = copyOf(this.#optimizer.state());
    const updated = packRanges(parameters, own);
    this.#optimizer.learningRate = learningRate;
    this.#optimizer.apply(updated, averaged);
    const appliedAt = clock.now();
    const gathered = await shards.allGather(updated).catch((error: unknown) => {
      const { slots } = copyOf(this.#optimizer.state());
      this.#unconfirmed = { piece: { place: placeOf(group), age: 0, slots }, generation: group.generation };
      this.#optimizer.load(before);
      throw error;
    });
    const gatheredAt = clock.now();
    this.#ddp.setShards(gathered);
    this.#unconfirmed = null;
    this.#whole = null;
    this.#stepsSinceMirror += 1;
    this.#others = aged(this.#others, 1);
    onapplied();
    return clippedAt - startedAt + gatheredAt - appliedAt;
  }

  snapshot(): SavedOptimizerState {
    if (this.#whole) return { optimizer: this.#whole };
    const { slots, ...head } = copyOf(this.#optimizer.state());
    if (this.isWhole) return { optimizer: { ...head, slots: slots.map((slot) => this.#toFlat(slot)) } };
    const own = this.#place ? [{ place: this.#place, age: 0, slots }] : [];
    return { optimizer: { ...head, slots: [] }, shards: [...own, ...this.#others] };
  }

  check(saved: SavedOptimizerState): void {
    const { slots, ...head } = this.#optimizer.state();
    checkSameOptimizer({ ...head, slots: [] }, { ...saved.optimizer, slots: [] });
    // The sizes of shards depend on the order of the parameters, which this rank may not know yet.
    // So only averages of all parameters are compared in size.
    const isFit = piecesOf(saved).every(
      (piece) =>
        piece.slots.length === slots.length &&
        (piece.place.worldSize > 1 || piece.slots.every(({ length }) => length === this.#ddp.layout.size)),
    );
    if (isFit) return;
    throw new MismatchError(
      `The state's averages do not fit ${head.name} and a model of ${this.#ddp.layout.size} parameters. Load a state of the same ` +
        'optimizer and model.',
    );
  }

  load(saved: SavedOptimizerState): void {
    this.#restart(saved.optimizer, piecesOf(saved));
  }

  adopt(elected: OptimizerState, behind: number, appliedIn: number): void {
    const isInOrder = this.#ddp.parameterOrder.every((parameter, i) => parameter === this.#order[i]);
    const isConfirmed = behind === 1 && this.#unconfirmed?.generation === appliedIn;
    // If this rank is not behind, its state comes from steps other than those of the elected state,
    // so its averages do not belong to the elected state. They count as one step old.
    const older = aged(this.#pieces, Math.max(1, behind));
    const known = isConfirmed ? [this.#unconfirmed!.piece, ...older] : older;
    this.#restart(elected, isInOrder ? known : []);
  }

  async attach(step: number): Promise<void> {
    const { group, shards } = this.#ddp;
    const state = this.#optimizer.state();
    const count = state.slots.length;
    const held = count > 0 ? this.#pieces : [];
    const all = await group.allGatherObject(held.map(({ place, age }) => ({ place, age })));
    const rangesOf = remembered((place) => shards.rangesOf(place));
    const { moves, ...losses } = redistributeShards(all, rangesOf);
    // Before the first step no rank has averages, because they are zero. So none were lost.
    if (count > 0 && step > 0) this.#report(losses);
    const slots = await moveShardPieces(group, held, moves, rangesOf, count);
    const place = placeOf(group);
    this.#optimizer = this.#options.createOptimizer(totalRangeLength(rangesOf(place)));
    this.#optimizer.load({ ...state, slots });
    this.#place = place;
    this.#others = held;
    const mirrors = step > 0 ? await this.#exchangeMirrors() : [];
    this.#others = [...mirrors, ...held];
    // Until all ranks reach this line, other ranks may need the averages that this rank had.
    await group.barrier();
    this.#others = mirrors;
    this.#stepsSinceMirror = 0;
  }

  async gatherWhole(isWanted: boolean): Promise<void> {
    const { group, shards } = this.#ddp;
    if (group.worldSize === 1) return;
    const { slots, ...head } = this.#optimizer.state();
    const wishes = await group.allGather(Uint8Array.of(Number(isWanted)));
    for (const [to, [isWish]] of wishes.entries()) {
      const whole = isWish === 1 ? await shards.gather(slots, to) : null;
      if (whole) this.#whole = { ...head, scalars: head.scalars.slice(), slots: whole };
    }
  }

  release(): void {
    this.#whole = null;
  }

  get #pieces(): ShardPiece[] {
    const { slots } = this.#optimizer.state();
    return [...(this.#place ? [{ place: this.#place, age: 0, slots }] : []), ...this.#others];
  }

  /** Continues from another state. Until {@link attach}, this rank has no shard. */
  #restart(state: OptimizerState, pieces: readonly ShardPiece[]): void {
    const { slots } = this.#optimizer.state();
    this.#optimizer = this.#options.createOptimizer(0);
    this.#optimizer.load({ ...state, slots: slots.map(() => new Float32Array()) });
    this.#place = null;
    this.#others = pieces;
    this.#order = this.#ddp.parameterOrder;
    this.#unconfirmed = null;
    this.#whole = null;
  }

  /**
   * Copies the averages of this rank to the next rank of the ring, and returns those of the
   * previous rank. Every rank must call it.
   */
  async #exchangeMirrors(): Promise<ShardPiece[]> {
    const { group, shards } = this.#ddp;
    const { rank, ranks, worldSize } = group;
    const { slots } = this.#optimizer.state();
    this.#stepsSinceMirror = 0;
    if (worldSize === 1 || slots.length === 0) return [];
    const left = leftNeighbourOf(rank, worldSize);
    const place = { worldSize, rank: left };
    const size = totalRangeLength(shards.rangesOf(place));
    const copies = slots.map(() => new Float32Array(size));
    const right = ranks[rightNeighbourOf(rank, worldSize)]!;
    await Promise.all([
      ...slots.map((slot, tag) => group.isend(slot, right, { tag })),
      ...copies.map((copy, tag) => group.irecv(copy, ranks[left], { tag })),
    ]);
    return [{ place, age: 0, slots: copies }];
  }

  #report({ missing, stale, oldest }: Pick<ShardRedistribution, 'missing' | 'stale' | 'oldest'>): void {
    const { size } = this.#ddp.layout;
    const { name } = this.#optimizer.state();
    if (missing > 0) {
      this.#options.onnote(
        `The averages of ${name} start from zero for ${missing} of ${size} parameters, because the ranks that had them have left.`,
      );
    }
    if (stale > 0) {
      const steps = oldest === 1 ? '1 step' : `at most ${oldest} steps`;
      this.#options.onnote(
        `The averages of ${name} are ${steps} old for ${stale} of ${size} parameters, because the rank that had them has left.`,
      );
    }
  }

  /**
   * Returns averages of this rank's shard in the order of the flat arrays. The shard must have all
   * parameters.
   */
  #toFlat(slot: Float32Array): Float32Array<ArrayBuffer> {
    const flat = new Float32Array(slot.length);
    unpackRanges(slot, flat, this.#ddp.shards.own);
    return flat;
  }
}

function placeOf({ worldSize, rank }: ProcessGroup): ShardPlace {
  return { worldSize, rank };
}

function copyOf({ name, scalars, slots }: OptimizerState): OptimizerState {
  return { name, scalars: scalars.slice(), slots: slots.map((slot) => slot.slice()) };
}

function aged(pieces: readonly ShardPiece[], steps: number): ShardPiece[] {
  return pieces.map((piece) => ({ ...piece, age: piece.age + steps }));
}

/** Returns the averages of a saved state. */
function piecesOf({ optimizer, shards }: SavedOptimizerState): readonly ShardPiece[] {
  return shards ?? (optimizer.slots.length > 0 ? [{ place: WHOLE_SHARD, age: 0, slots: optimizer.slots }] : []);
}

/** Returns a function that calls `rangesOf` only once for each place. */
function remembered(
  rangesOf: (place: ShardPlace) => readonly ElementRange[],
): (place: ShardPlace) => readonly ElementRange[] {
  const known = new Map<string, readonly ElementRange[]>();
  return (place) => {
    const key = `${place.rank}/${place.worldSize}`;
    const ranges = known.get(key) ?? rangesOf(place);
    known.set(key, ranges);
    return ranges;
  };
}
