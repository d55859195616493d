import { describe, expect, test } from 'vitest';
import {
  gatherSlices,
  type ReceivedStateSlices,
  type StateReceivedBytes,
} from '../../../src/parallel/recovery/gatherSlices.ts';
import { electState, divergentRanks, type PeerState } from '../../../src/parallel/recovery/stateElection.ts';
import { StateSlices } from '../../../src/parallel/recovery/stateSlices.ts';
import { FILE_SLICE_BYTES } from '../../../src/protocol/frame.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { PeerGoneError } from '../../../src/util/errors.ts';

const at = (step: number, digest: string, more: Partial<PeerState> = {}): PeerState => ({
  isFresh: false,
  step,
  appliedIn: 1,
  previousAppliedIn: 1,
  verdicts: [],
  digest,
  keepsGradient: true,
  ...more,
});
const fresh = (digest: string) => at(0, digest, { isFresh: true, keepsGradient: false });

const values = (size: number) => Float32Array.from({ length: size }, (_, i) => i + 0.5);

describe('an election among ranks with different states', () => {
  test('chooses the state with most steps; one rank sends the gradient to ranks that lack the last step', () => {
    const states = [at(6, 'old'), at(7, 'a', { keepsGradient: false }), at(7, 'a'), at(3, 'older'), fresh('0')];
    expect(electState(states)).toEqual({ step: 7, digest: 'a', sources: [1, 2], late: [0], gradientSource: 2 });
  });

  test('gives the gradient of the last step only to ranks with the state before this step', () => {
    const ahead = at(7, 'a', { appliedIn: 4, previousAppliedIn: 3 });
    const states = [ahead, at(6, 'before', { appliedIn: 3 }), at(6, 'other', { appliedIn: 2 })];
    expect(electState(states)).toMatchObject({ digest: 'a', sources: [0], late: [1], gradientSource: 0 });
  });

  test('does not treat a state of unknown generation as the state before the last step', () => {
    const ahead = at(7, 'a', { appliedIn: 4, previousAppliedIn: 0 });
    expect(electState([ahead, at(6, 'file', { appliedIn: 0 })])).toMatchObject({ sources: [0], late: [] });
  });

  test('gives the gradient to no rank if none has kept it', () => {
    const states = [at(6, 'old'), at(7, 'a', { keepsGradient: false })];
    expect(electState(states)).toMatchObject({ sources: [1], late: [], gradientSource: null });
  });

  test('chooses, among states with the last step, that of most ranks, not that of the lowest rank', () => {
    expect(electState([at(7, 'divergent'), at(7, 'a'), at(7, 'a')])).toMatchObject({ digest: 'a', sources: [1, 2] });
  });

  test('chooses a step that a later generation has repeated, however many ranks have the original step', () => {
    const states = [at(7, 'void'), at(7, 'void'), at(7, 'a', { appliedIn: 2 })];
    expect(electState(states)).toMatchObject({ digest: 'a', sources: [2], late: [] });
  });

  test("chooses rank 0's state if all ranks are new", () => {
    expect(electState([fresh('a'), fresh('b'), fresh('a'), fresh('b')])).toMatchObject({
      step: 0,
      digest: 'a',
      sources: [0, 2],
      late: [],
      gradientSource: null,
    });
  });

  test('gives no votes to new ranks, however many these are', () => {
    expect(electState([fresh('0'), fresh('0'), at(0, 'a')])).toMatchObject({ digest: 'a', sources: [2] });
    expect(divergentRanks(['b', 'b', 'a'], [true, true, false])).toEqual([0, 1]);
    expect(divergentRanks(['b', 'a', 'a'], [true, true, true])).toEqual([0]);
    expect(divergentRanks(['a', 'b', 'a', 'c'], [false, false, false, true])).toEqual([1, 3]);
  });
});

describe('slices of an array', () => {
  test.each([
    [2, [1], 10],
    [3, [0, 2], 10],
    [3, [0, 1, 2], 10],
    [4, [3], 1],
    [4, [0, 1, 2], 2],
    [9, [1, 4, 8], 100],
    [17, [0, 16], 1000],
    [2, [0], 0],
  ])('reach all of %i ranks from the ranks %j (%i elements)', async (n, sources, size) => {
    await runWorld(n, async (group) => {
      const mine = sources.includes(group.rank) ? values(size) : new Float32Array(size);
      expect(await gatherSlices(group, [mine], sources)).toEqual([values(size)]);
    });
  });

  test('may lie in a larger buffer whose length is not a multiple of four', async () => {
    await runWorld(2, async (group) => {
      const mine = new Float32Array(new ArrayBuffer(21), 4, 3);
      if (group.rank === 0) mine.set(values(3));
      expect(await gatherSlices(group, [mine], [0])).toEqual([values(3)]);
    });
  });

  test('are sent only by ranks whose right neighbour lacks the array', async () => {
    const size = 30_000;
    const sent = await runWorld(4, async (group) => {
      await gatherSlices(group, [values(size)], [0, 1, 3]);
      return Math.round(group.bytesSent / (size * 4));
    });
    expect(sent).toEqual([0, 1, 0, 0]);
  });

  test('are not sent again if they arrived before an interruption', async () => {
    const size = 100_000;
    const received: ReceivedStateSlices = [];
    /** Returns the bytes that rank 0 sends, in arrays. */
    const attempt = async (first: number, isInterrupted: boolean): Promise<number> => {
      const [sent] = await runWorld(2, async (group) => {
        const arrays = [values(size).fill(first, 0, 1), values(size)];
        const mine = group.rank === 0 ? arrays : [new Float32Array(size), new Float32Array(size)];
        const options = {
          ...(group.rank === 1 && { received }),
          onreceived: ({ bytesPerRank: [, held] }: StateReceivedBytes): void => {
            if (isInterrupted && held! >= size * 4) throw new PeerGoneError('The link broke.');
          },
        };
        const gathered = await gatherSlices(group, mine, [0], options).catch(() => null);
        if (!isInterrupted) expect(gathered).toEqual(arrays);
        return group.bytesSent / (size * 4);
      });
      return Math.round(sent! * 10) / 10;
    };
    expect([await attempt(7, true), await attempt(7, false)]).toEqual([1, 1]);
    // The first slice differs after another step.
    expect(await attempt(8, false)).toBe(0.3);
  });

  test('of an earlier state are used if they are equal, even after a second interruption', async () => {
    const bytes = Uint8Array.from({ length: 3 * FILE_SLICE_BYTES }, (_, i) => i / FILE_SLICE_BYTES);
    const [before, after] = [StateSlices.of(bytes), StateSlices.of(bytes.slice().fill(9, 0, 1))];
    const first = StateSlices.empty(bytes.length);
    first.setDigests(before.digests!);
    for (const slice of [0, 2]) first.put(slice, await before.read(slice));
    const third = StateSlices.empty(bytes.length, StateSlices.empty(bytes.length, first));
    const mayHave = third.mayHave;
    third.setDigests(after.digests!);
    expect([mayHave, third.mayHave, [0, 1, 2].map((slice) => third.has(slice))]).toEqual([
      true,
      false,
      [false, false, true],
    ]);
  });
});
