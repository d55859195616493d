import { describe, expect, test } from 'vitest';
import { PROTOCOL_VERSION } from '../../src/protocol/control.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import { DEFAULT_LIMITS } from '../../signaling/limits.ts';
import { AWAY_MS } from '../../signaling/room/index.ts';
import { ManualClock } from '../manualClock.ts';
import { connections, CPU, create, enter, testServers } from './helpers.ts';

const { start, member, pair } = testServers();

describe('members', () => {
  test('exchange signals and train a whole run', async () => {
    const { ada, bo, adaId, boId, generation } = await pair();
    const both = [ada, bo];
    const signal = { type: 'offer' as const, sdp: 'v=0' };
    await ada.send({ type: 'signal', generation, to: boId, attempt: 1, signal });
    expect(await bo.next('signal')).toEqual({ type: 'signal', generation, from: adaId, attempt: 1, signal });
    for (const one of both) await one.send({ type: 'linked', generation });
    for (const one of both) await one.next('sync');
    for (const one of both) await one.send({ type: 'synced', generation, step: 0, stateHash: 'x' });
    for (const one of both) await one.next('go');
    for (const one of both) await one.send({ type: 'finished', generation, step: 9, stateHash: 'y' });
    for (const one of both) expect(await one.next('ended')).toMatchObject({ run: 1, outcome: 'finished' });
  });

  test('keep their marks while others leave; a newcomer gets the lowest free mark', async () => {
    const server = await start();
    const ada = member(server);
    await ada.send(create());
    const { room } = await ada.next('admitted');
    const bo = member(server);
    await enter(bo, room, 'Bo');
    await enter(member(server), room, 'Cy');
    await bo.send({ type: 'leave' });
    await bo.closed;
    const di = member(server);
    await enter(di, room, 'Di');
    const marks = async () => (await di.next('room')).members.map(({ name, mark }) => [name, mark]);
    expect(await marks()).toEqual([
      ['Ada', 0],
      ['Cy', 2],
      ['Di', 1],
    ]);
  });

  test('can open a room, and the host can start the run', async () => {
    const server = await start();
    const ada = member(server);
    await ada.send(create());
    const { room, member: id, iceServers } = await ada.next('admitted');
    expect(iceServers).toEqual([]);
    expect(await ada.next('room')).toMatchObject({ hosts: [id], phase: 'FORMING', startAt: null });
    const bo = member(server);
    await enter(bo, room, 'Bo');
    await bo.send({ type: 'start' });
    expect(await bo.next('refused')).toMatchObject({ code: 'not-host' });
    await ada.send({ type: 'start' });
    expect(await ada.next('refused')).toMatchObject({ code: 'not-now' });
    await ada.send({ type: 'ready', device: CPU, stateOfRun: null });
    await ada.send({ type: 'start' });
    expect((await bo.next('prepare')).members.map((m) => m.name)).toEqual(['Ada', 'Bo']);
  });

  test('learn which members share a browser, but not the id of the browser', async () => {
    const server = await start();
    const browser = 'a-random-id-0123456789';
    const room = server.createRoom({ job: DEFAULT_JOB, startAt: 3 });
    const members = [member(server), member(server), member(server)];
    const received: string[] = [];
    for (const [i, one] of members.entries()) {
      one.socket.on('message', (data: Buffer) => received.push(data.toString()));
      await one.join(room, `tab ${i}`, i === 1 ? { rank: 0 } : { browser });
      await one.next('admitted');
      await one.send({ type: 'ready', device: CPU, stateOfRun: null });
    }
    const { members: ring } = await members[0]!.next('prepare');
    expect(ring.map(({ name, browser: number }) => [name, number])).toEqual([
      ['tab 1', 1],
      ['tab 0', 0],
      ['tab 2', 0],
    ]);
    expect(received.join()).not.toContain(browser);
  });

  test('end a run with a fixed world if they leave', async () => {
    const { ada, bo } = await pair();
    await ada.send({ type: 'leave' });
    expect((await bo.next('ended')).message).toMatch(/^Rank 0 \(Ada\) left while connecting/);
    await bo.send({ type: 'leave' });
    expect(await bo.closed).toBe(1000);
  });

  test('end a run with a fixed world some time after they lost their connection', async () => {
    const clock = new ManualClock();
    const { server, ada, bo } = await pair({ clock });
    ada.socket.terminate();
    await expect.poll(() => connections(server)).toBe(1);
    clock.advance(AWAY_MS - 1);
    await bo.send({ type: 'heartbeat' });
    await bo.next('heartbeat');
    clock.advance(1);
    expect((await bo.next('ended')).message).toMatch(/^Rank 0 \(Ada\) lost its connection while connecting/);
  });

  test('continue the run if they return in time over another connection', async () => {
    const clock = new ManualClock();
    const { server, room, ada, bo, adaId, adaToken, generation } = await pair({ clock });
    await ada.send({ type: 'linked', generation });
    ada.socket.terminate();
    await expect.poll(() => connections(server)).toBe(1);
    const again = member(server);
    const settings = { job: DEFAULT_JOB, startAt: 2, nodes: null, isLocked: false, isPausedByHost: false };
    const reconnectState = { settings, run: 1, isRunOn: true, generation, active: null };
    const back = { type: 'reconnect', version: PROTOCOL_VERSION, name: 'Ada', room, reconnectState } as const;
    await again.send({ ...back, member: adaId, token: adaToken });
    expect(await again.next('admitted')).toMatchObject({ member: adaId });
    expect(await again.next('prepare')).toMatchObject({ generation });
    clock.advance(AWAY_MS);
    for (const one of [again, bo]) await one.send({ type: 'linked', generation });
    for (const one of [again, bo]) await one.next('sync');
  });

  test('cannot be replaced by a client that reconnects with a wrong token', async () => {
    const { server, room, adaId, adaToken, generation } = await pair();
    const settings = { job: DEFAULT_JOB, startAt: 2, nodes: null, isLocked: false, isPausedByHost: false };
    const reconnectState = { settings, run: 1, isRunOn: true, generation, active: null };
    const back = { type: 'reconnect', version: PROTOCOL_VERSION, name: 'Eve', room, reconnectState } as const;
    for (const [id, token] of [
      [adaId, 'x'.repeat(40)],
      ['somebody', adaToken],
    ] as const) {
      const eve = member(server);
      await eve.send({ ...back, member: id, token });
      expect(await eve.next('refused')).toMatchObject({ code: 'not-member' });
      expect(await eve.closed).toBe(1008);
    }
  });

  test('cannot be replaced with a wrong token while they are disconnected, with or without a lasting secret', async () => {
    for (const secret of [null, 'a secret of the server']) {
      const clock = new ManualClock();
      const { server, room, ada, bo, adaId, adaToken, generation } = await pair({ clock, secret });
      ada.socket.terminate();
      await expect.poll(() => connections(server)).toBe(1);
      const settings = { job: DEFAULT_JOB, startAt: 2, nodes: null, isLocked: false, isPausedByHost: false };
      const reconnectState = { settings, run: 1, isRunOn: true, generation, active: null };
      const back = { type: 'reconnect', version: PROTOCOL_VERSION, room, reconnectState, member: adaId } as const;
      const eve = member(server);
      await eve.send({ ...back, name: 'Eve', token: 'x'.repeat(40) });
      expect(await eve.answer(), `secret ${secret}`).toBe('not-member');
      const again = member(server);
      await again.send({ ...back, name: 'Ada', token: adaToken });
      expect(await again.answer()).toBe('admitted');
      bo.socket.terminate();
    }
  });

  test('can send updates to spectators only as rank 0, at a limited rate', async () => {
    const { server, room, ada, bo } = await pair({ clock: new ManualClock(), limits: { updateBurst: 2 } });
    const wu = member(server);
    await wu.send({ type: 'join', version: PROTOCOL_VERSION, room, name: 'Wu', isSpectator: true });
    await wu.next('room', ({ spectators }) => spectators.length === 1);
    await bo.send({ type: 'spectator-update', update: 'of Bo' });
    for (let i = 0; i < 5; i++) await ada.send({ type: 'spectator-update', update: `${i}` });
    await ada.send({ type: 'heartbeat' });
    await ada.next('heartbeat');
    await wu.send({ type: 'heartbeat' });
    const received: string[] = [];
    for (const type of ['spectator-update', 'spectator-update', 'heartbeat'] as const) {
      const message = await wu.next(type);
      if (message.type === 'spectator-update') received.push(message.update);
    }
    expect(received).toEqual(['0', '1']);
  });

  test('receive an answer to each heartbeat', async () => {
    const { ada } = await pair();
    for (let i = 0; i < 3; i++) await ada.send({ type: 'heartbeat' });
    for (let i = 0; i < 3; i++) expect(await ada.next('heartbeat')).toEqual({ type: 'heartbeat' });
  });

  test('are removed if they are silent, and stay if they send heartbeats', async () => {
    const clock = new ManualClock();
    const { ada, bo } = await pair({ clock });
    clock.advance(8_000);
    await bo.send({ type: 'heartbeat' });
    await bo.next('heartbeat');
    clock.advance(4_000);
    expect((await bo.next('ended')).message).toMatch(/^Rank 0 \(Ada\) stopped responding/);
    expect((await ada.next('refused', (m) => m.code === 'silent')).message).toMatch(/12 s/);
    expect(await ada.closed).toBe(1008);
  });

  test('are disconnected if they send no message after connecting', async () => {
    const clock = new ManualClock();
    const ada = await member(await start({ clock })).opened();
    // When this answer has arrived, the server's end of the connection exists.
    clock.advance(DEFAULT_LIMITS.firstMessageMs);
    expect(await ada.next('refused')).toMatchObject({ code: 'silent' });
    await ada.closed;
  });

  test('end the run if they miss a deadline', async () => {
    const clock = new ManualClock();
    const { ada, bo, adaId, boId, generation } = await pair({ clock, limits: { silentMs: 1e9 } });
    await ada.send({ type: 'linked', generation });
    // When the next message has arrived, the report has arrived, too.
    await ada.send({ type: 'signal', generation, to: boId, attempt: 0, signal: { type: 'offer', sdp: adaId } });
    await bo.next('signal');
    clock.advance(15_000);
    expect((await bo.next('ended')).message).toMatch(/^Rank 1 \(Bo\) did not reach/);
  });
});
