import { expect, test } from 'vitest';
import { rankIdentityOf, rankShapePath, RANK_SHAPES } from '../../../src/app/components/rankIdentity.ts';
import { membersByRank } from '../../../src/app/people.ts';

test('the marks of sixteen ranks are all different', () => {
  const looks = Array.from({ length: 16 }, (_, rank) => JSON.stringify(rankIdentityOf(rank)));
  expect(new Set(looks).size).toBe(16);
  expect(rankIdentityOf(0)).toEqual({ shape: 'circle', colour: 0, outlined: false });
  expect(rankIdentityOf(9)).toEqual({ shape: 'square', colour: 1, outlined: true });
  for (const shape of RANK_SHAPES) expect(rankShapePath(shape, 10)).toMatch(/^M.*Z$/);
});

const shapes = (): string[] => membersByRank.value.map((_, rank) => rankIdentityOf(rank).shape);

test('members keep their shapes when somebody leaves and their ranks change', () => {
  const members = ['Ada', 'Ben', 'Cleo'].map((name, mark) => ({ name, mark }));
  membersByRank.value = members;
  expect(shapes()).toEqual(['circle', 'square', 'triangle']);
  membersByRank.value = members.slice(1);
  expect(shapes()).toEqual(['square', 'triangle']);
  membersByRank.value = [];
});
