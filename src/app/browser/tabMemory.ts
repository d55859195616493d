/** The memory that a tab can use, as far as a browser reports it, as a signal. */
import { signal, type ReadonlySignal } from '@preact/signals';

export interface TabMemory {
  /** Bytes that a tab should need at most. */
  bytes: number;
  /** The machine's memory in GB, rounded by the browser; `null` if not reported. */
  deviceGigabytes: number | null;
  /** The largest buffer of the GPU; `null` if not known. */
  maxBufferBytes: number | null;
}

/**
 * Bytes that are assumed for a tab. No browser reports what a tab may use. Safari ends tabs of a
 * phone that use about 1.4 GB, and a laptop with 8 GB shares its memory between the GPU, the
 * system and other programs.
 */
const ASSUMED_BYTES = 1e9;
/**
 * The share of a machine's reported memory that one tab can use. Other programs need a part, and a
 * room often has several tabs on one machine. For the usual 8 GB, it is the assumed gigabyte.
 */
const SHARE_OF_DEVICE = 1 / 8;

const memory = signal<TabMemory>(tabMemoryOf(undefined, null));
let isAsked = false;

/** Returns the budget of a tab. @param deviceGigabytes `navigator.deviceMemory`. */
export function tabMemoryOf(deviceGigabytes: number | undefined, maxBufferBytes: number | null): TabMemory {
  const bytes = deviceGigabytes === undefined ? ASSUMED_BYTES : deviceGigabytes * 1e9 * SHARE_OF_DEVICE;
  return { bytes, deviceGigabytes: deviceGigabytes ?? null, maxBufferBytes };
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
    const adapter = await navigator.gpu?.requestAdapter();
    const limits = adapter?.limits;
    if (!limits) return;
    const largest = Math.min(limits.maxBufferSize, limits.maxStorageBufferBindingSize);
    memory.value = tabMemoryOf(deviceMemory, largest);
  } catch {
    // A broken driver reports nothing, so the limit stays unknown.
  }
}
