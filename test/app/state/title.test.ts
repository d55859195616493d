import { expect, test } from 'vitest';
import { titleOf } from '../../../src/app/state/title.ts';
import { initialView, reduce } from '../../../src/app/state/view.ts';
import { RESULT, stepEvent } from '../events.ts';
import { fold, GENERATION, GRACE, room, state } from './roomOfFour.ts';

test('the title of a hidden tab shows the progress of the run', () => {
  const training = fold(GRACE, room({ phase: 'RUNNING' }), GENERATION, stepEvent(119), state('RUNNING'));
  const sizes = { parameters: 1, gradientBytes: 4, bucketBytes: [4], totalSteps: 315, trainSamples: 1, testSamples: 1 };
  const view = reduce(training, { type: 'model', ...sizes });
  expect(titleOf(view, 'K7F3QX', true)).toBe('Step 120 of 315, training in the background · K7F-3QX · peergrad');
  expect(titleOf(view, 'K7F3QX', false)).toBe('K7F-3QX · peergrad');
  const done = fold(GRACE, GENERATION, state('WAITING'), { type: 'finished', result: RESULT });
  expect(titleOf(done, 'K7F3QX', true)).toBe('Finished · K7F-3QX · peergrad');
  expect(titleOf(initialView, null, true)).toContain('train one model');
});
