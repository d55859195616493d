/** Runs repeated all-reduces of one tensor in a rank's worker, with each codec in turn. */
import type { CodecName } from '../../src/collectives/codecs.ts';
import { hashState } from '../../src/util/hash.ts';
import { createRng, mixSeed } from '../../src/util/rng.ts';
import type { WorkerRank } from '../world/rank.ts';

interface EncodedArgs {
  bytes: number;
  /**
   * Number of measured rounds. Each round runs all codecs, so that other load affects them equally.
   * A round before them is not measured, because links and compilers warm up.
   */
  rounds: number;
  codecs: readonly CodecName[];
}

export interface EncodedResult {
  codec: CodecName;
  /** Milliseconds of the all-reduce in each round, measured after a barrier. */
  ms: number[];
  /** Bytes that this rank sends in one all-reduce, framing included. */
  bytesSent: number;
  /** Digest of the final sum, which must be equal on all ranks. */
  hash: string;
  /**
   * Error of the final sum: its root mean square distance from the sum with fp32, relative to that
   * sum. fp32 is the first codec.
   */
  error: number;
}

export async function encodedAllReduce({ group }: WorkerRank, args: EncodedArgs): Promise<EncodedResult[]> {
  const { bytes, rounds, codecs } = args;
  const input = gradientLike(group.rank, bytes / Float32Array.BYTES_PER_ELEMENT);
  const results = codecs.map((codec): EncodedResult => ({ codec, ms: [], bytesSent: 0, hash: '', error: 0 }));
  for (let round = 0; round <= rounds; round++) {
    let exact: Float32Array | null = null;
    for (const result of results) {
      const output = input.slice();
      await group.barrier();
      const startedAt = performance.now();
      const work = group.allReduce(output, { codec: result.codec });
      await work;
      if (round > 0) result.ms.push(performance.now() - startedAt);
      exact ??= output;
      Object.assign(result, { bytesSent: work.bytesSent, hash: hashState([output]), error: distance(output, exact) });
    }
  }
  return results;
}

/**
 * Returns values like those of a gradient: many small ones and few large ones, different on every
 * rank.
 */
function gradientLike(rank: number, length: number): Float32Array {
  const rng = createRng(mixSeed(rank, length));
  return Float32Array.from({ length }, () => (2 * rng.next() - 1) ** 3);
}

function distance(values: Float32Array, exact: Float32Array): number {
  let [off, all] = [0, 0];
  exact.forEach((value, i) => {
    off += (values[i]! - value) ** 2;
    all += value ** 2;
  });
  return Math.sqrt(off / all);
}
