/**
 * SparseLoCo's exchange: each rank sends the largest entries of what it has learned, and adds the
 * rest to later exchanges.
 *
 * Each rank has an accumulator: e := decay e + outer gradient. It sends the largest entries of each
 * chunk of e (`sparsePayload.ts`) and subtracts exactly what it has sent. The decay of the
 * accumulator acts as outer momentum. All ranks receive all payloads and add them up in rank order,
 * so the mean has the same bits everywhere. With many ranks, owners of ranges add them up
 * (`ownerRanges.ts`). A payload whose norm is above the median norm is scaled
 * down to it, so that one rank cannot outweigh the others.
 *
 * "Communication Efficient LLM Pre-training with SparseLoCo" (2025,
 * https://arxiv.org/abs/2508.15706), algorithm 1.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Range } from '../../util/range.ts';
import type { OuterMean } from '../localSteps/outerMean.ts';
import { gatherPayloads } from './gatherPayloads.ts';
import { normOf, scalesOf } from './normClipping.ts';
import { meanByOwners, sentShare } from './ownerRanges.ts';
import { decodeLargest, encodeLargest } from './sparsePayload.ts';

/** Entries of a chunk that are sent; measured, see docs/STRATEGIES.md. */
const ENTRIES = 128;
/**
 * Bytes of a payload, as a share of the bytes of all parameters; measured with {@link ENTRIES}
 * entries.
 */
export const PAYLOAD_SHARE = 0.0091;
/** The paper has 0.95 for far longer runs. */
const DECAY = 0.9;

export class SparseMean implements OuterMean {
  readonly #entries: number;
  readonly #accumulator: Float32Array;
  /** The accumulator after the current exchange. */
  readonly #next: Float32Array;

  constructor(size: number, entries = ENTRIES) {
    this.#entries = entries;
    this.#accumulator = new Float32Array(size);
    this.#next = new Float32Array(size);
  }

  async average(group: ProcessGroup, values: Float32Array, start: number, weight: number): Promise<void> {
    const next = this.#next.subarray(start, start + values.length);
    for (let i = 0; i < values.length; i++) next[i] = DECAY * this.#accumulator[start + i]! + values[i]!;
    const { hasOwners } = sentShare(group.worldSize, PAYLOAD_SHARE);
    const exchange = hasOwners ? meanByOwners : meanOfPayloads;
    values.set(await exchange(group, next, weight, this.#entries));
    // What a rank without samples sends has no weight, so it sends nothing and loses nothing.
    if (weight === 0) next.set(this.#accumulator.subarray(start, start + values.length));
  }

  commit({ start, end }: Range): void {
    this.#accumulator.set(this.#next.subarray(start, end), start);
  }

  reset(): void {
    this.#accumulator.fill(0);
  }
}

/** Does the same as {@link meanByOwners} with an all-gather of all payloads. */
async function meanOfPayloads(
  group: ProcessGroup,
  values: Float32Array,
  weight: number,
  entries: number,
): Promise<Float32Array> {
  const payload = weight > 0 ? encodeLargest(values, entries) : new Uint8Array();
  const parts = (await gatherPayloads(group, { weight, payload }))
    .filter((part) => part.weight > 0)
    .map((part) => ({ weight: part.weight, values: decodeLargest(part.payload, values.length, entries) }));
  const scales = scalesOf(parts.map((part) => ({ weight: part.weight, norm: normOf([part.values]) })));
  const mean = new Float32Array(values.length);
  for (const [i, part] of parts.entries()) {
    for (let j = 0; j < mean.length; j++) mean[j]! += scales[i]! * part.values[j]!;
  }
  return mean;
}
