/** Divides a batch as torch.chunk does. */

/**
 * Returns the sizes of the parts: each but the last has ceil(batch / chunks) samples. There may be
 * fewer parts than asked for: 4 samples in 3 chunks are 2 and 2, as in torch.
 */
export function chunkSizes(batch: number, chunks: number): number[] {
  const size = Math.ceil(batch / chunks);
  return Array.from({ length: Math.ceil(batch / size) }, (_, i) => Math.min(size, batch - i * size));
}
