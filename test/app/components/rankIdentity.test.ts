import { expect, test } from 'vitest';
import { identityOf, shapePath, SHAPES } from '../../../src/app/components/rankIdentity.ts';
import { people } from '../../../src/app/people.ts';

test('the marks of sixteen ranks are all different', () => {
  const looks = Array.from({ length: 16 }, (_, rank) => JSON.stringify(identityOf(rank)));
  expect(new Set(looks).size).toBe(16);
  expect(identityOf(0)).toEqual({ shape: 'circle', colour: 0, outlined: false });
  expect(identityOf(9)).toEqual({ shape: 'square', colour: 1, outlined: true });
  for (const shape of SHAPES) expect(shapePath(shape, 10)).toMatch(/^M.*Z$/);
});

const shapes = (): string[] => people.value.map((_, rank) => identityOf(rank).shape);

test('members keep their shapes when somebody leaves and their ranks change', () => {
  const members = ['Ada', 'Ben', 'Cleo'].map((name, mark) => ({ name, mark }));
  people.value = members;
  expect(shapes()).toEqual(['circle', 'square', 'triangle']);
  people.value = members.slice(1);
  expect(shapes()).toEqual(['square', 'triangle']);
  people.value = [];
});
