/** Sends the values of a tensor from one rank to another, in parts. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Work } from '../../collectives/work.ts';
import { PIPELINE_TIMEOUT_MS } from '../../parallel/pipeline/pipelineStage.ts';

/** Elements of a part: 1 MiB. */
const PART_ELEMENTS = 256 * 1024;
/** Parts that are on their way at a time. */
const AHEAD = 2;
/** Bytes per millisecond of the slowest connection over which a model is sent in time. */
const SLOWEST = 100;

/** Returns the deadline of each message while tensors of `elements` elements are sent. */
export function transferTimeoutMs(elements: number): number {
  return PIPELINE_TIMEOUT_MS + (elements * Float32Array.BYTES_PER_ELEMENT) / SLOWEST;
}

/** Divides values into parts, which are views. */
export function partsOf(values: Float32Array<ArrayBuffer>): Float32Array<ArrayBuffer>[] {
  const count = Math.ceil(values.length / PART_ELEMENTS);
  return Array.from({ length: count }, (_, i) => values.subarray(i * PART_ELEMENTS, (i + 1) * PART_ELEMENTS));
}

/** Sends `values` to rank `to`, which calls {@link receiveParts}. */
export async function sendValues(
  group: ProcessGroup,
  values: Float32Array<ArrayBuffer>,
  to: number,
  timeoutMs: number,
): Promise<void> {
  const sends: Work<void>[] = [];
  for (const part of partsOf(values)) {
    if (sends.length === AHEAD) await sends.shift();
    sends.push(group.isend(part, group.ranks[to]!, { timeoutMs }));
  }
  for (const send of sends) await send;
}

/** Yields the parts of `size` values that rank `from` sends. */
export async function* receiveParts(
  group: ProcessGroup,
  size: number,
  from: number,
  timeoutMs: number,
): AsyncGenerator<Float32Array<ArrayBuffer>, void> {
  const expected: { part: Float32Array<ArrayBuffer>; work: Work<number> }[] = [];
  let begun = 0;
  while (begun < size || expected.length > 0) {
    while (begun < size && expected.length < AHEAD) {
      const part = new Float32Array(Math.min(PART_ELEMENTS, size - begun));
      expected.push({ part, work: group.irecv(part, group.ranks[from], { timeoutMs }) });
      begun += part.length;
    }
    const { part, work } = expected.shift()!;
    await work;
    yield part;
  }
}
