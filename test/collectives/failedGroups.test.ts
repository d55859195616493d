/** Tests of groups that fail because a link or a rank fails. */
import { afterEach, describe, expect, test, vi } from 'vitest';
import { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { createMeshes, runWorld } from '../../src/testing/index.ts';
import { createDeferred } from '../../src/util/deferred.ts';
import { PeerGoneError, type PeergradError } from '../../src/util/errors.ts';
import { errorOf } from '../errorOf.ts';
import { pause, pairWithoutTime, transfer } from './faultyRanks.ts';

afterEach(() => vi.restoreAllMocks());

describe('lost links', () => {
  test('are named in the errors of all ranks, including errors that come from another rank', async () => {
    const { meshes, links } = createMeshes(4);
    const groups = meshes.map((mesh) => new ProcessGroup(mesh));
    const works = groups.map((group) => errorOf(group.allReduce(new Float32Array(10), { timeoutMs: 2000 })));
    links[0]!.get(1)!.close();
    for (const { context } of await Promise.all(works)) {
      expect(new Set([context.rank, ...context.missing!])).toEqual(new Set([0, 1]));
    }
  });

  test('are named in the errors of a subgroup that is aborted with the error of a lost link', async () => {
    const errors = await runWorld(3, async (world) => {
      const pair = await world.newGroup([1, 2]);
      const lost = new PeerGoneError('Rank 0 lost its link to rank 1.', { rank: 0, missing: [1] });
      if (world.rank === 2) pair.abort(lost);
      return world.rank === 1 ? errorOf(pair.barrier({ timeoutMs: 2000 })) : null;
    });
    expect(errors[1]!.context).toMatchObject({ rank: 0, missing: [1] });
  });
});

describe('a group that has failed', () => {
  test('sends no further segments of a message, and records the message as failed', async () => {
    const { meshes, links } = createMeshes(2);
    const [sender, receiver] = meshes.map((mesh) => new ProcessGroup(mesh));
    const link = links[0]!.get(1)!;
    const send = link.send.bind(link);
    const hasRoom = createDeferred();
    const sends = vi.spyOn(link, 'send').mockImplementation(async (frame) => {
      await send(frame);
      await hasRoom.promise;
    });
    const work = sender!.isend(new Float32Array(100_000), 1);
    void receiver!.irecv(new Float32Array(100_000), 0);
    await pause(0);
    sender!.abort(new Error('over'));
    const before = sends.mock.calls.length;
    hasRoom.resolve();
    await pause(0);
    expect(sends).toHaveBeenCalledTimes(before);
    expect((await errorOf(work)).message).toBe('over');
    const [record] = sender!.flightRecording.records;
    expect(record).toMatchObject({ state: 'failed', bytesSent: work.bytesSent });
    expect(record!.bytesSent).toBeLessThan(70_000);
  });

  test('rejects a message that the link has not sent yet, but not a completed one', async () => {
    const { meshes, links } = createMeshes(2);
    const [sender, receiver] = meshes.map((mesh) => new ProcessGroup(mesh));
    const link = links[0]!.get(1)!;
    const hasRoom = createDeferred();
    const work = sender!.isend(Float32Array.of(1), 1);
    const send = link.send.bind(link);
    vi.spyOn(link, 'send').mockImplementation((frame) => send(frame).then(() => hasRoom.promise));
    const last = sender!.isend(Float32Array.of(2), 1, { tag: 1 });
    await Promise.all([
      work,
      receiver!.irecv(new Float32Array(1), 0),
      receiver!.irecv(new Float32Array(1), 0, { tag: 1 }),
    ]);
    await pause(0);
    sender!.abort(new Error('over'));
    hasRoom.resolve();
    await pause(0);
    expect((await errorOf(last)).message).toBe('over');
    expect(sender!.flightRecording.records.map(({ state }) => state)).toEqual(['completed', 'failed']);
  });
});

describe('a group', () => {
  test('fails together with its op on all ranks if one rank cannot allocate the result', async () => {
    const groups = pairWithoutTime();
    const works = groups.map((group) => group.allGather(new Float32Array(1000)));
    vi.spyOn(Float32Array.prototype, 'slice').mockImplementationOnce(() => {
      throw new RangeError('Array buffer allocation failed');
    });
    const outcomes = await Promise.allSettled(works);
    const at = outcomes.findIndex(({ status }) => status === 'rejected');
    const error = groups[at]!.failure as PeergradError;
    expect(error.message).toMatch(
      `Rank ${at} cannot complete collective #0 allGather(2000 float32): Array buffer allocation failed.`,
    );
    expect(error.cause).toBeInstanceOf(RangeError);
    expect(error.context).toMatchObject({ rank: at, seq: 0 });
    expect(groups[at]!.flightRecording.records[0]!.state).toBe('failed');
    await pause(0);
    expect(groups[1 - at]!.failure).toBeInstanceOf(PeerGoneError);
    expect(groups[1 - at]!.failure!.message).toBe(error.message);
  });

  test.each([
    [
      'a message that is not sent yet',
      async ([one, other]: [ProcessGroup, ProcessGroup]) => {
        const tensor = new Float32Array(100_000);
        const work = one.isend(tensor, 1);
        await pause(0);
        transfer(tensor);
        return [work, other.irecv(new Float32Array(100_000), 0)];
      },
      'Rank 0 cannot complete send(100000 float32 to rank 1, tag 0): ',
    ],
    [
      'a partly sent message',
      async ([one, other]: [ProcessGroup, ProcessGroup]) => {
        const tensor = new Float32Array(100_000);
        const work = one.isend(tensor, 1);
        // The tensor is transferred between the first and the second segment.
        transfer(tensor);
        return [work, other.irecv(new Float32Array(100_000), 0)];
      },
      'Rank 0 cannot complete send(100000 float32 to rank 1, tag 0): ',
    ],
    [
      'a message that is not received yet',
      async ([one, other]: [ProcessGroup, ProcessGroup]) => {
        const tensor = new Float32Array(100_000);
        const work = other.irecv(tensor, 0);
        transfer(tensor);
        return [work, one.isend(new Float32Array(100_000), 1)];
      },
      'Rank 1 cannot complete recv(100000 float32 from rank 0, tag 0): ',
    ],
    [
      'a collective in flight',
      async ([one, other]: [ProcessGroup, ProcessGroup]) => {
        const tensor = new Float32Array(100_000);
        const work = one.allReduce(tensor);
        await pause(0);
        transfer(tensor);
        return [work, other.allReduce(new Float32Array(100_000))];
      },
      'Rank 0 cannot complete collective #0 allReduce(100000 float32, SUM): ',
    ],
  ])('fails on all ranks if the program detaches the tensor of %s', async (_what, main, message) => {
    const [first, second] = await main(pairWithoutTime());
    const error = await errorOf(first!);
    expect(error.message).toContain(message);
    expect(error.message).toContain('detached');
    expect((await errorOf(second!)).message).toBe(error.message);
  });
});
