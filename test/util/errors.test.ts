import { expect, test } from 'vitest';
import { reasonOf } from '../../src/util/errors.ts';

test('a reason inside a sentence has no full stop of its own, whatever was thrown', () => {
  expect(reasonOf(new DOMException('Modifications are not allowed.'))).toBe('Modifications are not allowed');
  expect(reasonOf(new Error('The file grew by 3.5'))).toBe('The file grew by 3.5');
  expect(reasonOf('stopped.')).toBe('stopped');
});
