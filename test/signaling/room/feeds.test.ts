import { describe, expect, test } from 'vitest';
import { mayLink, type RoomEvent } from '../../../signaling/room/index.ts';
import { away, grow, left, open } from './elasticRoom.ts';
import { DEVICE, join, Play, ready } from './play.ts';

interface Wish {
  prefers?: string;
  avoids?: string[];
}

/** A newcomer asks for a feeder. */
const ask = (member: string, { prefers, avoids = [] }: Wish = {}): RoomEvent => ({
  type: 'ready',
  member,
  device: DEVICE,
  stateOfRun: null,
  catchUp: { prefers: prefers ?? null, avoids },
});

/** A room in which three ranks train and Di asks for a feeder. */
const asked = (wish?: Wish): Play => open(3).do(join('Di'), ask('Di', wish));
const endsOf = (play: Play, member: string): string[] =>
  play.received(member, 'feed').members.map(({ member: end }) => end);
/** How much of the state the room says that Di has received. */
const shown = (play: Play): unknown =>
  play.received('Ada', 'room').members.find(({ member }) => member === 'Di')?.received;
const isCounted = ({ state }: Play, member: string): boolean =>
  state.members.some((one) => one.member === member && one.device !== null);

describe('a newcomer that asks for a feeder', () => {
  test('does not count as ready, so no generation begins', () => {
    const play = asked();
    expect(isCounted(play, 'Di')).toBe(false);
    expect([play.state.phase, play.do(grow).state.phase]).toEqual(['RUNNING', 'RUNNING']);
  });

  test('and its feeder learn about each other, and their signals are forwarded', () => {
    const play = asked();
    expect([endsOf(play, 'Di'), endsOf(play, 'Ada')]).toEqual([
      ['Ada', 'Di'],
      ['Ada', 'Di'],
    ]);
    const { generation } = play.received('Di', 'feed');
    const signal = { type: 'answer', sdp: '' } as const;
    play.do({ type: 'signal', member: 'Di', to: 'Ada', generation, attempt: 0, signal });
    expect(play.received('Ada', 'signal')).toMatchObject({ from: 'Di', generation });
    play.do({ type: 'signal', member: 'Di', to: 'Bo', generation, attempt: 0, signal });
    expect(play.effects).toEqual([]);
  });

  test('and its feeder, but nobody else, may link under the number of the feed, while it lasts', () => {
    const play = asked();
    const { generation } = play.received('Di', 'feed');
    const pairs = [
      ['Di', 'Ada'],
      ['Ada', 'Di'],
      ['Di', 'Bo'],
      ['Ada', 'Bo'],
    ] as const;
    const allowed = () => pairs.map(([one, other]) => mayLink(play.state, generation, one, other));
    expect(allowed()).toEqual([true, true, false, false]);
    play.do(left('Di'));
    expect(allowed()).toEqual([false, false, false, false]);
  });

  test('is shown to all with the received share of the state until it is ready', () => {
    const play = asked().do({ type: 'receiving', member: 'Di', percent: 34 });
    expect(shown(play)).toBe(34);
    expect(shown(play.do(ready('Di')))).toBeUndefined();
    play.do({ type: 'receiving', member: 'Bo', percent: 34 });
    expect(play.effects).toEqual([]);
  });

  test('joins once it is ready, in a generation after its feed', () => {
    const play = asked();
    const { generation } = play.received('Di', 'feed');
    play.do(grow, ready('Di'));
    expect(play.ring).toContain('Di');
    expect(play.state.generation).toBeGreaterThan(generation);
    expect(play.state.feeds.size).toBe(0);
  });

  test.each([
    ['the member that it prefers', { prefers: 'Cy' }, 'Cy'],
    ['no member that it avoids', { avoids: ['Ada'] }, 'Bo'],
    ['another member if it prefers and avoids the same one', { prefers: 'Ada', avoids: ['Ada'] }, 'Bo'],
  ])('is fed by %s', (_, wish, feeder) => {
    expect(endsOf(asked(wish), 'Di')[0]).toBe(feeder);
  });

  test('is fed by a member that feeds no other newcomer', () => {
    const play = open(3, { nodes: { min: 1, max: 8 }, capacity: 8 }).do(join('Di'), ask('Di'), join('Ed'), ask('Ed'));
    expect(endsOf(play, 'Ed')).toEqual(['Bo', 'Ed']);
  });

  test('is fed by a member with a fast line, even if this member feeds others', () => {
    const play = open(3, { nodes: { min: 1, max: 8 }, capacity: 8 });
    const idle = { task: '', progress: 0, isSilent: false, ms: 0, limitMs: 60_000 };
    for (const [member, lateMs] of [
      ['Ada', 168_000],
      ['Bo', 900],
      ['Cy', 4_000],
    ] as const)
      play.do({ type: 'heartbeat', member, pulse: { ...idle, lateMs } });
    const newcomers = ['Di', 'Ed', 'Fay', 'Gil', 'Hal'];
    const feeders = newcomers.map((newcomer) => endsOf(play.do(join(newcomer), ask(newcomer)), newcomer)[0]);
    expect(feeders).toEqual(['Bo', 'Bo', 'Bo', 'Bo', 'Cy']);
  });

  test('is not fed by a member that is away', () => {
    expect(endsOf(open(3).do(away('Ada'), join('Di'), ask('Di')), 'Di')[0]).toBe('Bo');
  });

  test.each([
    ['the run is paused', () => open(2, { nodes: { min: 2, max: 4 } }).do(left('Bo'))],
    ['the run has not trained yet', () => new Play({ nodes: { min: 1, max: 4 } }).enter(2).start()],
    ['there is no place for it', () => open(2, { nodes: { min: 1, max: 2 } })],
  ])('immediately counts as ready if %s', (_, room) => {
    expect(isCounted(room().do(join('Di'), ask('Di')), 'Di')).toBe(true);
  });

  test('counts as ready if it accepts no member as its feeder', () => {
    expect(isCounted(asked({ avoids: ['Ada', 'Bo', 'Cy'] }), 'Di')).toBe(true);
  });
});
