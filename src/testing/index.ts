/**
 * A world of ranks in one process, for tests of this project and of its users.
 *
 * @module testing
 */
import { Mesh } from '../collectives/mesh.ts';
import type { ProcessGroupOptions } from '../collectives/options.ts';
import { ProcessGroup } from '../collectives/processGroup.ts';
import { rightNeighbourOf } from '../collectives/plans/ringPlan.ts';
import type { Link } from '../transport/link.ts';
import { createMemoryLinkPair } from '../transport/memoryLink.ts';
import { asError } from '../util/errors.ts';
import { createRng } from '../util/rng.ts';

export type RunWorldOptions = Pick<ProcessGroupOptions, 'timeoutMs' | 'segmentElements' | 'clock'>;

export interface TestWorld {
  meshes: Mesh[];
  /** Links of every rank, by the rank at the other end. */
  links: ReadonlyMap<number, Link>[];
  /** Closes all links. */
  close: () => void;
}

/**
 * Creates the meshes of `n` ranks. The links of the ring exist from the start. Other links are
 * opened when they are needed.
 */
export function createMeshes(
  n: number,
  createPair: () => [Link, Link] = createMemoryLinkPair,
  generation = 1,
): TestWorld {
  const links = Array.from({ length: n }, () => new Map<number, Link>());
  const join = (a: number, b: number): void => {
    if (a === b || links[a]!.has(b)) return;
    const [mine, theirs] = createPair();
    links[a]!.set(b, mine);
    links[b]!.set(a, theirs);
  };
  for (let rank = 0; rank < n; rank++) join(rank, rightNeighbourOf(rank, n));
  const rng = createRng(generation);
  const meshes: Mesh[] = links.map(
    (own, rank) =>
      new Mesh({
        rank,
        worldSize: n,
        generation,
        links: own,
        newMessageId: () => rng.below(2 ** 32),
        connect: (peer) => {
          join(rank, peer);
          meshes[peer]!.accept(rank, links[peer]!.get(rank)!);
          return Promise.resolve(own.get(peer)!);
        },
      }),
  );
  const close = (): void => links.forEach((own) => own.forEach((link) => link.close()));
  return { meshes, links, close };
}

/**
 * Runs `n` ranks in one process over memory links. Calls `main` once per rank with its process
 * group, and resolves with the results in rank order.
 *
 * @throws (rejects) the first error that a rank throws. This error also aborts the collectives of
 * the other ranks.
 */
export async function runWorld<T>(
  n: number,
  main: (group: ProcessGroup) => Promise<T>,
  options: RunWorldOptions = {},
): Promise<T[]> {
  return runRanks(createMeshes(n), main, options);
}

/** Like {@link runWorld}, but on existing meshes. Closes the meshes at the end. */
export async function runRanks<T>(
  { meshes, close }: Pick<TestWorld, 'meshes' | 'close'>,
  main: (group: ProcessGroup) => Promise<T>,
  options: RunWorldOptions = {},
): Promise<T[]> {
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
    close();
  }
}
