/**
 * `DeviceMesh`: the ranks of a world as a grid with named dimensions, as
 * torch.distributed.device_mesh (https://docs.pytorch.org/docs/stable/distributed.html#devicemesh).
 * Ranks that are equal in all coordinates except one form a group, for example the stages of a
 * pipeline or the replicas of a stage.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { UsageError } from '../../util/errors.ts';

/**
 * The size of each dimension, by name: `{ data: 2, pipeline: 4 }`. The coordinate of the first
 * dimension changes slowest.
 */
export type MeshShape = Readonly<Record<string, number>>;

export class DeviceMesh {
  /** The world, whose ranks form the mesh. */
  readonly world: ProcessGroup;
  readonly shape: MeshShape;
  readonly #groups: ReadonlyMap<string, ProcessGroup>;

  constructor(world: ProcessGroup, shape: MeshShape, groups: ReadonlyMap<string, ProcessGroup>) {
    this.world = world;
    this.shape = shape;
    this.#groups = groups;
  }

  get dimNames(): string[] {
    return Object.keys(this.shape);
  }

  /**
   * Number of ranks of a dimension, or of the whole mesh.
   *
   * @throws UsageError if no dimension has this name.
   */
  size(name?: string): number {
    return name === undefined ? this.world.worldSize : this.getGroup(name).worldSize;
  }

  /**
   * Returns this rank's group in a dimension: the ranks whose coordinates in all other dimensions
   * are the same, in the order of their coordinates in this dimension.
   *
   * @throws UsageError if no dimension has this name.
   */
  getGroup(name: string): ProcessGroup {
    const group = this.#groups.get(name);
    if (group) return group;
    throw new UsageError(`The mesh has no dimension "${name}". Its dimensions are ${this.dimNames.join(', ')}.`);
  }

  /**
   * Returns this rank's coordinate in a dimension.
   *
   * @throws UsageError if no dimension has this name.
   */
  getLocalRank(name: string): number {
    return this.getGroup(name).rank;
  }

  /** Returns this rank's coordinates, in the order of the dimensions. */
  getCoordinate(): number[] {
    return this.dimNames.map((name) => this.getLocalRank(name));
  }
}

/**
 * Arranges the ranks of the world as a mesh. Neighbours in the last dimension have consecutive
 * ranks, so they are neighbours on the ring of the world. Every rank must call it with the same
 * shape.
 *
 * @throws (rejects) UsageError if the shape does not have as many places as the world has ranks.
 *
 * @example
 * ```ts
 * const mesh = await initDeviceMesh(group, { data: 2, pipeline: 1 });
 * await mesh.getGroup('data').allReduce(Float32Array.of(group.rank));
 * ```
 */
export async function initDeviceMesh(world: ProcessGroup, shape: MeshShape): Promise<DeviceMesh> {
  checkShape(world, shape);
  const groups = new Map<string, ProcessGroup>();
  for (const name of Object.keys(shape)) {
    for (const ranks of groupsAlongDimension(shape, name)) {
      const group = await world.newGroup(ranks.map((rank) => world.ranks[rank]!));
      if (group.rank >= 0) groups.set(name, group);
    }
  }
  return new DeviceMesh(world, shape, groups);
}

/** Returns the ranks of every group of a dimension. */
export function groupsAlongDimension(shape: MeshShape, name: string): number[][] {
  const names = Object.keys(shape);
  const at = names.indexOf(name);
  const size = shape[name]!;
  const stride = names.slice(at + 1).reduce((product, other) => product * shape[other]!, 1);
  const total = names.reduce((product, other) => product * shape[other]!, 1);
  const firsts = Array.from({ length: total }, (_, rank) => rank).filter(
    (rank) => Math.floor(rank / stride) % size === 0,
  );
  return firsts.map((first) => Array.from({ length: size }, (_, i) => first + i * stride));
}

function checkShape({ worldSize, rank, ranks }: ProcessGroup, shape: MeshShape): void {
  const sizes = Object.values(shape);
  const product = sizes.reduce((total, size) => total * size, 1);
  const isValid = sizes.length > 0 && sizes.every((size) => Number.isSafeInteger(size) && size >= 1);
  if (isValid && product === worldSize) return;
  const text = Object.entries(shape)
    .map(([name, size]) => `${name} ${size}`)
    .join(' x ');
  throw new UsageError(
    `The mesh ${text === '' ? 'without dimensions' : text} has ${isValid ? product : 'an invalid number of'} places, but the world has ` +
      `${worldSize} ranks. Pass whole numbers whose product is ${worldSize}.`,
    { rank: ranks[rank]!, worldSize },
  );
}
