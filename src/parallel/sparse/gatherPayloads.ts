/** Gathers payloads of different lengths. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';

/** A rank's contribution to an exchange. */
export interface WeightedPayload {
  /** The rank's weight in a mean. */
  weight: number;
  payload: Uint8Array;
}

/**
 * Resolves on every rank with the payloads of all ranks, in rank order. Every rank must call it.
 * `allGatherObject` does the same for all kinds of values, but encodes bytes as text, which is a
 * third longer.
 */
export async function gatherPayloads(
  group: ProcessGroup,
  { weight, payload }: WeightedPayload,
): Promise<WeightedPayload[]> {
  const heads = await group.allGather(Float64Array.of(weight, payload.length));
  const payloads = await group.allGather(payload, { sizes: heads.map(([, length]) => length!) });
  return payloads.map((sent, rank) => ({ weight: heads[rank]![0]!, payload: sent }));
}
