import { expect, test } from 'vitest';
import { initialTrainingProgress } from '../../../src/parallel/recovery/progress.ts';
import { recoverElectedState, type StateTransfer } from '../../../src/parallel/recovery/recover.ts';
import type { PeerState } from '../../../src/parallel/recovery/stateElection.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { PeerGoneError } from '../../../src/util/errors.ts';

const [BEFORE, AFTER, WRONG] = ['be', 'af', '0f'].map((byte) => byte.repeat(8)) as [string, string, string];
const known = { isFresh: false, verdicts: [], keepsGradient: true };
const ahead: PeerState = { ...known, step: 7, appliedIn: 4, previousAppliedIn: 3, digest: AFTER };
const behind: PeerState = { ...known, step: 6, appliedIn: 3, previousAppliedIn: 3, digest: BEFORE };

/**
 * Rank 0, which is one step behind, and rank 1 recover together. Returns the calls on rank 0, whose
 * state is `result` after it has applied the missing step.
 */
async function catchUpWith(result: string, gather: () => Promise<string>): Promise<{ done: string[]; state: string }> {
  const done: string[] = [];
  let state = BEFORE;
  await runWorld(2, async (group) => {
    const isLate = group.rank === 0;
    const replica: StateTransfer<object, string, string> = {
      digest: () => Promise.resolve(isLate ? state : AFTER),
      head: () => ({}),
      repeat: {
        broadcastGradient: () => Promise.resolve('gradient'),
        catchUp: () => {
          done.push('caught up');
          state = result;
        },
        distrust: () => done.push('distrusted'),
      },
      gather,
      load: (loaded) => {
        done.push('loaded');
        state = loaded;
      },
    };
    await recoverElectedState(group, [behind, ahead], replica, initialTrainingProgress()).catch(() => {});
  });
  return { done, state };
}

test('a rank that reaches the elected state by applying the missing step loads nothing', async () => {
  const { done } = await catchUpWith(AFTER, () => Promise.resolve(AFTER));
  expect(done).toEqual(['caught up']);
});

test('a rank that reaches a different state by applying the missing step has no vote until it has loaded the elected state', async () => {
  const { done, state } = await catchUpWith(WRONG, () => Promise.resolve(AFTER));
  expect(done).toEqual(['caught up', 'distrusted', 'loaded']);
  expect(state).toBe(AFTER);
  const broken = await catchUpWith(WRONG, () => Promise.reject(new PeerGoneError('The link broke.')));
  expect(broken.done).toEqual(['caught up', 'distrusted']);
});
