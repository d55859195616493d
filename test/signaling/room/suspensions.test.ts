import { describe, expect, test } from 'vitest';
import type { RoomEvent, RoomOptions } from '../../../signaling/room/index.ts';
import type { Reason } from '../../../signaling/room/records.ts';
import { noticeOf } from '../../../signaling/room/suspensions.ts';
import { OPEN, grow, left, away, missed, open, breakLink } from './elasticRoom.ts';
import { join, Play, ready } from './play.ts';

/**
 * Returns a room in which three ranks train until the link between two of them breaks twice and Bo
 * is suspended.
 */
const withoutBo = (options: Partial<RoomOptions> = {}): Play =>
  breakLink(breakLink(open(3, options), 'Ada', 'Bo'), 'Bo', 'Ada');

describe('a suspended tab', () => {
  test('immediately continues the run if it is ready and all other members with the state have left', () => {
    const play = withoutBo().do(ready('Bo', 1), left('Ada'), left('Cy'));
    expect([play.state.phase, play.ring]).toEqual(['LINKING', ['Bo']]);
  });

  test('continues the paused run when it becomes ready, if all other members with the state have left', () => {
    const play = withoutBo().do(left('Ada'), left('Cy'));
    expect(play.state.phase).toBe('PAUSED');
    expect(play.do(ready('Bo', 1)).ring).toEqual(['Bo']);
  });

  test('waits for members with the latest state if its own state is older', () => {
    const play = withoutBo().train().do(ready('Bo', 1), away('Ada'), away('Cy'), missed('Ada'), missed('Cy'));
    expect(play.state.phase).toBe('PAUSED');
    expect(play.ring).toEqual([]);
  });

  test.each([
    ['equally long each time if too few other ranks are left', 3, 1],
    ['twice as long each time if enough other ranks are left', 2, 4],
  ])('is suspended each time it is late, %s', (_, min, factor) => {
    const play = open(3, { nodes: { min, max: 4 } });
    const lengths: number[] = [];
    for (let i = 0; i < 3; i++) {
      const { generation } = play.state;
      play.do({ type: 'late', member: 'Ada', generation, peers: ['Cy'] });
      play.do({ type: 'late', member: 'Bo', generation, peers: ['Cy'] });
      lengths.push(play.timer('suspended 1').ms);
      play.do(ready('Cy', 1), { type: 'suspension-end', id: 1 });
      if (play.state.phase === 'RUNNING') play.do(grow);
      play.train().do(grow).train();
    }
    expect(lengths[2]).toBe(factor * lengths[0]!);
  });
});

/** Each rank of a SYNCING with `member` reports that it failed. */
const fail = (play: Play, member: string): Play => {
  play.linkAll();
  expect([play.state.phase, play.ring.includes(member)]).toEqual(['SYNCING', true]);
  const { generation } = play.state;
  for (const one of play.ring) {
    play.do({ type: 'failed', member: one, generation, scope: 'generation', message: 'Timed out.' });
  }
  return play;
};
/** Three ranks train, and a newcomer enters. */
const grown = (): Play => open(3).do(join('Di'), ready('Di'), grow);

describe('a newcomer with which SYNCING has failed', () => {
  test('is tried once more, and then suspended', () => {
    const play = fail(grown(), 'Di');
    expect(play.ring).toContain('Di');
    expect(fail(play, 'Di').ring).toEqual(['Ada', 'Bo', 'Cy']);
    expect(play.train().state.phase).toBe('RUNNING');
  });

  test('is suspended twice as long each time, but not after the first failure', () => {
    const play = fail(fail(grown(), 'Di'), 'Di');
    const lengths = [play.timer('suspended 1').ms];
    for (let i = 0; i < 3; i++) {
      play.train().do(ready('Di'), { type: 'suspension-end', id: 1 }, grow);
      lengths.push(fail(play, 'Di').timer('suspended 1').ms);
    }
    expect(lengths).toEqual([30_000, 60_000, 120_000, 240_000]);
  });

  test('is recognized by its browser if it reloads the page', () => {
    const play = open(3).do(join('Di', { browser: 'D' }), ready('Di'), grow);
    fail(play, 'Di')
      .do(left('Di'))
      .train()
      .do(join('Di2', { browser: 'D' }), ready('Di2'), grow);
    expect(fail(play, 'Di2').ring).toEqual(['Ada', 'Bo', 'Cy']);
  });

  test('is suspended if it alone twice reports no state before the deadline', () => {
    const play = grown();
    for (let i = 0; i < 2; i++) {
      play.linkAll();
      const { generation, phase } = play.state;
      for (const member of ['Ada', 'Bo', 'Cy'])
        play.do({ type: 'synced', member, generation, step: 0, stateHash: 'a' });
      play.do({ type: 'deadline', generation, phase }).train().do(ready('Di'), grow);
    }
    expect([play.state.phase, play.ring]).toEqual(['RUNNING', ['Ada', 'Bo', 'Cy']]);
  });
});

describe('a start with a suspended tab', () => {
  const suspensionEnd: RoomEvent = { type: 'suspension-end', id: 1 };
  const stop: RoomEvent = { type: 'stop', member: 'Ada' };

  test('leaves this tab out if enough other members are ready', () => {
    const play = withoutBo().do(stop, ready('Bo')).start();
    expect(play.ring).toEqual(['Ada', 'Cy']);
  });

  test('succeeds if this tab is the host and the only tab', () => {
    const play = withoutBo().do(stop, ready('Bo'), left('Ada'), left('Cy'), { type: 'start', member: 'Bo' });
    expect(play.ring).toEqual(['Bo']);
    expect(play.train().state.phase).toBe('RUNNING');
  });

  test('includes this tab if too few other members are ready', () => {
    const play = withoutBo({ nodes: { min: 3, max: 3 } }).do(stop, ready('Bo'));
    expect(play.start().ring).toEqual(['Ada', 'Cy', 'Bo']);
  });

  test('is automatic when enough members are ready, including this tab', () => {
    const play = withoutBo({ startAt: 3 }).do(left('Ada'), left('Bo'), left('Cy'));
    play.enter(2);
    expect(play.received('Ada', 'room')).toMatchObject({ phase: 'FORMING', waitingFor: 1 });
    expect(play.enter(3).ring).toEqual(['Ada', 'Cy', 'Bo']);
  });

  test("is refused if too few members are ready, with this tab's name and the rest of its suspension", () => {
    const play = withoutBo({ nodes: { min: 3, max: 3 } })
      .do(stop)
      .start();
    expect(play.received('Ada', 'refused').message).toBe(
      'This room needs 3 members, and 2 members are ready. Wait for more. Bo is suspended and will be tried again within 30 s.',
    );
  });

  test('includes this tab if a member expects a world that needs it', () => {
    for (const isOver of [false, true]) {
      const play = new Play(OPEN).do(join('Ada'), join('Bo'), join('Cy', { worldSize: 3 }));
      for (const member of ['Ada', 'Bo', 'Cy']) play.do(ready(member));
      breakLink(breakLink(play.start().train(), 'Ada', 'Bo'), 'Bo', 'Ada');
      if (isOver) play.do(suspensionEnd);
      expect(play.do(stop, ready('Bo')).start().ring.toSorted()).toEqual(['Ada', 'Bo', 'Cy']);
    }
  });
});

test('a rank is not suspended if only tabs of one browser report it as late, even if they are several', () => {
  for (const browsers of [
    ['one', 'one'],
    ['one', 'another'],
  ]) {
    const play = Play.running(3, { nodes: { min: 1, max: 8 }, capacity: 8 });
    for (const [i, browser] of browsers.entries()) {
      const tab = `tab ${i}`;
      play.do(grow, join(tab, { browser }), ready(tab)).train();
      const { generation } = play.state;
      play.do({ type: 'late', member: tab, generation, peers: ['Ada'] }).gather();
      if (play.state.phase === 'LINKING') play.train();
      play.do(left(tab)).train();
    }
    expect(play.ring.includes('Ada')).toBe(browsers[0] === browsers[1]);
  }
});

test.each<[Reason, RegExp]>([
  [
    'unreachable',
    /could not connect to this tab .* \(--turn\) or links through it \(--server-links on\)\. This tab will be tried again within 30 s\.$/,
  ],
  ['unstable', /failed more than once, so these ranks continue without this tab\. Check the network of this machine/],
  [
    'late',
    /Close other programs and tabs on this machine, or ask the host for a smaller batch\. This tab will be tried/,
  ],
  ['stuck', /If it does not recover by itself, reload it\. This tab will be tried/],
  ['alone', /Reload it, and check its network\. This tab will be tried/],
  ['failing', /^Each generation with this tab failed/],
])('the message about a suspension for "%s" contains the reason and the duration', (reason, sentence) => {
  const { state } = Play.running(1, { nodes: { min: 1, max: 4 } });
  const suspension = { id: 1, times: 1, reason, isOn: true };
  const notice = noticeOf({ ...state, suspensions: new Map([['Ada', suspension]]) }, 'Ada');
  expect(notice).toMatchObject({ type: 'send', message: { type: 'suspended' } });
  const { message } = notice as { message: { message: string } };
  expect(message.message).toMatch(sentence);
  expect(message.message).not.toMatch(/NaN|undefined/);
});
