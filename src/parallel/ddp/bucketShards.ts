/**
 * Shards of the flat arrays. In the ring all-reduce of a bucket, each rank computes the sums of one
 * part of the bucket. A rank's shard consists of its parts of all buckets. So a reduce-scatter
 * gives a shard the same bits as an all-reduce.
 */
import type { CollectiveCodecName } from '../../spec/codecs.ts';
import { evenDisplacements } from '../../collectives/plans/plans.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Work } from '../../collectives/work.ts';
import type { ElementRange } from '../../util/range.ts';
import type { FlatLayout } from '../flat/buckets.ts';
import { totalRangeLength, unpackRanges } from './ranges.ts';

/** Identifies one of `worldSize` shards. In a given layout, this determines the shard's ranges. */
export interface ShardPlace {
  readonly worldSize: number;
  readonly rank: number;
}

export class BucketShards {
  readonly #layout: FlatLayout;
  readonly #group: ProcessGroup;
  /**
   * Number of elements that are all-reduced together with the last bucket, behind the bucket's own
   * elements.
   */
  readonly #tally: number;

  /**
   * @param tally length of the tally, which is part of the last bucket's all-reduce; 0 if it has an
   *   all-reduce of its own.
   */
  constructor(layout: FlatLayout, group: ProcessGroup, tally: number) {
    this.#layout = layout;
    this.#group = group;
    this.#tally = tally;
  }

  /** This rank's range of each bucket. */
  get own(): readonly ElementRange[] {
    return this.rangesOf(this.#group);
  }

  /** Returns a shard's range of each bucket. */
  rangesOf({ worldSize, rank }: ShardPlace): ElementRange[] {
    return this.#layout.buckets.map(({ start }, bucket) => {
      const starts = this.#starts(bucket, worldSize);
      return { start: start + starts[rank]!, end: start + starts[rank + 1]! };
    });
  }

  /** Starts to sum a bucket, with the tally if it is the last one. See {@link finish}. */
  reduceScatter(
    bucket: number,
    values: Float32Array<ArrayBuffer>,
    options: { codec: CollectiveCodecName; residual: Float32Array | null },
  ): Work<Float32Array<ArrayBuffer>> {
    return this.#group.reduceScatter(values, { ...options, sizes: sizesOf(this.#displacements(bucket)) });
  }

  /**
   * Writes this rank's sums of all buckets to `gradient`, and gathers the sums of the tally.
   *
   * @param works the works of {@link reduceScatter}, by bucket.
   */
  async finish(
    works: readonly Work<Float32Array<ArrayBuffer>>[],
    gradient: Float32Array,
    tally: Float32Array,
  ): Promise<void> {
    const { own } = this;
    let tallied = new Float32Array();
    for (const [bucket, work] of works.entries()) {
      const { start, end } = own[bucket]!;
      const sums = await work;
      gradient.set(sums.subarray(0, end - start), start);
      tallied = sums.subarray(end - start);
    }
    if (this.#tally === 0) return;
    const last = this.#layout.buckets.length - 1;
    const elements = this.#elements(last);
    const sizes = sizesOf(this.#displacements(last).map((at) => Math.max(0, at - elements)));
    let at = 0;
    for (const part of await this.#group.allGather(tallied, { sizes })) {
      tally.set(part, at);
      at += part.length;
    }
  }

  /**
   * Sends this rank's shard to all ranks. Every rank must call it.
   *
   * @param shard the values of this rank's shard, without gaps.
   * @returns for each bucket, the values of all ranks, for {@link place}.
   */
  async allGather(shard: Float32Array<ArrayBuffer>): Promise<Float32Array[][]> {
    let at = 0;
    const works = this.own.map(({ start, end }, bucket) => {
      const part = shard.subarray(at, at + end - start);
      at += end - start;
      return this.#group.allGather(part, { sizes: sizesOf(this.#starts(bucket, this.#group.worldSize)) });
    });
    const gathered = [];
    for (const work of works) gathered.push(await work);
    return gathered;
  }

  /** Writes the result of {@link allGather} to `values`. */
  place(gathered: readonly (readonly Float32Array[])[], values: Float32Array): void {
    for (const [bucket, parts] of gathered.entries()) {
      let { start } = this.#layout.buckets[bucket]!;
      for (const part of parts) {
        values.set(part, start);
        start += part.length;
      }
    }
  }

  /**
   * Gathers flat arrays on one rank from the shards of all ranks. The shards have no gaps. Every
   * rank must call it.
   *
   * @param to the rank of the group that receives the arrays; on other ranks the result is `null`.
   */
  async gather(shards: readonly Float32Array<ArrayBuffer>[], to: number): Promise<Float32Array<ArrayBuffer>[] | null> {
    const { worldSize, ranks, rank } = this.#group;
    const ranges = ranks.map((_, owner) => this.rangesOf({ worldSize, rank: owner }));
    const whole = [];
    for (const shard of shards) {
      const parts = await this.#group.gather(shard, ranks[to]!, { sizes: ranges.map(totalRangeLength) });
      if (!parts) continue;
      const values = new Float32Array(this.#layout.size);
      for (const [owner, part] of parts.entries()) unpackRanges(part, values, ranges[owner]!);
      whole.push(values);
    }
    return rank === to ? whole : null;
  }

  #elements(bucket: number): number {
    const { start, end } = this.#layout.buckets[bucket]!;
    return end - start;
  }

  /** Returns where each rank's part of a bucket starts. The parts do not include the tally. */
  #starts(bucket: number, worldSize: number): number[] {
    return this.#displacements(bucket, worldSize).map((at) => Math.min(at, this.#elements(bucket)));
  }

  /**
   * Returns where the part of each rank starts in the ring all-reduce of a bucket. The parts of the
   * last bucket include the tally.
   */
  #displacements(bucket: number, worldSize = this.#group.worldSize): readonly number[] {
    const isLast = bucket === this.#layout.buckets.length - 1;
    return evenDisplacements(this.#elements(bucket) + (isLast ? this.#tally : 0), worldSize);
  }
}

function sizesOf(displacements: readonly number[]): number[] {
  return displacements.slice(1).map((at, i) => at - displacements[i]!);
}
