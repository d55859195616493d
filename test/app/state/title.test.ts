import { expect, test } from 'vitest';
import { documentTitleOf } from '../../../src/app/state/title.ts';
import { initialTabView, reduceTabView } from '../../../src/app/state/view.ts';
import { RESULT, stepEvent } from '../events.ts';
import { fold, GENERATION, GRACE, room, state } from './roomOfFour.ts';

test('the title of a hidden tab shows the progress of the run', () => {
  const training = fold(GRACE, room({ phase: 'RUNNING' }), GENERATION, stepEvent(119), state('RUNNING'));
  const sizes = { parameters: 1, gradientBytes: 4, bucketBytes: [4], totalSteps: 315, trainSamples: 1, testSamples: 1 };
  const view = reduceTabView(training, { type: 'model', ...sizes });
  expect(documentTitleOf(view, 'K7F3QX', true)).toBe(
    'Step 120 of 315, training in the background · K7F-3QX · peergrad',
  );
  expect(documentTitleOf(view, 'K7F3QX', false)).toBe('K7F-3QX · peergrad');
  const done = fold(GRACE, GENERATION, state('WAITING'), { type: 'finished', result: RESULT });
  expect(documentTitleOf(done, 'K7F3QX', true)).toBe('Finished · K7F-3QX · peergrad');
  expect(documentTitleOf(initialTabView, null, true)).toContain('train one model');
});
