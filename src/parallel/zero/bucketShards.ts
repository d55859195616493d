/**
 * Shards of the flat arrays. A rank's shard has the part of each bucket whose sums the rank
 * computes in the ring all-reduce of that bucket. So a reduce-scatter gives a shard the bits of an
 * all-reduce.
 */
import { evenDisplacements } from '../../collectives/plans/plans.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Work } from '../../collectives/work.ts';
import type { Range } from '../../util/range.ts';
import type { FlatLayout } from '../ddp/buckets.ts';

export class BucketShards {
  readonly #layout: FlatLayout;
  readonly #group: ProcessGroup;
  /** Number of elements that are all-reduced behind those of the last bucket. */
  readonly #tally: number;

  /** @param tally length of the tally, which is part of the last bucket's all-reduce. */
  constructor(layout: FlatLayout, group: ProcessGroup, tally: number) {
    this.#layout = layout;
    this.#group = group;
    this.#tally = tally;
  }

  /** This rank's range of each bucket. */
  get own(): readonly Range[] {
    const { rank } = this.#group;
    return this.#layout.buckets.map(({ start }, bucket) => {
      const starts = this.#starts(bucket);
      return { start: start + starts[rank]!, end: start + starts[rank + 1]! };
    });
  }

  /** Starts to sum a bucket, with the tally if it is the last one. See {@link finish}. */
  reduceScatter(bucket: number, values: Float32Array<ArrayBuffer>): Work<Float32Array<ArrayBuffer>> {
    return this.#group.reduceScatter(values, { sizes: sizesOf(this.#displacements(bucket)) });
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
    const last = this.#layout.buckets.length - 1;
    const elements = this.#elements(last);
    const sizes = sizesOf(this.#displacements(last).map((at) => Math.max(0, at - elements)));
    let at = 0;
    for (const part of await this.#group.allGather(tallied, { sizes })) {
      tally.set(part, at);
      at += part.length;
    }
  }

  /** Sends each rank's shard of `values` to all ranks. Every rank must call it. */
  async allGather(values: Float32Array): Promise<void> {
    const { own } = this;
    const works = own.map(({ start, end }, bucket) =>
      this.#group.allGather(values.subarray(start, end), { sizes: sizesOf(this.#starts(bucket)) }),
    );
    for (const [bucket, work] of works.entries()) {
      let at = this.#layout.buckets[bucket]!.start;
      for (const part of await work) {
        values.set(part, at);
        at += part.length;
      }
    }
  }

  #elements(bucket: number): number {
    const { start, end } = this.#layout.buckets[bucket]!;
    return end - start;
  }

  /** Starts of the ranks' parts of a bucket, without the tally. */
  #starts(bucket: number): number[] {
    return this.#displacements(bucket).map((at) => Math.min(at, this.#elements(bucket)));
  }

  /** Starts of the parts of a bucket's ring all-reduce. */
  #displacements(bucket: number): readonly number[] {
    const isLast = bucket === this.#layout.buckets.length - 1;
    return evenDisplacements(this.#elements(bucket) + (isLast ? this.#tally : 0), this.#group.worldSize);
  }
}

function sizesOf(displacements: readonly number[]): number[] {
  return displacements.slice(1).map((at, i) => at - displacements[i]!);
}
