/**
 * SparseLoCo's exchange: each rank sends the largest entries of what it has learned, and adds the
 * rest to later exchanges.
 *
 * Each rank sends the largest entries of each chunk of its outer gradient (`sparsePayload.ts`) and
 * subtracts exactly what it has sent. All ranks receive all payloads and add them up in rank order,
 * so the mean has the same bits everywhere. With many ranks, owners of ranges add them up
 * (`ownerRanges.ts`). A payload whose norm is above the median norm is scaled down to the median,
 * so that one rank cannot outweigh the others; the rank sends the rest later. "Communication
 * Efficient LLM Pre-training with SparseLoCo" (2025, https://arxiv.org/abs/2508.15706), algorithm
 * 1.
 *
 * Unlike in the paper, a rank does not return to the shared parameters: it continues from the sum
 * of these and of what it has not sent. So the outer gradient contains the unsent part, like the
 * paper's accumulator. Gradients are computed with parameters that contain the unsent part, too.
 * That is CHOCO-SGD (Koloskova et al., "Decentralized Stochastic Optimization and Gossip Algorithms
 * with Compressed Communication", ICML 2019, https://arxiv.org/abs/1902.00340) with links between
 * all ranks. docs/STRATEGIES.md compares the results.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { OuterStepMean } from './outerMean.ts';
import { gatherPayloads } from '../sparse/gatherPayloads.ts';
import { medianNormClippingFactors } from '../sparse/normClipping.ts';
import { meanOfLargestEntries, sparseSentShare } from '../sparse/ownerRanges.ts';
import { decodeLargestEntries, encodeLargestEntries, SPARSE_CHUNK_ENTRIES } from '../sparse/sparsePayload.ts';
import { addScaled, l2NormOf } from '../sparse/vectors.ts';

export class SparseOuterMean implements OuterStepMean {
  readonly unsent: Float32Array;
  readonly #entries: number;

  constructor(size: number, entries = SPARSE_CHUNK_ENTRIES) {
    this.unsent = new Float32Array(size);
    this.#entries = entries;
  }

  async average(group: ProcessGroup, values: Float32Array, start: number, weight: number): Promise<void> {
    const unsent = this.unsent.subarray(start, start + values.length);
    // One value that is not finite must not make other values of its chunk invalid on all ranks, so
    // it becomes zero. For this parameter, the rank continues with the shared value.
    for (let i = 0; i < values.length; i++) unsent[i] = Number.isFinite(values[i]) ? values[i]! : 0;
    const { hasOwners } = sparseSentShare(group.worldSize);
    const exchange = hasOwners ? meanOfLargestEntries : meanOfPayloads;
    values.set(await exchange(group, unsent, weight, this.#entries));
  }

  /** Does nothing, because a rank's own parameters contain what the rank has not sent. */
  commit(): void {}

  reset(): void {}
}

/**
 * Computes the mean as {@link meanOfLargestEntries} does, but with an all-gather of all payloads.
 */
async function meanOfPayloads(
  group: ProcessGroup,
  values: Float32Array,
  weight: number,
  entries: number,
): Promise<Float32Array> {
  const payload = weight > 0 ? encodeLargestEntries(values, entries) : new Uint8Array();
  const ranks = (await gatherPayloads(group, { weight, payload })).map((sent, rank) => {
    const from = group.ranks[rank]!;
    const part =
      sent.weight > 0 ? decodeLargestEntries(sent.payload, values.length, entries, from) : new Float32Array();
    return { weight: sent.weight, part, norm: l2NormOf([part]) };
  });
  const kept = medianNormClippingFactors(ranks);
  const mean = new Float32Array(values.length);
  for (const [rank, { weight: share, part }] of ranks.entries()) addScaled(mean, part, share * kept[rank]!);
  addScaled(values, ranks[group.rank]!.part, 1 - kept[group.rank]!);
  return mean;
}
