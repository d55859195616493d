/** Classes whose tabs are in networks without a path between them. Time is simulated. */
import { describe, expect, test } from 'vitest';
import { createRng } from '../../../src/util/rng.ts';
import { ClassModel, type ClassOptions } from './classModel.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

const numberOf = (member: string): number => Number(member.slice(1));

/** Starts a class of `n` tabs. `networkOf` returns the network of the tab with this number. */
function classIn(n: number, networkOf: (i: number) => number, options: Partial<ClassOptions> = {}): ClassModel {
  const canReach = (a: string, b: string): boolean => networkOf(numberOf(a)) === networkOf(numberOf(b));
  return new ClassModel({ seed: n, canReach, ...options }).start(n);
}

/** Returns the longest time between two steps, in milliseconds. */
function longestStop({ steps, clock }: ClassModel): number {
  const times = [...steps, clock.now()];
  return Math.max(...times.slice(1).map((at, i) => at - times[i]!));
}

describe('two networks without a path between them', () => {
  test.each([
    [26, 4],
    [20, 10],
    [15, 15],
    [3, 3],
    [3, 2],
    [2, 2],
    [60, 40],
  ])(
    'with %i and then %i tabs: the larger one trains within 40 s, and the other tabs learn why they wait',
    (first, then) => {
      const model = classIn(first + then, (i) => (i < first ? 0 : 1));
      expect(model.runUntil(() => model.steps.length > 0, 40 * SECOND)).toBe(true);
      const trains = Array.from({ length: first }, (_, i) => `m${i}`);
      expect([...model.ring].sort()).toEqual(trains.sort());
      const reasons = new Set(model.suspended.map(({ message }) => message.split(', so')[0]));
      expect([...reasons]).toEqual(['The other ranks are in a network that this tab cannot reach']);
    },
  );

  test.each(['alternately', 'at random'])(
    'begin a run of the larger one within 40 s if their tabs join %s',
    (order) => {
      const rng = createRng(3);
      const networks = Array.from({ length: 30 }, (_, i) => (order === 'alternately' ? i % 2 : rng.below(3) % 2));
      const sizes = [0, 1].map((network) => networks.filter((one) => one === network).length);
      const model = classIn(30, (i) => networks[i]!);
      expect(model.runUntil(() => model.steps.length > 0, 40 * SECOND)).toBe(true);
      expect(model.ring).toHaveLength(Math.max(...sizes));
    },
  );

  test('train together if a relay connects them', () => {
    const model = classIn(12, (i) => (i < 8 ? 0 : 1), { hasRelay: true });
    expect(model.runUntil(() => model.steps.length > 0, 40 * SECOND)).toBe(true);
    expect(model.ring).toHaveLength(12);
  });

  test('do not interrupt the larger one when tabs of the smaller one are tried again', () => {
    const model = classIn(12, (i) => (i < 7 ? 0 : 1));
    model.runUntil(() => false, 10 * MINUTE);
    expect(longestStop(model)).toBeLessThan(5 * SECOND);
  });

  test('end a run that needs more ranks than the larger network has; the message has both sizes and advice', () => {
    const model = classIn(6, (i) => (i < 3 ? 0 : 1), { nodes: { min: 5, max: 8 } });
    expect(model.runUntil(() => model.ended !== null, 40 * SECOND)).toBe(true);
    expect(model.ended!.message).toMatch(/networks without a path between them \(3 and 3 tabs\).*--turn/);
  });

  test('are not assumed if all links go through the server', () => {
    const model = classIn(12, (i) => i % 2, { servesAll: true });
    model.runUntil(() => false, 3 * MINUTE);
    expect(model.suspended.filter(({ message }) => message.includes('in a network'))).toEqual([]);
    expect(model.ended?.message ?? '').not.toMatch(/without a path|TURN/);
  });

  test('become one ring again when there is a path', () => {
    let isJoined = false;
    const model = new ClassModel({
      seed: 1,
      canReach: (a, b) => isJoined || numberOf(a) < 5 === numberOf(b) < 5,
    }).start(8);
    model.runUntil(() => model.steps.length > 0, 40 * SECOND);
    isJoined = true;
    expect(model.runUntil(() => model.phase === 'RUNNING' && model.ring.length === 8, 3 * MINUTE)).toBe(true);
  });
});

test.each([
  [[26, 4], 26],
  [[3, 3], 3],
  [[3, 2], 3],
  [[2, 2], 2],
])('of machines with %j tabs that cannot reach each other, the one with most trains within 40 s', (sizes, most) => {
  const machines = sizes.flatMap((size, i) => Array<number>(size).fill(i));
  const machineOf = (member: string): number => machines[numberOf(member)]!;
  const model = new ClassModel({ seed: 1, canReach: (a, b) => machineOf(a) === machineOf(b) });
  for (const [i, machine] of machines.entries()) model.enter(`m${i}`, `machine ${machine}`);
  model.dispatch({ type: 'start', member: 'm0' });
  expect(model.runUntil(() => model.steps.length > 0, 40 * SECOND)).toBe(true);
  expect(model.ring).toHaveLength(most);
  const reasons = new Set(model.suspended.map(({ message }) => message.split(', so')[0]));
  expect([...reasons]).toEqual(['The other ranks are in a network that this tab cannot reach']);
});

test.each([3, 4])('one of %i networks trains without interruption, although their tabs join at random', (count) => {
  const rng = createRng(count);
  const networks = Array.from({ length: 24 }, () => rng.below(count));
  const model = classIn(24, (i) => networks[i]!);
  expect(model.runUntil(() => model.steps.length > 0, 2 * MINUTE)).toBe(true);
  model.runUntil(() => false, 5 * MINUTE);
  expect(longestStop(model)).toBeLessThan(5 * SECOND);
});

test('a network of newcomers is tried without interrupting training', () => {
  const model = new ClassModel({ seed: 2, canReach: (a, b) => a.startsWith('new') === b.startsWith('new') }).start(5);
  model.runUntil(() => false, 10 * SECOND);
  for (let i = 0; i < 9; i++) model.enter(`new${i}`);
  model.runUntil(() => false, 5 * MINUTE);
  expect(longestStop(model)).toBeLessThan(5 * SECOND);
  expect(new Set(model.suspended.map(({ member }) => member)).size).toBe(9);
});

test.each([5, 10, 20])('links that fail by chance, %i of 100, do not divide a class into networks', (percent) => {
  const rng = createRng(percent);
  const failing = new Set<string>();
  for (let i = 0; i < 30; i++) for (let j = 0; j < i; j++) if (rng.below(100) < percent) failing.add(`m${i} m${j}`);
  const canReach = (a: string, b: string): boolean => !failing.has(`${a} ${b}`) && !failing.has(`${b} ${a}`);
  const model = new ClassModel({ seed: percent, canReach }).start(30);
  expect(model.runUntil(() => model.steps.length > 0, MINUTE)).toBe(true);
  expect(model.ring).toHaveLength(30);
});
