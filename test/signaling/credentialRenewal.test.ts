import { afterEach, describe, expect, test, vi } from 'vitest';
import { PROTOCOL_VERSION } from '../../src/protocol/control.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import { create, NO_RUN, testServers } from './helpers.ts';

const { start, member } = testServers();
afterEach(() => void vi.useRealTimers());

const HOUR_MS = 60 * 60 * 1000;

describe('a server that runs for more than a day', () => {
  test('renews credentials after half of their lifetime, and then admits a returning member only with the new ones', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const server = await start({ secret: 'a secret of the server' });
    const ada = member(server);
    await ada.send(create());
    const { room, member: id, token, hostKey } = await ada.next('admitted');
    await ada.send({ type: 'lock', isLocked: true });
    const bo = member(server);
    const renewals: { token: string; hostKey: string | null }[] = [];
    let heartbeats = 0;
    ada.socket.on('message', (data: Buffer) => {
      const message = JSON.parse(data.toString()) as { type: string; token: string; hostKey: string | null };
      if (message.type === 'credentials') renewals.push(message);
      if (message.type === 'heartbeat') heartbeats++;
    });
    for (let hour = 1; hour <= 25; hour++) {
      vi.advanceTimersByTime(HOUR_MS);
      await ada.send({ type: 'heartbeat' });
      await expect.poll(() => heartbeats, { interval: 1 }).toBe(hour);
      expect(renewals).toHaveLength(Math.floor(hour / 12));
    }
    ada.socket.terminate();
    const renewed = renewals.at(-1)!;
    const reconnectState = { ...NO_RUN, settings: { ...NO_RUN.settings, isLocked: true } };
    const back = {
      type: 'reconnect',
      version: PROTOCOL_VERSION,
      name: 'Ada',
      room,
      member: id,
      reconnectState,
    } as const;
    const old = member(server);
    await old.send({ ...back, token, hostKey: hostKey! });
    expect(await old.answer()).toBe('not-member');
    const again = member(server);
    await again.send({ ...back, token: renewed.token, hostKey: renewed.hostKey! });
    expect(await again.answer()).toBe('admitted');
    expect((await again.next('room')).hosts).toEqual([id]);
    await bo.join(room, 'Bo');
    expect(await bo.answer()).toBe('room-locked');
  });

  test('renews the token of a member without a host key', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const server = await start();
    const room = server.createRoom({ job: DEFAULT_JOB, startAt: null });
    const ada = member(server);
    await ada.join(room);
    const { token } = await ada.next('admitted');
    vi.advanceTimersByTime(13 * HOUR_MS);
    await ada.send({ type: 'heartbeat' });
    const renewed = await ada.next('credentials');
    expect(renewed.hostKey).toBeNull();
    expect(renewed.token).not.toBe(token);
  });
});
