import { expect, test } from 'vitest';
import { CheckpointBarrier } from '../../../src/engine/training/checkpointBarrier.ts';
import { ManualClock } from '../../manualClock.ts';

/** Resolves with whether a run has continued by now. */
async function goesOn(held: Promise<void>): Promise<boolean> {
  return Promise.race([held.then(() => true), new Promise<boolean>((resolve) => setTimeout(resolve, 5, false))]);
}

test('a run waits at a checkpoint barrier until the checkpoint is saved, or not at all if it is saved already', async () => {
  const hold = new CheckpointBarrier(new ManualClock());
  const first = hold.until(9);
  expect(await goesOn(first)).toBe(false);
  hold.release(8);
  expect(await goesOn(first)).toBe(false);
  hold.release(9);
  expect(await goesOn(first)).toBe(true);
  hold.release(19);
  expect(await goesOn(hold.until(19))).toBe(true);
  hold.reset();
  expect(await goesOn(hold.until(9))).toBe(false);
});

test('a run waits at most 10 s for a checkpoint', async () => {
  const clock = new ManualClock();
  const held = new CheckpointBarrier(clock).until(9);
  clock.advance(9_999);
  expect(await goesOn(held)).toBe(false);
  clock.advance(1);
  expect(await goesOn(held)).toBe(true);
});
