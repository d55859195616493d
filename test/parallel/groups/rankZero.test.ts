import { describe, expect, test } from 'vitest';
import { rankZeroFirst, rankZeroOnly } from '../../../src/parallel/groups/rankZero.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { createDeferred } from '../../../src/util/deferred.ts';
import { AbortError, errorMessageOf, PeergradError, TimeoutError } from '../../../src/util/errors.ts';
import { ManualClock } from '../../manualClock.ts';

/** Result or error of a rank's call. */
async function outcomeOf(call: Promise<unknown>): Promise<unknown> {
  try {
    return await call;
  } catch (error) {
    return error;
  }
}

describe('rankZeroOnly', () => {
  test('calls the function only on rank 0, and no rank waits', async () => {
    const ran: number[] = [];
    const results = await runWorld(3, (group) =>
      rankZeroOnly(group, async () => {
        await Promise.resolve();
        ran.push(group.rank);
        return 'written';
      }),
    );
    expect(ran).toEqual([0]);
    expect(results).toEqual(['written', undefined, undefined]);
  });

  test('rejects only on rank 0, even if the function throws synchronously', async () => {
    const outcomes = await runWorld(2, (group) =>
      outcomeOf(
        rankZeroOnly(group, () => {
          throw new Error('no space left');
        }),
      ),
    );
    expect(outcomes.map((outcome) => outcome && errorMessageOf(outcome))).toEqual(['no space left', undefined]);
  });
});

describe('rankZeroFirst', () => {
  test.each([1, 2, 4])('ends on rank 0 of %i ranks before it begins on any other rank', async (n) => {
    const log: string[] = [];
    const results = await runWorld(n, (group) =>
      rankZeroFirst(group, async () => {
        log.push(`${group.rank} begins`);
        for (let i = 0; i < 20; i++) await Promise.resolve();
        log.push(`${group.rank} ends`);
        return group.rank * 10;
      }),
    );
    expect(log.slice(0, 2)).toEqual(['0 begins', '0 ends']);
    expect(log).toHaveLength(2 * n);
    expect(results).toEqual(Array.from({ length: n }, (_, rank) => rank * 10));
  });

  test.each(['the disk is full: 残り 0 バイト', '', 'long '.repeat(1000)])(
    'rejects on all ranks if the function fails on rank 0, and the group can still be used (message %#)',
    async (message) => {
      const ran: number[] = [];
      const failure = new RangeError(message);
      const outcomes = await runWorld(3, async (group) => {
        const outcome = await outcomeOf(
          rankZeroFirst(group, () => {
            ran.push(group.rank);
            throw failure;
          }),
        );
        expect(await group.allReduce(Float32Array.of(1))).toEqual(Float32Array.of(3));
        return outcome;
      });
      expect(ran).toEqual([0]);
      expect(outcomes[0]).toBe(failure);
      for (const outcome of outcomes.slice(1)) {
        expect(outcome).toBeInstanceOf(PeergradError);
        expect(errorMessageOf(outcome)).toContain(message.slice(0, 500));
      }
    },
  );

  test('treats the first rank of a subgroup as rank 0', async () => {
    const results = await runWorld(4, async (world) => {
      const group = await world.newGroup([3, 1]);
      if (!group.ranks.includes(world.rank)) return null;
      const outcome = await outcomeOf(
        rankZeroFirst(group, () => {
          if (group.rank === 0) throw new Error('the disk is full');
        }),
      );
      return `${group.rank} of ${world.rank}: ${errorMessageOf(outcome)}`;
    });
    expect(results.filter(Boolean)).toHaveLength(2);
    for (const result of results) if (result !== null) expect(result).toContain('the disk is full');
  });

  test('rejects only on the rank whose function fails, if this is not rank 0', async () => {
    const outcomes = await runWorld(3, (group) =>
      outcomeOf(rankZeroFirst(group, () => (group.rank === 1 ? Promise.reject(new Error('mine')) : 'fine'))),
    );
    expect(outcomes).toEqual(['fine', new Error('mine'), 'fine']);
  });

  test('waits for rank 0 until the given timeoutMs has passed', async () => {
    const clock = new ManualClock();
    const outcomes = await runWorld(
      2,
      async (group) => {
        const call = rankZeroFirst(group, () => new Promise(() => {}), { timeoutMs: 300_000 });
        if (group.rank === 0) return null;
        let isDone = false;
        const outcome = outcomeOf(call).finally(() => (isDone = true));
        clock.advance(299_999);
        for (let i = 0; i < 20; i++) await Promise.resolve();
        expect(isDone).toBe(false);
        clock.advance(1);
        return outcome;
      },
      { clock, timeoutMs: 10 },
    );
    expect(outcomes[1]).toBeInstanceOf(TimeoutError);
  });

  test('rejects on rank 0 with the error of the function, even if other ranks cannot be reached', async () => {
    const outcomes = await runWorld(2, async (group) => {
      if (group.rank === 1) return group.abort(new Error('rank 1 has left'));
      return outcomeOf(rankZeroFirst(group, () => Promise.reject(new Error('no network'))));
    });
    expect(outcomes[0]).toEqual(new Error('no network'));
  });
});

test('a signal of rankZeroFirst ends the call on every rank, even while the function of rank 0 runs', async () => {
  const release = createDeferred();
  const outcomes = await runWorld(2, async (group) => {
    const controller = new AbortController();
    const outcome = outcomeOf(rankZeroFirst(group, () => release.promise, { signal: controller.signal }));
    if (group.rank === 1) return outcome;
    controller.abort('The download takes too long.');
    await group.failed;
    release.resolve();
    return outcome;
  });
  for (const outcome of outcomes) {
    expect(outcome).toBeInstanceOf(AbortError);
    expect(errorMessageOf(outcome)).toContain('the signal of rank 0 ended rankZeroFirst: The download takes too long.');
  }
});
