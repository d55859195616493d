import { expect, test } from 'vitest';
import { errorReasonOf } from '../../src/util/errors.ts';

test('a reason inside a sentence has no full stop of its own, whatever was thrown', () => {
  expect(errorReasonOf(new DOMException('Modifications are not allowed.'))).toBe('Modifications are not allowed');
  expect(errorReasonOf(new Error('The file grew by 3.5'))).toBe('The file grew by 3.5');
  expect(errorReasonOf('stopped.')).toBe('stopped');
});
