/** Collects errors of commands that may fail, so that they do not count as errors of the device. */

const FILTERS = ['out-of-memory', 'validation'] as const;

/**
 * Runs `main`, which is synchronous.
 *
 * @returns its result, and the first error with which the device refused a command of `main`;
 *   `null` if it refused none.
 * @throws (rejects) errors of `main`.
 */
export async function runWithGpuErrorScopes<T>(
  device: GPUDevice,
  main: () => T,
): Promise<{ result: T; refused: GPUError | null }> {
  for (const filter of FILTERS) device.pushErrorScope(filter);
  let result: T;
  const errors: Promise<GPUError | null>[] = [];
  try {
    result = main();
  } finally {
    // The promise may reject if the device is lost. The next read from the device reports that.
    for (const _ of FILTERS) errors.push(device.popErrorScope().catch(() => null));
  }
  const refused = (await Promise.all(errors)).find((error) => error !== null) ?? null;
  return { result, refused };
}
