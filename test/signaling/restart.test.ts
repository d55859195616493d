import { describe, expect, test } from 'vitest';
import { PROTOCOL_VERSION, type ClientMessage } from '../../src/protocol/control.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import { ManualClock } from '../manualClock.ts';
import { connections, CPU, create, enter, NO_RUN, returning, testServers, type TestMember } from './helpers.ts';

const { start, member } = testServers();

test('a locked room is unlocked if its host key is no longer valid after a restart', async () => {
  const server = await start();
  const settings = { ...NO_RUN.settings, isLocked: true };
  const back = {
    type: 'reconnect',
    version: PROTOCOL_VERSION,
    room: 'K7F3QX',
    reconnectState: { ...NO_RUN, settings },
  } as const;
  const pupil = member(server);
  await pupil.send({ ...back, name: 'Bo', member: 'member-of-bo', token: 'x'.repeat(40) });
  expect(await pupil.answer()).toBe('admitted');
  const teacher = member(server);
  await teacher.join('K7F3QX', 'Ada');
  expect(await teacher.answer()).toBe('admitted');
});

test('a member that the host removed cannot return after a restart of the server', async () => {
  const secret = 'a secret of the server';
  const server = await start({ secret });
  const [ada, bo, cy] = [member(server), member(server), member(server)];
  await ada.send(create());
  const { room, ...first } = await ada.next('admitted');
  const [boId, cyId] = [await enter(bo, room, 'Bo'), await enter(cy, room, 'Cy')];
  await ada.send({ type: 'remove', member: boId.id });
  expect(await bo.next('refused')).toMatchObject({ code: 'removed' });
  await ada.send({ type: 'lock', isLocked: true });
  const { removed, isLocked } = await cy.next('room', (m) => m.isLocked);
  expect(removed?.members).toEqual([boId.id]);
  await server.close();

  const restarted = await start({ secret });
  const settings = { ...NO_RUN.settings, isLocked };
  const reconnect = async (
    { id, token }: { id: string; token: string },
    known: { removed?: typeof removed } = {},
  ): Promise<TestMember> => {
    const one = member(restarted);
    const reconnectState = { ...NO_RUN, settings: { ...settings, ...known } };
    await one.send({
      type: 'reconnect',
      version: PROTOCOL_VERSION,
      name: 'back',
      room,
      member: id,
      token,
      reconnectState,
    });
    return one;
  };
  // The server admits the first member whatever it reports, because no other member has returned.
  const removedTab = await reconnect(boId);
  expect(await removedTab.answer()).toBe('admitted');
  // The server does not accept a list that it has not signed.
  const liar = await reconnect(cyId, { removed: { members: [boId.id, first.member], seal: removed!.seal } });
  expect(await liar.answer()).toBe('admitted');
  const host = await reconnect({ id: first.member, token: first.token }, { removed });
  expect(await host.answer()).toBe('admitted');
  expect(await removedTab.next('refused')).toMatchObject({ code: 'removed' });
  expect((await liar.next('room', (m) => m.removed !== undefined)).removed).toEqual(removed);
  expect(await (await reconnect(boId)).answer()).toBe('removed');
});

describe('a server that has restarted without a secret', () => {
  test('has separate limits for restored rooms, opened rooms and wrong codes', async () => {
    const clock = new ManualClock();
    const limits = { restoresPerMinute: 2, wrongCodesPerMinute: 1, roomBurst: 1 };
    const server = await start({ clock, limits });
    const room = server.createRoom({ job: DEFAULT_JOB, startAt: null });
    const answer = async (message: ClientMessage): Promise<string> => {
      const one = member(server);
      await one.send(message);
      return one.answer();
    };
    const reconnect = (code: string): Promise<string> => answer(returning(code, 'somebody', 'x'.repeat(40)));
    expect(await reconnect(room)).toBe('not-member');
    for (const code of ['AAAAAA', 'AAAAAB']) expect(await reconnect(code), code).toBe('admitted');
    // Right and wrong codes get the same answer.
    for (const code of ['AAAAAC', room]) expect(await reconnect(code), code).toBe('rate-limited');
    expect(await answer({ type: 'join', version: PROTOCOL_VERSION, name: 'Bo', room })).toBe('admitted');
    expect(await answer(create())).toBe('admitted');
    clock.advance(60_000);
    expect(await reconnect('AAAAAC')).toBe('admitted');
  });

  test('admits each rank of a reported ring once without its token, and then requires the new token', async () => {
    const server = await start();
    const ids = ['member-ada', 'member-bo'] as const;
    const ring = ids.map((id, i) => ({ member: id, name: id, device: CPU, browser: i, rank: null }));
    const settings = {
      job: DEFAULT_JOB,
      startAt: null,
      nodes: { min: 1, max: 8 },
      isLocked: false,
      isPausedByHost: false,
    };
    const reconnectState = {
      settings,
      run: 1,
      isRunOn: true,
      generation: 7,
      active: { generation: 7, ring, isSteady: true },
    };
    const back = (id: string): ClientMessage => ({
      type: 'reconnect',
      version: PROTOCOL_VERSION,
      room: 'K7F3QX',
      name: 'back',
      reconnectState,
      member: id,
      token: 'of-the-server-before',
    });
    const [ada, bo] = [member(server), member(server)];
    await ada.send(back(ids[0]));
    expect(await ada.answer()).toBe('admitted');
    await bo.send(back(ids[1]));
    expect(await bo.answer()).toBe('admitted');
    expect(await ada.next('go')).toEqual({ type: 'go', generation: 7 });
    bo.socket.terminate();
    await expect.poll(() => connections(server)).toBe(1);
    for (const id of [ids[1], 'somebody-else']) {
      const eve = member(server);
      await eve.send(back(id));
      expect(await eve.answer(), id).toBe('not-member');
    }
  });
});
