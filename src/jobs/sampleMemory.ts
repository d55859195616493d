/** The memory that a tab may use to keep samples. */

const MOST_BYTES = 256 * 1024 * 1024;
/**
 * Share of the machine's memory: a quarter of a tab's memory, which is an eighth of the machine's
 * (src/app/browser/tabMemoryBudget.ts).
 */
const SHARE_OF_DEVICE = 1 / 32;

/**
 * Returns the maximum number of bytes of samples that a tab keeps in memory.
 *
 * @param deviceGigabytes `navigator.deviceMemory`: the machine's memory in GiB, rounded by the
 *   browser. If it is unknown, the machine is assumed to have enough memory.
 */
export function maxKeptSampleBytes(deviceGigabytes = deviceMemory() ?? Infinity): number {
  return Math.min(MOST_BYTES, deviceGigabytes * 1024 ** 3 * SHARE_OF_DEVICE);
}

function deviceMemory(): number | undefined {
  return (globalThis.navigator as { deviceMemory?: number } | undefined)?.deviceMemory;
}
