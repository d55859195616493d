import { describe, expect, test } from 'vitest';
import { addBreaks, edgeKey, keptApart, neighbours, orderAround, type Breaks } from '../../../signaling/room/edges.ts';
import type { RosterEntry } from '../../../src/protocol/room.ts';

const members = (ids: string): RosterEntry[] =>
  Array.from(ids, (member) => ({ member, name: member, device: null, browser: 0, rank: null }));

/**
 * Returns the breaks that a text describes. For example, `'AB AB CD'` means that the link between A
 * and B broke twice, and the link between C and D once.
 */
function broken(pairs: string): Breaks {
  const listed = pairs.split(' ').filter((pair) => pair !== '');
  return addBreaks(
    new Map(),
    listed.map((pair): [string, string] => [pair[0]!, pair[1]!]),
  );
}

const named = (list: RosterEntry[]): string => list.map((m) => m.member).join('');

function order(ids: string, pairs: string, hasRelay = false): { ring: string; relayed: string[]; culprits: string } {
  const { ring, relayed, culprits } = orderAround(members(ids), broken(pairs), hasRelay);
  return { ring: named(ring), relayed: relayed.map((pair) => pair.join('')), culprits: named(culprits) };
}

test('the key of a pair is the same for both orders of its members', () => {
  expect(edgeKey('Bo', 'Ada')).toBe(edgeKey('Ada', 'Bo'));
  const breaks = addBreaks(addBreaks(new Map(), [['Ada', 'Bo']]), [['Bo', 'Ada']]);
  expect([...breaks.values()]).toEqual([2]);
});

test.each([
  ['', []],
  ['A', []],
  ['AB', ['AB']],
  ['ABC', ['AB', 'BC', 'CA']],
  ['ABCD', ['AB', 'BC', 'CD', 'DA']],
])('neighbours returns all pairs of neighbours in the ring "%s"', (ids, pairs) => {
  expect(neighbours(ids.split('')).map((pair) => pair.join(''))).toEqual(pairs);
});

describe('a ring order that avoids broken links', () => {
  test('is the present order if no link between neighbours has broken twice', () => {
    expect(order('ABCD', '')).toEqual({ ring: 'ABCD', relayed: [], culprits: '' });
    expect(order('ABCD', 'AB BC')).toEqual({ ring: 'ABCD', relayed: [], culprits: '' });
    expect(order('ABCD', 'AC AC')).toEqual({ ring: 'ABCD', relayed: [], culprits: '' });
  });

  test('separates two members whose link has broken twice, in a ring of four or more', () => {
    for (const ids of ['ABCD', 'ABCDE', 'ABCDEFGH']) {
      const { ring, relayed, culprits } = order(ids, 'AB AB');
      const pairs = neighbours(ring.split('')).map(([a, b]) => edgeKey(a, b));
      expect(pairs).not.toContain('A B');
      expect(ring.split('').sort().join('')).toBe(ids);
      expect([relayed, culprits]).toEqual([[], '']);
    }
  });

  test('cannot separate two of three members whose link has broken twice: they use a relay, or one of them is left out', () => {
    expect(order('ABC', 'AB AB', true)).toEqual({ ring: 'ABC', relayed: ['AB'], culprits: '' });
    expect(order('ABC', 'AB AB')).toEqual({ ring: 'AC', relayed: [], culprits: 'B' });
    expect(order('AB', 'AB AB')).toEqual({ ring: 'A', relayed: [], culprits: 'B' });
  });

  test('uses no relay for a pair whose relayed link has broken', () => {
    expect(order('ABC', 'AB AB AB', true)).toEqual({ ring: 'AC', relayed: [], culprits: 'B' });
  });

  test('leaves out the member with the most broken links, even if another member is later in the ring', () => {
    expect(order('ABCD', 'AB AB AC AC').culprits).toBe('A');
    expect(order('ABC', 'AB AB AC')).toEqual({ ring: 'BC', relayed: [], culprits: 'A' });
  });

  test('leaves out two of three members if all links between the three have broken twice', () => {
    expect(order('ABC', 'AB AB BC BC CA CA')).toEqual({ ring: 'A', relayed: [], culprits: 'CB' });
  });

  test('leaves out no member of four or more if only one link has broken twice', () => {
    for (let n = 4; n <= 12; n++) {
      const ids = 'ABCDEFGHIJKL'.slice(0, n);
      for (let i = 0; i < n; i++) {
        const pair = `${ids[i]}${ids[(i + 1) % n]}`;
        expect(order(ids, `${pair} ${pair}`).culprits, `${ids} without ${pair}`).toBe('');
      }
    }
  });
});

const slowPairs = (slow: string): [string, string][] => slow.split(' ').map((pair) => [pair[0]!, pair[1]!]);

const around = (ids: string, slow: string, pairs = ''): string =>
  named(orderAround(members(ids), broken(pairs), false, slowPairs(slow)).ring);
const isApart = (ring: string, pair: string): boolean => keptApart(members(ring), slowPairs(pair)).length === 1;

describe('a ring order that avoids slow links', () => {
  test('separates the ends of a slow link in a ring of four or more, and keeps an order in which they are apart', () => {
    for (const ids of ['ABCD', 'ABCDE', 'ABCDEFGH']) {
      expect(isApart(ids, 'BC')).toBe(false);
      const ring = around(ids, 'BC');
      expect(isApart(ring, 'BC')).toBe(true);
      expect(ring.split('').sort().join('')).toBe(ids);
      expect(around(ring, 'BC')).toBe(ring);
    }
    expect(around('ABCD', 'AC')).toBe('ABCD');
  });

  test('keeps a slow link in a ring of three members, and leaves out no member', () => {
    expect(around('ABC', 'AB')).toBe('ABC');
    expect(keptApart(members('ABC'), slowPairs('AB'))).toEqual([]);
  });

  test('accepts several slow links to avoid one broken link', () => {
    // If A is not next to C, its neighbours are B and D, even with slow links.
    const ring = around('ACBD', 'AB AD', 'AC AC');
    expect(isApart(ring, 'AC')).toBe(true);
  });

  test('ignores slow links of absent members', () => {
    expect(keptApart(members('ABCD'), slowPairs('AX AC'))).toEqual([['A', 'C']]);
  });
});
