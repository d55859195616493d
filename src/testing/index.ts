/** For tests, the project's and its users': a world of ranks in one process. */
import { Mesh } from '../collectives/mesh.ts';
import { ProcessGroup, type ProcessGroupOptions } from '../collectives/processGroup.ts';
import type { Link } from '../transport/link.ts';
import { createMemoryLinkPair } from '../transport/memoryLink.ts';
import { asError } from '../util/errors.ts';

export type RunWorldOptions = Pick<ProcessGroupOptions, 'timeoutMs' | 'segmentElements' | 'clock'>;

/** The meshes of `n` ranks over memory links: a ring from the start, more on demand. Closing them closes all links. */
export function createMeshes(n: number, epoch = 1): { meshes: Mesh[]; links: Link[] } {
  const links: Link[] = [];
  const tables = Array.from({ length: n }, () => new Map<number, Link>());
  const join = (a: number, b: number): void => {
    if (a === b || tables[a]!.has(b)) return;
    const [mine, theirs] = createMemoryLinkPair();
    tables[a]!.set(b, mine);
    tables[b]!.set(a, theirs);
    links.push(mine, theirs);
  };
  for (let rank = 0; rank < n; rank++) join(rank, (rank + 1) % n);
  const meshes: Mesh[] = tables.map(
    (table, rank) =>
      new Mesh({
        ...{ rank, worldSize: n, epoch, links: table },
        connect: (peer) => {
          join(rank, peer);
          meshes[peer]!.accept(rank, tables[peer]!.get(rank)!);
          return Promise.resolve(table.get(peer)!);
        },
      }),
  );
  return { meshes, links };
}

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
  const { meshes, links } = createMeshes(n);
  const groups = meshes.map((mesh) => new ProcessGroup(mesh, options));
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
    for (const link of links) link.close();
  }
}
