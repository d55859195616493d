/** For tests, the project's and its users': a world of ranks in one process. */
import { ProcessGroup, type ProcessGroupOptions } from '../collectives/processGroup.ts';
import { createMemoryLinkPair } from '../transport/memoryLink.ts';
import type { Link } from '../transport/link.ts';
import { asError } from '../util/errors.ts';

export type RunWorldOptions = Pick<ProcessGroupOptions, 'timeoutMs' | 'segmentElements' | 'clock'>;

/**
 * Runs `n` ranks in one process over memory links: `main` is called once per rank with its process group, and the
 * results come back in rank order.
 *
 * @throws what the first rank to throw has thrown; the others' collectives are then aborted.
 */
export async function runWorld<T>(
  n: number,
  main: (group: ProcessGroup) => Promise<T>,
  options: RunWorldOptions = {},
): Promise<T[]> {
  const left: (Link | null)[] = Array.from({ length: n }, () => null);
  const right: (Link | null)[] = Array.from({ length: n }, () => null);
  if (n === 2) {
    // Neighbours on both sides: one link serves both directions.
    const [a, b] = createMemoryLinkPair();
    left[0] = right[0] = a;
    left[1] = right[1] = b;
  } else if (n > 2) {
    for (let rank = 0; rank < n; rank++) {
      const [mine, theirs] = createMemoryLinkPair();
      right[rank] = mine;
      left[(rank + 1) % n] = theirs;
    }
  }
  const groups = left.map(
    (link, rank) =>
      new ProcessGroup({ rank, worldSize: n, epoch: 1, left: link, right: right[rank] ?? null, ...options }),
  );
  try {
    return await Promise.all(
      groups.map(async (group) => {
        try {
          return await main(group);
        } catch (error) {
          group.abort(asError(error));
          throw error;
        }
      }),
    );
  } finally {
    for (const group of groups) group.destroy();
    for (const link of right) link?.close();
  }
}
