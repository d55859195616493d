import { expect, test } from 'vitest';
import { listInWords, nameRanks } from '../../src/util/text.ts';

test('lists are formatted with commas, and with "and" before the last item', () => {
  expect([listInWords([]), listInWords([1]), listInWords([1, 3]), listInWords([1, 2, 3])]).toEqual([
    '',
    '1',
    '1 and 3',
    '1, 2 and 3',
  ]);
});

test('nameRanks names one rank, several ranks, and some of more than eight ranks', () => {
  expect(nameRanks([3])).toBe('rank 3');
  expect(nameRanks([1, 2, 4])).toBe('ranks 1, 2 and 4');
  expect(nameRanks([0, 1, 2, 3, 4, 5, 6, 7])).toBe('ranks 0, 1, 2, 3, 4, 5, 6 and 7');
  expect(nameRanks([0, 1, 2, 3, 4, 5, 6, 7, 9, 11])).toBe('ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more');
});
