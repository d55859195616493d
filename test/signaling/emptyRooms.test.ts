import { describe, expect, test } from 'vitest';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import { ManualClock } from '../manualClock.ts';
import { rooms, testServers } from './helpers.ts';

const { start, member, openAndLeave } = testServers();

describe('an empty room', () => {
  test('is kept for a minute if a tab opened it; a member that joins in this minute is host', async () => {
    const clock = new ManualClock();
    const server = await start({ clock });
    const room = await openAndLeave(server);
    clock.advance(59_000);
    const again = member(server);
    await again.join(room);
    const { member: id } = await again.next('admitted');
    expect(await again.next('room')).toMatchObject({ hosts: [id], phase: 'FORMING' });
    await again.send({ type: 'heartbeat' });
    await again.next('heartbeat');
    // A minute has passed since the room became empty, but it is no longer empty.
    clock.advance(10_000);
    expect(await rooms(server)).toBe(1);
    await again.send({ type: 'leave' });
    await again.closed;
    clock.advance(60_000);
    expect(await rooms(server)).toBe(0);
    const late = member(server);
    await late.join(room);
    expect((await late.next('refused')).code).toBe('no-room');
  });

  test('has the code that the launcher chose for it, and no other room can have this code', async () => {
    const server = await start();
    expect(server.createRoom({ job: DEFAULT_JOB, startAt: null, code: 'K7F3QX' })).toBe('K7F3QX');
    expect(() => server.createRoom({ job: DEFAULT_JOB, startAt: null, code: 'K7F3QX' })).toThrow(
      /room K7F3QX already exists/,
    );
    const ada = member(server);
    await ada.join('K7F3QX');
    await ada.next('admitted');
  });

  test('is kept as long as the server runs if the launcher opened it', async () => {
    const clock = new ManualClock();
    const server = await start({ clock });
    const room = server.createRoom({ job: DEFAULT_JOB, startAt: null });
    for (let i = 0; i < 2; i++) {
      clock.advance(24 * 60 * 60 * 1000);
      const ada = member(server);
      await ada.join(room);
      await ada.next('admitted');
      await ada.send({ type: 'leave' });
      await ada.closed;
    }
    clock.advance(24 * 60 * 60 * 1000);
    expect(await rooms(server)).toBe(1);
  });

  test('is dropped when a new room is opened on a full server, beginning with the one that was empty for longest', async () => {
    const server = await start({ limits: { maxRooms: 2 } });
    const first = await openAndLeave(server);
    const second = await openAndLeave(server);
    await openAndLeave(server);
    const [ada, bo] = [member(server), member(server)];
    await ada.join(first);
    expect((await ada.next('refused')).code).toBe('no-room');
    await bo.join(second);
    await bo.next('admitted');
  });
});
