/** Gives the tensors of a replay places in one block of memory, whose parts are reused. */
import { tensorByteLength } from './backend.ts';
import type { RecordedWasmTensor, WasmEvent } from './recording.ts';

/** Offsets of tensors, by their numbers, from the start of a block of memory. */
export interface TensorBlockLayout {
  offsets: ReadonlyMap<number, number>;
  bytes: number;
}

/** XNNPACK reads up to 16 bytes behind the end of a tensor. */
const SPARE_BYTES = 16;
const ALIGNMENT = 16;

/**
 * Gives each tensor a place that no other tensor uses while the first one exists.
 *
 * @param before tensors that exist before the pass.
 */
export function tensorBlockLayoutOf(
  events: readonly WasmEvent[],
  before: readonly RecordedWasmTensor[],
): TensorBlockLayout {
  const offsets = new Map<number, number>();
  /** For each tensor: the memory that it uses. */
  const memories = new Map<number, { offset: number; length: number }>();
  /** Free parts of the block before its end, by offset. */
  let gaps: { offset: number; length: number }[] = [];
  let bytes = 0;
  const add = (id: number, size: number): void => {
    const length = Math.ceil((size + SPARE_BYTES) / ALIGNMENT) * ALIGNMENT;
    const gap = gaps.find((part) => part.length >= length);
    const offset = gap?.offset ?? bytes;
    if (gap === undefined) bytes += length;
    else {
      gap.offset += length;
      gap.length -= length;
    }
    offsets.set(id, offset);
    memories.set(id, { offset, length });
  };
  for (const one of before) add(one.id, tensorByteLength(one));
  for (const event of events) {
    if (event.kind === 'create') add(event.id, event.bytes);
    else if (event.kind === 'free') {
      const memory = memories.get(event.id);
      if (memory !== undefined) gaps = joined([...gaps, memory]);
    }
  }
  return { offsets, bytes };
}

/** Joins neighbouring parts. */
function joined(parts: readonly { offset: number; length: number }[]): { offset: number; length: number }[] {
  const result: { offset: number; length: number }[] = [];
  for (const { offset, length } of parts.toSorted((a, b) => a.offset - b.offset)) {
    const last = result.at(-1);
    if (last && last.offset + last.length === offset) last.length += length;
    else if (length > 0) result.push({ offset, length });
  }
  return result;
}
