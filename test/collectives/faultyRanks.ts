/** Helpers that break the links, tensors and groups of ranks. */
import { vi } from 'vitest';
import { Mesh } from '../../src/collectives/mesh.ts';
import type { ProcessGroupOptions } from '../../src/collectives/options.ts';
import { ProcessGroup } from '../../src/collectives/processGroup.ts';
import {
  AlgorithmCode,
  createFrame,
  DtypeCode,
  emptyFrameHeader,
  FrameKind,
  OpCode,
  readFrameHeader,
  type FrameHeader,
} from '../../src/protocol/frame.ts';
import { createMeshes } from '../../src/testing/index.ts';
import type { Link } from '../../src/transport/link.ts';
import { createMemoryLinkPair } from '../../src/transport/memoryLink.ts';
import { ManualClock } from '../manualClock.ts';

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Returns rank 0 of two ranks, and the other end of its link. */
export function rankZeroOfTwo(options: ProcessGroupOptions = {}) {
  const [mine, theirs] = createMemoryLinkPair();
  const group = new ProcessGroup(
    new Mesh({ rank: 0, worldSize: 2, generation: 1, links: new Map([[1, mine]]) }),
    options,
  );
  return { group, theirs };
}

/** Returns two ranks on a clock that does not move, so no deadline passes. */
export function pairWithoutTime(): [ProcessGroup, ProcessGroup] {
  const clock = new ManualClock();
  const [one, other] = createMeshes(2).meshes.map((mesh) => new ProcessGroup(mesh, { clock }));
  return [one!, other!];
}

/** Drops all frames that the link sends, except flood messages. */
export function loseAllButFloodMessages(link: Link): void {
  const send = link.send.bind(link);
  vi.spyOn(link, 'send').mockImplementation((frame) =>
    readFrameHeader(frame).kind === FrameKind.FLOOD ? send(frame) : Promise.resolve(),
  );
}

/** Transfers a tensor's buffer, like a program that passes the tensor to a worker too early. */
export function transfer(tensor: Float32Array): void {
  structuredClone(tensor, { transfer: [tensor.buffer] });
}

/**
 * Returns the numbers of the groups that are created from now on and have not ended on this rank.
 */
export function watchGroups(mesh: Mesh): Set<number> {
  const groups = new Set<number>();
  const register = mesh.register.bind(mesh);
  vi.spyOn(mesh, 'register').mockImplementation((...args) => {
    const group = register(...args);
    groups.add(group);
    return group;
  });
  const unregister = mesh.unregister.bind(mesh);
  vi.spyOn(mesh, 'unregister').mockImplementation((group) => {
    groups.delete(group);
    unregister(group);
  });
  return groups;
}

/** Sends `bytes` ahead to each of the groups. */
export async function sendAhead(
  link: Link,
  groups: readonly number[],
  bytes: number,
  of: Partial<FrameHeader> = { op: OpCode.ALL_REDUCE, algorithm: AlgorithmCode.RING },
): Promise<void> {
  const header = { ...emptyFrameHeader(FrameKind.DATA, 1), ...of, dtype: DtypeCode.FLOAT32, count: 15_000 };
  for (const group of groups) {
    for (let seq = 100; seq < 100 + bytes / 60_000; seq++) {
      await link.send(createFrame({ ...header, group, seq }, 60_000));
    }
  }
}
