import { expect, test } from 'vitest';
import { inspectionPauseMs } from '../../../src/app/state/modelAnswers.ts';

test.each([
  ['trains, 20 times as long as an inspection takes', 600, true, 12_000],
  ['trains, but never less than a second', 10, true, 1000],
  ['does not train, a second', 600, false, 1000],
])('the pause between two inspections is, while the model %s', (_, took, isTraining, pause) => {
  expect(inspectionPauseMs(took, isTraining)).toBe(pause);
});
