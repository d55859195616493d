/**
 * Links that slow down the ring. The two ends of a slow link are separated, but only once for each
 * member.
 */
import { expect, test } from 'vitest';
import type { RoomEvent, RoomOptions } from '../../../signaling/room/index.ts';
import { edgeKey, neighbours } from '../../../signaling/room/edges.ts';
import { breakLink } from './elasticRoom.ts';
import { Play } from './play.ts';

const OPEN = { nodes: { min: 1, max: 5 }, capacity: 5 } satisfies Partial<RoomOptions>;

const open = (n: number, options: Partial<RoomOptions> = {}): Play => Play.running(n, { ...OPEN, ...options });
const slow = (play: Play, member: string, peer: string): RoomEvent => ({
  type: 'slow',
  member,
  generation: play.state.generation,
  peer,
});
const areNeighbours = (play: Play, a: string, b: string): boolean =>
  neighbours(play.ring).some(([left, right]) => edgeKey(left, right) === edgeKey(a, b));

test('the report of a slow link begins a generation of the same members in which its ends are not neighbours', () => {
  const play = open(4);
  play.do(slow(play, 'Bo', 'Cy'));
  const prepare = play.received('Ada', 'prepare');
  expect(prepare).toMatchObject({ generation: 2, run: 1, separated: [['Bo', 'Cy']] });
  expect(prepare.members.map(({ member }) => member)).toEqual(play.ring);
  expect([...play.ring].sort()).toEqual(['Ada', 'Bo', 'Cy', 'Di']);
  expect(areNeighbours(play, 'Bo', 'Cy')).toBe(false);
  play.train();
  expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 2, retries: 0 });
});

test('after a slow link was avoided, further reports of slow links change nothing in a ring of four', () => {
  const play = open(4);
  play.do(slow(play, 'Bo', 'Cy')).train();
  const { state } = play;
  for (const [a, b] of neighbours(play.ring)) {
    play.do(slow(play, a, b), slow(play, b, a));
    const isNew = ![a, b].some((one) => one === 'Bo' || one === 'Cy');
    // Ada and Di can only be neighbours if Bo and Cy are neighbours, too.
    expect(isNew).toBe(false);
  }
  expect(play.state).toBe(state);
});

test('the report of a slow link is ignored if its ends are not neighbours or cannot be separated, or if it is outdated', () => {
  for (const n of [2, 3]) {
    const play = open(n);
    const { state } = play;
    play.do(slow(play, 'Ada', 'Bo'));
    expect(play.state).toBe(state);
  }
  const play = open(4);
  const { state } = play;
  play.do(
    slow(play, 'Ada', 'Cy'),
    { type: 'slow', member: 'Ada', generation: 7, peer: 'Bo' },
    slow(play, 'Ada', 'Ada'),
  );
  expect(play.state).toBe(state);
});

test('the report of a slow link is ignored before training begins, and in a fixed world', () => {
  const linking = new Play(OPEN).enter(4).start();
  const fixed = Play.running(4, { nodes: null });
  for (const play of [linking, fixed]) {
    const { state } = play;
    play.do(slow(play, 'Ada', 'Bo'));
    expect(play.state).toBe(state);
  }
});

test('after a report of a slow link that cannot be avoided, another report of the same member changes nothing in this generation', () => {
  const play = breakLink(breakLink(open(4), 'Ada', 'Bo'), 'Bo', 'Ada').train();
  expect(areNeighbours(play, 'Ada', 'Bo')).toBe(false);
  const { generation } = play.state;
  // Apart from Bo and Cy, Ada has only one possible neighbour.
  play.do(slow(play, 'Ada', 'Cy'));
  expect(play.state.generation).toBe(generation);
  expect([...play.state.slowReporters]).toEqual(['Ada']);
  const { state } = play;
  play.do(slow(play, 'Ada', 'Cy'));
  expect(play.state).toBe(state);
});

test('the ends of a slow link stay apart when members join and leave', () => {
  const play = open(4);
  play
    .do(slow(play, 'Bo', 'Cy'))
    .train()
    .enter(5)
    .do({ type: 'grow' })
    .train();
  expect(play.ring).toHaveLength(5);
  expect(areNeighbours(play, 'Bo', 'Cy')).toBe(false);
  play.do({ type: 'left', member: 'Ada', reason: 'left' }).train();
  expect(areNeighbours(play, 'Bo', 'Cy')).toBe(false);
  play.do({ type: 'left', member: 'Di', reason: 'left' });
  // In a ring of three, all members are neighbours.
  expect(play.received('Bo', 'prepare').separated).toEqual([]);
  play.train().do({ type: 'stop', member: play.state.members[0]!.member });
  expect(play.state.phase).toBe('FORMING');
});

test('a slow link is forgotten in the next run', () => {
  const play = open(4);
  play
    .do(slow(play, 'Bo', 'Cy'))
    .train()
    .do({ type: 'stop', member: 'Ada' })
    .enter(4)
    .start();
  expect(play.received('Bo', 'prepare').separated).toEqual([]);
  expect(play.ring).toEqual(['Ada', 'Bo', 'Cy', 'Di']);
});
