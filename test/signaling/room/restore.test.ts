import { describe, expect, test } from 'vitest';
import { RESTORE_MS, type RoomEvent } from '../../../signaling/room/index.ts';
import { MAX_REMOVED, withRemoved } from '../../../signaling/room/state.ts';
import { roomSettingsOf } from '../../../src/protocol/room.ts';
import { OPEN, grow, left, away, missed, back, open, restored, active, steady } from './elasticRoom.ts';
import { join, Play, ready } from './play.ts';

describe('after a restart of the server,', () => {
  test('ranks that train continue without interruption', () => {
    const before = open(3);
    const play = restored(before, steady(before, 'Cy'));
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1, run: 1 });
    expect(play.ring).toEqual(['Ada', 'Bo', 'Cy']);
    expect(play.effects).toContainEqual({ type: 'admit', member: 'Cy' });
    expect(play.timer('away Ada')).toMatchObject({ ms: RESTORE_MS, event: { type: 'missed', member: 'Ada' } });
    expect(play.effects).toContainEqual({ type: 'clearTimer', key: 'away Cy' });
    play.do(steady(before, 'Ada'), steady(before, 'Bo'));
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1, isRestoring: false });
    expect(play.sentTo('Bo').map((m) => m.type)).toEqual(['go', 'room']);
    play.report('finished', ['x'], 9);
    expect(play.received('Bo', 'ended')).toMatchObject({ run: 1, outcome: 'finished' });
  });

  test('all ranks get as much time to return as the busy line of the first rank may need', () => {
    const before = open(2);
    const play = restored(before, back(before, 'Ada', { active: active(before), lateMs: 90_000 }));
    expect(['away Bo', 'restore-timeout'].map((key) => play.timer(key)?.ms)).toEqual([90_000, 90_000]);
  });

  test('the next generation excludes a rank that does not return, and has a new number', () => {
    const before = open(3);
    const play = restored(before, steady(before, 'Ada'), steady(before, 'Bo'), missed('Cy'));
    expect(play.ring).toEqual(['Ada', 'Bo']);
    expect(play.state.generation).toBe(1000);
  });

  test('newcomers get no ranks until all ranks have returned', () => {
    const before = open(2);
    const play = restored(before, steady(before, 'Ada')).do(join('Cy'), ready('Cy'));
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
    play.do(steady(before, 'Bo'));
    expect([...play.ring].sort()).toEqual(['Ada', 'Bo', 'Cy']);
  });

  test('newcomers that were about to join the run join it again', () => {
    const before = open(2).enter(3).do(grow);
    expect(before.state).toMatchObject({ phase: 'LINKING', generation: 2 });
    const old = { generation: 1, ring: before.state.ring.slice(0, 2), isSteady: true };
    const play = restored(before, back(before, 'Ada', { active: old }), back(before, 'Cy'));
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
    play.do(ready('Cy'), back(before, 'Bo', { active: old }));
    expect(play.state.phase).toBe('LINKING');
    expect([...play.ring].sort()).toEqual(['Ada', 'Bo', 'Cy']);
  });

  test('the later of two reported generations is restored', () => {
    const before = open(3);
    const late = open(3).do(left('Cy')).train();
    const play = restored(before, back(before, 'Cy', { active: active(before, false) }), steady(late, 'Bo'));
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 2 });
    expect(play.ring).toEqual(['Ada', 'Bo']);
    play.do(steady(late, 'Ada'));
    // Cy joins again.
    expect(play.ring).toEqual(['Ada', 'Bo', 'Cy']);
  });

  test('another generation begins if a rank reports that it has left its generation, in any order of returns', () => {
    const before = open(2);
    for (const order of [
      [back(before, 'Ada'), steady(before, 'Bo')],
      [steady(before, 'Bo'), back(before, 'Ada')],
    ]) {
      const play = restored(before, ...order, ready('Ada', 1));
      expect(play.state).toMatchObject({ phase: 'LINKING', generation: 1000 });
      expect([...play.ring].sort()).toEqual(['Ada', 'Bo']);
    }
  });

  test('another generation begins after all ranks have returned if one of them reported a failure', () => {
    const before = open(2);
    const stalled = { active: active(before, false) };
    const play = restored(before, back(before, 'Ada', stalled));
    play.do({ type: 'failed', member: 'Ada', generation: 1, message: 'Timed out.', scope: 'generation' });
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
    play.do(steady(before, 'Bo'));
    expect(play.state.phase).toBe('LINKING');
    const reported = restored(before, steady(before, 'Ada'));
    reported.do({ type: 'broken', member: 'Ada', generation: 1, peers: ['Bo'] }, steady(before, 'Bo'));
    expect(reported.state.phase).toBe('LINKING');
  });

  test.each(['LINKING', 'SYNCING'] as const)('a run that stopped in its first %s begins again', (phase) => {
    const before = new Play({ ...OPEN }).enter(3).do({ type: 'start', member: 'Ada' });
    if (phase === 'SYNCING') before.linkAll();
    expect(before.state).toMatchObject({ phase, generation: 1 });
    const reported = phase === 'SYNCING' ? { active: active(before, false) } : {};
    const names = ['Ada', 'Bo', 'Cy'];
    const play = restored(before, ...names.map((name) => back(before, name, reported)));
    play.do(...names.map((name) => ready(name)), { type: 'restore-timeout' });
    expect(play.state).toMatchObject({ phase: 'LINKING', run: 1, generation: 1000 });
    expect([...play.ring].sort()).toEqual(names);
  });

  test('a run does not begin without its state if a returned member has seen it train', () => {
    const before = open(2).enter(3).do(away('Ada'), away('Bo'));
    const play = restored(before, back(before, 'Cy')).do(ready('Cy'), { type: 'restore-timeout' });
    expect(play.state.phase).toBe('PAUSED');
  });

  test('a paused run resumes when members with its state have reported this state', () => {
    const before = Play.running(2, { nodes: { min: 2, max: 3 } }).do(left('Bo'));
    const play = restored(before, back(before, 'Ada'), ready('Ada', 1), join('Cy'), ready('Cy'));
    expect(play.state).toMatchObject({ phase: 'PAUSED', run: 1, isRestoring: true });
    play.do({ type: 'restore-timeout' });
    expect(play.ring).toEqual(['Ada', 'Cy']);
    expect(play.state).toMatchObject({ phase: 'LINKING', run: 1 });
  });

  test('a run that the host had paused stays paused, even if ranks missed the pause', () => {
    const before = open(2).do({ type: 'pause', member: 'Ada' });
    const held = restored(before, back(before, 'Ada'), back(before, 'Bo'), ready('Ada', 1), ready('Bo', 1), {
      type: 'restore-timeout',
    });
    expect(held.state).toMatchObject({ phase: 'PAUSED', isPausedByHost: true, run: 1 });
    expect(held.do({ type: 'resume', member: 'Ada' }).ring).toEqual(['Ada', 'Bo']);

    const late = open(2);
    late.enter(3).state = { ...late.state, isPausedByHost: true };
    const play = restored(late, back(late, 'Cy'), steady(late, 'Ada'), steady(late, 'Bo'));
    expect(play.state).toMatchObject({ phase: 'PAUSED', isPausedByHost: true });
    expect(play.received('Ada', 'pause').generation).toBe(1);
  });

  test('a paused run prefers members with its state if more members are ready than it can have ranks', () => {
    const before = Play.running(2, { nodes: { min: 1, max: 2 } });
    const bystander = [back(before, 'Di'), ready('Di')];
    const ranks = ['Ada', 'Bo'].flatMap((member) => [back(before, member), ready(member, 1)]);
    expect(restored(before, ...bystander, ...ranks, { type: 'restore-timeout' }).ring).toEqual(['Ada', 'Bo']);
  });

  test('a paused run prefers members with its state, even if they return after others', () => {
    const before = Play.running(2, { nodes: { min: 2, max: 2 } }).do({ type: 'pause', member: 'Ada' });
    const play = restored(before, back(before, 'Di'), back(before, 'Ada'), { type: 'restore-timeout' });
    play.do(ready('Di'), back(before, 'Bo'), ready('Ada', 1), ready('Bo', 1), { type: 'resume', member: 'Di' });
    expect([...play.ring].sort()).toEqual(['Ada', 'Bo']);
  });

  test('no other run starts while ranks of the old run may still return', () => {
    const before = new Play({ ...OPEN, startAt: 2 }).enter(2).train();
    const bystander = back(before, 'Cy', { run: 0, isRunOn: false, generation: 0 });
    const play = restored(before, bystander, ready('Cy'), { type: 'start', member: 'Cy' });
    expect(play.received('Cy', 'refused').code).toBe('not-now');
    expect(play.state.phase).toBe('FORMING');
    play.do(steady(before, 'Ada'), steady(before, 'Bo'));
    expect([...play.ring].sort()).toEqual(['Ada', 'Bo', 'Cy']);
    // If no rank returns, the run starts.
    const alone = restored(
      before,
      bystander,
      ready('Cy'),
      { type: 'restore-timeout' },
      { type: 'start', member: 'Cy' },
    );
    expect(alone.state.phase).toBe('LINKING');
  });

  test('a run that has ended does not continue, even if a returning member reports that it trains', () => {
    const before = open(2).report('finished', ['x'], 9);
    const over = { run: 1, isRunOn: false };
    const missedIt = back(before, 'Ada', {
      active: { generation: 1, ring: open(2).state.ring as never, isSteady: true },
    });
    const first = restored(before, back(before, 'Bo', over), missedIt);
    expect(first.received('Ada', 'ended')).toMatchObject({ run: 1 });
    expect(first.state.phase).toBe('FORMING');
    const second = restored(before, missedIt, back(before, 'Bo', over));
    expect(second.state.phase).toBe('FORMING');
    expect(second.effects.some((e) => e.type === 'send' && e.message.type === 'ended' && e.to.includes('Ada'))).toBe(
      true,
    );
  });

  test('a locked room stays locked, and the member with the host key is host', () => {
    const before = open(2).do({ type: 'lock', member: 'Ada', isLocked: true });
    const play = restored(before, steady(before, 'Ada'), { ...steady(before, 'Bo'), holdsKey: true } as RoomEvent);
    expect(play.received('Ada', 'room')).toMatchObject({ isLocked: true, hosts: ['Bo'] });
    play.do(join('Cy'));
    expect(play.received('Cy', 'refused').code).toBe('room-locked');
  });

  test('members that the host removed cannot return, in any order of returns', () => {
    const before = open(3).do({ type: 'remove', member: 'Ada', whom: 'Cy' }).train();
    const removed = { members: ['Cy'], seal: 'good' };
    const knows = (member: string): RoomEvent =>
      back(before, member, {
        active: active(before),
        settings: { ...roomSettingsOf(before.state), removed },
      });
    const missedIt = open(3);
    for (const order of [
      [steady(missedIt, 'Cy'), knows('Bo'), steady(before, 'Ada')],
      [knows('Bo'), steady(missedIt, 'Cy'), steady(before, 'Ada')],
      [steady(before, 'Ada'), steady(missedIt, 'Cy'), knows('Bo')],
    ]) {
      const play = restored(before);
      const codes: string[] = [];
      for (const event of order) {
        for (const effect of play.do(event).effects) {
          if (effect.type === 'expel') codes.push(effect.code);
          if (effect.type === 'send' && effect.message.type === 'refused') codes.push(effect.message.code);
        }
      }
      expect(codes).toEqual(['removed']);
      expect(play.state.members.map(({ member }) => member).sort()).toEqual(['Ada', 'Bo']);
      expect([...play.state.removed]).toEqual(['Cy']);
      expect([...play.ring].sort()).toEqual(['Ada', 'Bo']);
      play.do(steady(missedIt, 'Cy'));
      expect(play.received('Cy', 'refused').code).toBe('removed');
    }
    // Cy is removed even if it reports its own removal.
    const play = restored(before, steady(missedIt, 'Cy'), knows('Cy'));
    expect(play.effects).toContainEqual(expect.objectContaining({ type: 'expel', member: 'Cy', code: 'removed' }));
    expect(play.state.hidden.has('Cy')).toBe(false);
  });

  test('a run with a fixed world continues if it was training, and then ends when a rank fails', () => {
    const before = Play.running(2);
    const play = restored(before, steady(before, 'Ada'));
    expect(play.state).toMatchObject({ phase: 'RUNNING', generation: 1 });
    play.do({ type: 'failed', member: 'Ada', generation: 1, message: 'Timed out.', scope: 'generation' });
    expect(play.received('Ada', 'ended').message).toMatch(/Timed out/);
    const gone = restored(before, steady(before, 'Ada'), missed('Bo'));
    expect(gone.received('Ada', 'ended').message).toMatch(/^Rank 1 \(Bo\) lost its connection while training/);
  });

  test('a late rank learns that its run has ended if all other ranks have left', () => {
    const before = Play.running(2);
    const play = restored(before, steady(before, 'Ada'), left('Ada'), missed('Bo'));
    expect(play.state).toMatchObject({ phase: 'FORMING', isRestoring: false });
    play.do(steady(before, 'Bo'));
    expect(play.received('Bo', 'ended')).toMatchObject({ run: 1, outcome: 'failed' });
  });

  test('a run with a fixed world ends if it had not begun to train', () => {
    const linking = new Play().enter(2).start();
    const play = restored(linking, back(linking, 'Ada'), back(linking, 'Bo'));
    expect(play.state.phase).toBe('FORMING');
    play.do({ type: 'restore-timeout' });
    expect(play.received('Bo', 'ended')).toMatchObject({ run: 1, outcome: 'failed' });
    const syncing = new Play().enter(2).start().linkAll();
    const both = ['Ada', 'Bo'].map((member) => back(syncing, member, { active: active(syncing, false) }));
    expect(restored(syncing, ...both).received('Ada', 'ended').outcome).toBe('failed');
  });
});

describe('the reported state of a returning member', () => {
  const MAX = 2 ** 32 - 1;

  test('is ignored if it names an unknown generation, unless the room was restored', () => {
    const play = new Play(OPEN).enter(2).do(away('Bo'));
    play.do(back(play, 'Bo', { generation: MAX, run: MAX, isRunOn: true })).start();
    expect(play.state).toMatchObject({ run: 1, generation: 1, highestReported: 0 });
    play.train().do(away('Bo'), back(play, 'Bo', { generation: MAX }), { type: 'pause', member: 'Ada' });
    expect(play.received('Ada', 'pause').generation).toBe(1);
    play.do({ type: 'resume', member: 'Ada' });
    expect(play.received('Ada', 'prepare').generation).toBe(2);
  });

  test.each([
    ['run', { run: MAX }],
    ['generation', { generation: MAX }],
    ['present generation', { active: { generation: MAX, ring: [...open(3).state.ring], isSteady: true } }],
  ])('lets a restored room expel the member if its %s is impossible', (_, claim) => {
    const before = open(3);
    const liar = back(before, 'Cy', claim);
    for (const order of [
      [liar, steady(before, 'Ada'), steady(before, 'Bo'), missed('Cy')],
      [steady(before, 'Ada'), steady(before, 'Bo'), liar],
      [steady(before, 'Ada'), liar, steady(before, 'Bo')],
    ]) {
      const play = restored(before);
      let code: string | null = null;
      for (const event of order) {
        for (const effect of play.do(event).effects) if (effect.type === 'expel') code = effect.code;
      }
      expect(code).toBe('not-member');
      expect(play.ring).toEqual(['Ada', 'Bo']);
      expect(play.state).toMatchObject({ isRestoring: false, phase: 'LINKING', run: 1, generation: 1000 });
    }
  });

  test('is ignored if the member was not a rank of the reported generation', () => {
    const before = open(4);
    const play = restored(before);
    const ring = [...before.state.ring];
    play.do(
      back(before, 'Di', {
        active: { generation: 4, ring: ring.filter(({ member }) => member !== 'Di'), isSteady: true },
      }),
    );
    expect(play.state.members.map(({ member }) => member)).toEqual(['Di']);
    play.do(steady(before, 'Ada'));
    expect(play.state.hidden.get('Ada')).toMatchObject({ isAway: false });
  });

  test('contains only the latest removed members, up to a limit', () => {
    const names = Array.from({ length: MAX_REMOVED + 2 }, (_, i) => `tab-${i}`);
    const removed = names.reduce<ReadonlySet<string>>(withRemoved, new Set());
    expect([...removed]).toEqual(names.slice(2));
    expect(withRemoved(removed, 'tab-5')).toBe(removed);
  });

  test('is accepted with a high generation number, because the clock of the former server may have been ahead', () => {
    const before = open(2);
    before.state = { ...before.state, generation: 4600 };
    const play = restored(before, steady(before, 'Ada'), steady(before, 'Bo'));
    expect(play.state).toMatchObject({ isRestoring: false, phase: 'RUNNING', generation: 4600 });
    play.enter(3);
    expect(play.state).toMatchObject({ phase: 'LINKING', generation: 4601 });
  });
});
