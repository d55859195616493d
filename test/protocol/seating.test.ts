import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { localRankOf, assignRanks } from '../../src/protocol/seating.ts';

const asking = (...ranks: (number | null)[]) => ranks.map((rank, i) => ({ name: 'abcdef'[i], rank }));
const names = (places: ({ name: string | undefined } | null)[]): string =>
  places.map((one) => one?.name ?? '-').join('');

describe('seats', () => {
  test.each([
    ['are an empty list if there are no members', [], 0, ''],
    ['are two free ranks if there are no members in a world of two', [], 2, '--'],
    ['follow the order of members that request no ranks', [null, null, null], 0, 'abc'],
    ['are the requested ranks, and the free ranks for the other members', [null, 3, null, 0], 0, 'dacb'],
    ['have a gap if a requested rank exceeds the number of members', [null, 2], 0, 'a-b'],
    ['include free ranks for members of the world that will join later', [null, 1], 4, 'ab--'],
  ])('%s', (_, ranks, worldSize, expected) => {
    expect(names(assignRanks(asking(...ranks), worldSize))).toBe(expected);
  });

  test('give every member a rank, without gaps if all requested ranks are below the number of members', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat({ max: 7 }), { maxLength: 8 }), fc.nat({ max: 8 }), (asked, others) => {
        const members = [...asked, ...Array<null>(others).fill(null)].map((rank, id) => ({ id, rank }));
        const places = assignRanks(members);
        const seated = places.filter((one) => one !== null);
        expect(new Set(seated)).toEqual(new Set(members));
        expect(seated.length).toBe(members.length);
        places.forEach((one, rank) => expect(one?.rank ?? rank).toBe(rank));
        expect(places.includes(null)).toBe(asked.some((rank) => rank >= members.length));
      }),
    );
  });
});

test('the local rank of a member is its index among the ranks of its browser', () => {
  const members = [0, 1, 0, 2, 0, 1].map((browser) => ({ browser }));
  const all = members.map((_, rank) => localRankOf(rank, members));
  expect(all.map(({ localRank }) => localRank)).toEqual([0, 0, 1, 0, 2, 1]);
  expect(all.map(({ localWorldSize }) => localWorldSize)).toEqual([3, 2, 3, 1, 3, 2]);
});
