/** In a rank's worker: one tensor added up by every codec in turn, again and again. */
import type { CodecName } from '../../src/collectives/codecs.ts';
import { hashState } from '../../src/util/hash.ts';
import { createRng, mixSeed } from '../../src/util/rng.ts';
import type { WorkerRank } from '../world/rank.ts';

interface EncodedArgs {
  bytes: number;
  /**
   * Each has all codecs, so that all meet the same machine. The first is not measured: links and
   * compilers warm up.
   */
  rounds: number;
  codecs: readonly CodecName[];
}

export interface EncodedResult {
  codec: CodecName;
  /** Milliseconds by round, from when all ranks were ready. */
  ms: number[];
  /** Of one op, with framing. */
  bytesSent: number;
  /** Digest of the last sum: the same on all ranks. */
  hash: string;
  /**
   * How far the last sum is from that of fp32, the first codec's: root of the mean square, as a
   * share of the sum's own.
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

/** Many small values and few large ones, other ones on every rank. */
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
