/** The memory that a tab can use, estimated from what the browser reports, as a signal. */
import { requestAdapter } from '../../util/gpuAdapter.ts';
import { signal, type ReadonlySignal } from '@preact/signals';
import { TAB_MEMORY_BYTES } from '../../spec/pipeline.ts';

export interface TabMemoryBudget {
  /** The largest number of bytes that a tab should use. */
  bytes: number;
  /** Whether `bytes` was computed from the memory that the browser reports. */
  isReported: boolean;
  /** The largest buffer of the GPU; `null` if not known. */
  maxBufferBytes: number | null;
}

/**
 * A tab is assumed to have this share of the machine's reported memory, but at most
 * `TAB_MEMORY_BYTES`. Other programs and the GPU need memory, too, and a room often has several
 * tabs on one machine.
 */
const SHARE_OF_DEVICE = 1 / 8;

const memory = signal<TabMemoryBudget>(tabMemoryBudgetOf(undefined, null));
let isAsked = false;

/**
 * Returns the memory of a tab. It is an assumption, because no browser reports how much a tab may
 * use.
 *
 * @param deviceGigabytes `navigator.deviceMemory`: the machine's memory in GB, rounded by the
 *   browser.
 */
export function tabMemoryBudgetOf(deviceGigabytes: number | undefined, maxBufferBytes: number | null): TabMemoryBudget {
  const reported = (deviceGigabytes ?? Infinity) * 1e9 * SHARE_OF_DEVICE;
  return { bytes: Math.min(TAB_MEMORY_BYTES, reported), isReported: reported < TAB_MEMORY_BYTES, maxBufferBytes };
}

/** Returns a signal with the memory of this tab. The other tabs are assumed to have as much. */
export function tabMemoryBudget(): ReadonlySignal<TabMemoryBudget> {
  if (!isAsked) void ask();
  isAsked = true;
  return memory;
}

async function ask(): Promise<void> {
  const { deviceMemory } = navigator as { deviceMemory?: number };
  memory.value = tabMemoryBudgetOf(deviceMemory, null);
  try {
    const adapter = navigator.gpu === undefined ? null : await requestAdapter(navigator.gpu);
    const limits = adapter?.limits;
    if (!limits) return;
    const largest = Math.min(limits.maxBufferSize, limits.maxStorageBufferBindingSize);
    memory.value = tabMemoryBudgetOf(deviceMemory, largest);
  } catch {
    // A broken driver reports nothing, so the limit stays unknown.
  }
}
