import { describe, expect, test } from 'vitest';
import { nextMove, type Lag } from '../../../src/parallel/recovery/catchUp.ts';

/** A line of 0.25 MB/s and a model of 10 M parameters: 480 s for a state, 160 s for a gradient. */
const SLOW: Lag = {
  behind: 40,
  canRepeat: false,
  stateBytes: 120e6,
  updateBytes: 40e6,
  rate: 250,
  everyMs: 10_000,
  waitedMs: 480_000,
};
const MINUTE = 60_000;

describe('the next move of a newcomer', () => {
  test.each([
    ['has the state of the run', { behind: 0, rate: null }, { move: 'enter' }],
    ['has received nothing yet', { rate: null }, { move: 'state' }],
    ['has received nothing yet, and lacks one step', { rate: null, behind: 1, canRepeat: true }, { move: 'update' }],
    ['lacks a step that takes 4 s', { behind: 1, canRepeat: true, rate: 10_000 }, { move: 'enter' }],
    [
      'lacks two steps, so the whole state of 12 s',
      { behind: 2, canRepeat: true, rate: 10_000, waitedMs: 0 },
      { move: 'update' },
    ],
    ['lacks a state that its line carries in 5 s', { rate: 24_000 }, { move: 'enter' }],
    ['has a line that carries less than the updates', {}, { move: 'wait', ms: 152 * MINUTE }],
    ['has waited twenty times as long as the others must', { waitedMs: 160 * MINUTE }, { move: 'enter' }],
    ['has a line that carries the updates', { everyMs: 170_000 }, { move: 'state' }],
    [
      'cannot repeat steps, and its line carries no state between two changes',
      { updateBytes: null, everyMs: 170_000 },
      { move: 'wait', ms: 152 * MINUTE },
    ],
    [
      'cannot repeat steps, and its line carries a state between two changes',
      { updateBytes: null, everyMs: 500_000 },
      { move: 'state' },
    ],
  ] satisfies [string, Partial<Lag>, unknown][])('that %s (%o) is %o', (_, lag, move) => {
    expect(nextMove({ ...SLOW, ...lag })).toEqual(move);
  });
});
