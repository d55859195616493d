/** The memory that a tab can use, as far as a browser reports it, as a signal. */
import { requestAdapter } from '../../util/gpuAdapter.ts';
import { signal, type ReadonlySignal } from '@preact/signals';
import { TAB_BYTES } from '../../spec/pipeline.ts';

export interface TabMemory {
  /** Bytes that a tab should need at most. */
  bytes: number;
  /** Whether the bytes follow from the memory that the browser reports. */
  isReported: boolean;
  /** The largest buffer of the GPU; `null` if not known. */
  maxBufferBytes: number | null;
}

/**
 * The share of a machine's reported memory that one tab can use, if that is less than the usual
 * memory of a tab. Other programs and the GPU need a part, and a room often has several tabs on one
 * machine.
 */
const SHARE_OF_DEVICE = 1 / 8;

const memory = signal<TabMemory>(tabMemoryOf(undefined, null));
let isAsked = false;

/**
 * Returns the memory of a tab. No browser reports what a tab may use.
 *
 * @param deviceGigabytes `navigator.deviceMemory`: the machine's memory in GB, rounded by the
 *   browser.
 */
export function tabMemoryOf(deviceGigabytes: number | undefined, maxBufferBytes: number | null): TabMemory {
  const reported = (deviceGigabytes ?? Infinity) * 1e9 * SHARE_OF_DEVICE;
  return { bytes: Math.min(TAB_BYTES, reported), isReported: reported < TAB_BYTES, maxBufferBytes };
}

/** The memory of this tab. The other tabs are assumed to have the same. */
export function tabMemory(): ReadonlySignal<TabMemory> {
  if (!isAsked) void ask();
  isAsked = true;
  return memory;
}

async function ask(): Promise<void> {
  const { deviceMemory } = navigator as { deviceMemory?: number };
  memory.value = tabMemoryOf(deviceMemory, null);
  try {
    const adapter = navigator.gpu === undefined ? null : await requestAdapter(navigator.gpu);
    const limits = adapter?.limits;
    if (!limits) return;
    const largest = Math.min(limits.maxBufferSize, limits.maxStorageBufferBindingSize);
    memory.value = tabMemoryOf(deviceMemory, largest);
  } catch {
    // A broken driver reports nothing, so the limit stays unknown.
  }
}
