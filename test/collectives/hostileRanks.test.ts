/**
 * Tests of ranks that violate the protocol: the limits that they meet, and the errors that they
 * cause.
 */
import { describe, expect, test } from 'vitest';
import { ProcessGroup } from '../../src/collectives/processGroup.ts';
import {
  AlgorithmCode,
  createFrame,
  DtypeCode,
  emptyFrameHeader,
  encodeJsonFrame,
  FrameKind,
  OpCode,
} from '../../src/protocol/frame.ts';
import { createMeshes, runWorld } from '../../src/testing/index.ts';
import { PeerGoneError, ProtocolError } from '../../src/util/errors.ts';
import { errorOf } from '../errorOf.ts';
import { rankZeroOfTwo, sendAhead } from './faultyRanks.ts';

describe('hostile ranks', () => {
  test.each([
    [
      'collectives that rank 0 has not called',
      { op: OpCode.ALL_REDUCE, algorithm: AlgorithmCode.RING },
      /of collectives that rank 0 has not/,
    ],
    [
      'messages without a receive on rank 0',
      { op: OpCode.SEND, algorithm: AlgorithmCode.DIRECT },
      /of messages without a receive on rank 0/,
    ],
  ])("cannot fill a rank's memory with %s", async (_what, of, message) => {
    const { group, theirs } = rankZeroOfTwo();
    const work = group.barrier();
    const header = { ...emptyFrameHeader(FrameKind.DATA, 1), ...of, dtype: DtypeCode.FLOAT32, count: 15_000 };
    for (let seq = 1; seq < 800 && group.failure === null; seq++) {
      await theirs.send(createFrame({ ...header, seq }, 60_000)).catch(() => {});
    }
    const error = await errorOf(work);
    expect(error).toBeInstanceOf(ProtocolError);
    expect(error.message).toMatch(message);
  });

  test('cannot fill a rank’s memory with frames for several groups, even below the limit of each group', async () => {
    const { meshes, links } = createMeshes(2);
    const worlds = meshes.map((mesh) => new ProcessGroup(mesh));
    for (let i = 0; i < 4; i++) await Promise.all(worlds.map((world) => world.newGroup([0, 1])));
    await sendAhead(links[1]!.get(0)!, [0, 1, 2, 3, 4], 18 * 2 ** 20);
    expect(worlds[0]!.failure).toBeInstanceOf(ProtocolError);
    expect(worlds[0]!.failure!.message).toMatch(
      /^Rank 1 sent more than 80 MiB of collectives that rank 0 has not called yet, in all groups together/,
    );
  });

  test('are limited without limiting honest ranks, which can send as far ahead in each of three groups as in a single group', async () => {
    const sums = await runWorld(2, async (world) => {
      const groups = [world, await world.newGroup([0, 1]), await world.newGroup([0, 1])];
      if (world.rank === 1) await new Promise((resolve) => setTimeout(resolve, 50));
      const works = groups.flatMap((group) =>
        Array.from({ length: 64 }, () => group.allReduce(new Float32Array(70_000).fill(1))),
      );
      const results = await Promise.all(works);
      return results.every((result) => result[69_999] === 2);
    });
    expect(sums).toEqual([true, true]);
  });

  test.each([
    ['collectives', { op: OpCode.ALL_REDUCE, algorithm: AlgorithmCode.RING }, 18],
    ['messages', { op: OpCode.SEND, algorithm: AlgorithmCode.DIRECT }, 9],
  ])('can send %s ahead to a new group after the group that they filled has ended', async (_what, of, mebibytes) => {
    const { meshes, links } = createMeshes(2);
    const worlds = meshes.map((mesh) => new ProcessGroup(mesh));
    for (let group = 1; group < 4; group++) {
      const pair = await Promise.all(worlds.map((world) => world.newGroup([0, 1])));
      await sendAhead(links[1]!.get(0)!, [group], mebibytes * 2 ** 20, of);
      pair[0]!.destroy();
    }
    expect(worlds[0]!.failure).toBeNull();
  });

  test('cannot abort groups that they do not belong to', async () => {
    await runWorld(3, async (world) => {
      const pair = await world.newGroup([0, 1]);
      if (world.rank === 2) pair.abort(new Error('from outside'));
      await world.barrier();
      const [sum] = await pair.allReduce(Float32Array.of(1));
      expect(sum).toBe(world.rank === 2 ? 1 : 2);
      expect(pair.failure).toBeNull();
    });
  });

  test.each([
    ['an invalid flood message', () => encodeJsonFrame(emptyFrameHeader(FrameKind.FLOOD, 1), { origin: 'x' })],
    [
      'an abort with an unknown error name',
      () =>
        encodeJsonFrame(emptyFrameHeader(FrameKind.FLOOD, 1), {
          origin: 1,
          id: 0,
          group: 0,
          body: { type: 'abort', name: 'constructor', message: 'over' },
        }),
    ],
  ])('make a group fail only with ProtocolError or PeerGoneError, if they send %s', async (_what, frame) => {
    const { group, theirs } = rankZeroOfTwo();
    const work = group.barrier();
    await theirs.send(frame());
    const error = await errorOf(work);
    expect([ProtocolError, PeerGoneError]).toContain(error.constructor);
    expect(error.message).toMatch(/Rank 1 sent a frame that cannot be read|over/);
  });
});
