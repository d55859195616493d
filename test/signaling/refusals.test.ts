import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { MAX_CONTROL_BYTES, PROTOCOL_VERSION, SIGNALING_PATH, type ClientMessage } from '../../src/protocol/control.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import { ManualClock } from '../manualClock.ts';
import type { SignalingServer } from '../../signaling/index.ts';
import { create, enter, returning, rooms, testServers } from './helpers.ts';

const { start, member, pair, onEnd } = testServers();

/** Resolves when the server has admitted a client. The client does not parse what follows. */
async function admitted(server: SignalingServer, hello: ClientMessage): Promise<void> {
  const socket = new WebSocket(server.url.replace(/^http/, 'ws') + SIGNALING_PATH);
  onEnd(() => socket.terminate());
  await once(socket, 'open');
  socket.send(JSON.stringify(hello));
  const [first] = (await once(socket, 'message')) as [Buffer];
  expect(first.toString()).toMatch(/^{"type":"admitted"/);
}

describe('the server', () => {
  test('refuses a newcomer with a wrong room code', async () => {
    const ada = member(await start());
    await ada.join('AAAAAA');
    expect((await ada.next('refused')).message).toMatch(/no room AAAAAA/);
    expect(await ada.closed).toBe(1008);
  });

  test('says for how long tabs may still return to a room after a restart', async () => {
    const clock = new ManualClock();
    const server = await start({ clock });
    const messages: string[] = [];
    for (const passed of [0, 5000, 10_000]) {
      clock.advance(passed);
      const newcomer = member(server);
      await newcomer.join('AAAAAA');
      messages.push((await newcomer.next('refused')).message);
    }
    expect(messages).toEqual([
      expect.stringMatching(
        /Check the code\. If it was open a moment ago, try again in 15 s: the server has restarted/,
      ),
      expect.stringContaining('try again in 10 s'),
      'There is no room AAAAAA here. Check the code.',
    ]);
  });

  test('refuses newcomers from an address for a minute after too many wrong room codes', async () => {
    const clock = new ManualClock();
    const server = await start({ clock, limits: { wrongCodesPerMinute: 2 } });
    const room = server.createRoom({ job: DEFAULT_JOB, startAt: null });
    const answers: string[] = [];
    for (const code of ['AAAAAA', 'AAAAAB', room]) {
      const one = member(server);
      await one.join(code);
      answers.push((await one.next('refused')).code);
    }
    expect(answers).toEqual(['no-room', 'no-room', 'rate-limited']);
    clock.advance(60_000);
    const late = member(server);
    await late.join(room);
    await late.next('admitted');
  });

  test('does not block an address that repeats the same wrong room code', async () => {
    const server = await start({ limits: { wrongCodesPerMinute: 2 } });
    const room = server.createRoom({ job: DEFAULT_JOB, startAt: null });
    for (let i = 0; i < 10; i++) {
      const waiting = member(server);
      await waiting.join('AAAAAA');
      expect(await waiting.answer()).toBe('no-room');
    }
    const late = member(server);
    await late.join(room);
    expect(await late.answer()).toBe('admitted');
  });

  test('counts wrong codes of newcomers and of reconnecting tabs with a wrong token together', async () => {
    const clock = new ManualClock();
    const { server, room, adaId, adaToken } = await pair({
      clock,
      secret: 'a secret of the server',
      limits: { wrongCodesPerMinute: 2 },
    });
    const reconnect = async (code: string, id = 'somebody', token = 'x'.repeat(40)): Promise<string> => {
      const one = member(server);
      await one.send(returning(code, id, token));
      return one.answer();
    };
    expect(await reconnect(room)).toBe('not-member');
    for (const code of ['AAAAAA', 'AAAAAA', 'AAAAAB']) expect(await reconnect(code), code).toBe('not-member');
    // Right and wrong codes get the same answer.
    for (const code of ['AAAAAA', 'AAAAAC', room]) expect(await reconnect(code), code).toBe('rate-limited');
    const guesser = member(server);
    await guesser.join(room);
    expect(await guesser.answer()).toBe('rate-limited');
    expect(await reconnect(room, adaId, adaToken)).toBe('admitted');
    clock.advance(60_000);
    expect(await reconnect(room)).toBe('not-member');
  });

  test('refuses a newcomer that requests the rank of another member', async () => {
    const server = await start();
    const room = server.createRoom({ job: DEFAULT_JOB, startAt: 2 });
    const ada = member(server);
    await ada.join(room, 'Ada', { rank: 1 });
    await ada.next('admitted');
    const bo = member(server);
    await bo.join(room, 'Bo', { rank: 1 });
    expect(await bo.next('refused')).toMatchObject({
      code: 'mismatch',
      message: expect.stringMatching(/^Ada has rank 1/) as string,
    });
    expect(await bo.closed).toBe(1008);
  });

  test('refuses to open a room whose number of members cannot run its algorithm', async () => {
    const server = await start();
    const ada = member(server);
    await ada.send({ ...create('Ada', 7), job: { ...DEFAULT_JOB, algorithm: 'two-level' } } as ClientMessage);
    expect(await ada.next('refused')).toMatchObject({
      code: 'mismatch',
      message: expect.stringMatching(/^The room cannot be opened: two-level needs groups .* 7 ranks/) as string,
    });
  });

  test('refuses a newcomer to a full room', async () => {
    const server = await start({ limits: { roomCapacity: 1 } });
    const room = server.createRoom({ job: DEFAULT_JOB, startAt: null });
    await enter(member(server), room, 'Ada');
    const bo = member(server);
    await bo.join(room);
    expect((await bo.next('refused')).code).toBe('room-full');
    expect(await bo.closed).toBe(1008);
  });

  // Each of the 512 clients receives the changes of all others.
  test(
    'admits 256 members and 256 spectators from one address, and refuses the next of each',
    { timeout: 60_000 },
    async () => {
      // The clients send no heartbeats.
      const server = await start({ clock: new ManualClock() });
      const room = server.createRoom({ job: DEFAULT_JOB, startAt: null });
      const hello = { type: 'join', version: PROTOCOL_VERSION, room, name: 'Ada' } as const;
      await Promise.all(Array.from({ length: 256 }, () => admitted(server, hello)));
      await Promise.all(Array.from({ length: 256 }, () => admitted(server, { ...hello, isSpectator: true })));
      const [late, guest] = [member(server), member(server)];
      await late.send(hello);
      expect(await late.next('refused')).toMatchObject({
        code: 'room-full',
        message: 'This room is full (256 members). Use another room, or wait until a member leaves.',
      });
      expect(await late.closed).toBe(1008);
      await guest.send({ ...hello, isSpectator: true });
      expect(await guest.next('refused')).toMatchObject({
        code: 'room-full',
        message: expect.stringMatching(/^This room has its maximum number of spectators \(256\)/) as string,
      });
    },
  );

  test('refuses a newcomer to a room that is training', async () => {
    const { server, room } = await pair();
    const cy = member(server);
    await cy.join(room);
    expect((await cy.next('refused')).code).toBe('room-running');
  });

  test('refuses to open more rooms than its limit', async () => {
    const server = await start({ limits: { maxRooms: 1 } });
    server.createRoom({ job: DEFAULT_JOB, startAt: null });
    expect(() => server.createRoom({ job: DEFAULT_JOB, startAt: null })).toThrow(
      /has its maximum number of rooms \(1\)/,
    );
    const ada = member(server);
    await ada.send(create());
    expect((await ada.next('refused')).code).toBe('rate-limited');
  });

  test('still opens rooms for an address that has sent too many wrong codes', async () => {
    const server = await start({ limits: { wrongCodesPerMinute: 1 } });
    const child = member(server);
    await child.join('AAAAAA');
    await child.next('refused');
    const teacher = member(server);
    await teacher.send(create());
    expect((await teacher.next('admitted')).type).toBe('admitted');
  });

  test('drops a new room if the member that opened it is refused', async () => {
    const server = await start({ limits: { roomCapacity: 0 } });
    const ada = member(server);
    await ada.send(create());
    expect((await ada.next('refused')).code).toBe('room-full');
    await ada.closed;
    expect(await rooms(server)).toBe(0);
  });

  test.each([
    ['invalid JSON', '{'],
    ['null', 'null'],
    ['of another version', JSON.stringify({ ...create(), version: 99 })],
    ['a signal that simple-peer would execute', '{"type":"signal","signal":{"type":"renegotiate"}}'],
    ['the first message and opens or joins no room', '{"type":"heartbeat"}'],
    ['binary', Buffer.from('{}')],
  ])('refuses a message if it is %s', async (_, data) => {
    const ada = member(await start());
    await ada.raw(data);
    expect((await ada.next('refused')).code).toBe('bad-message');
    expect(await ada.closed).toBe(1008);
  });

  test('refuses a second room over the same connection', async () => {
    const ada = member(await start());
    await ada.send(create());
    await ada.send(create());
    expect((await ada.next('refused')).code).toBe('bad-message');
  });

  test('disconnects a member that sends too many messages in a short time', async () => {
    const { ada, bo } = await pair({ clock: new ManualClock(), limits: { messageBurst: 5 } });
    for (let i = 0; i < 5; i++) await ada.send({ type: 'heartbeat' });
    expect((await ada.next('refused')).code).toBe('rate-limited');
    expect((await bo.next('ended')).message).toMatch(/was disconnected by the server/);
  });

  test('closes a connection with an oversized frame, and still accepts other connections', async () => {
    const server = await start();
    const ada = member(server);
    await ada.raw('x'.repeat(MAX_CONTROL_BYTES + 1));
    expect(await ada.closed).toBe(1009);
    await member(server).send(create());
  });

  test('closes the connection of a client that never reads', async () => {
    const { ada, bo, adaId, generation } = await pair({ limits: { messageBurst: 10_000, maxUnsentBytes: 100_000 } });
    ada.socket.pause();
    const sdp = 'x'.repeat(48 * 1024);
    for (let attempt = 0; attempt < 400; attempt++) {
      await bo.send({ type: 'signal', generation, to: adaId, attempt, signal: { type: 'offer', sdp } });
    }
    expect((await bo.next('ended')).message).toMatch(/^Rank 0 \(Ada\) lost its connection/);
  });

  test('refuses WebSockets with another path or from pages of other origins', async () => {
    const server = await start();
    await expect(member(server, { path: '/other' }).opened()).rejects.toThrow('404');
    const { code } = await member(server, { origin: 'https://evil.example' }).next('refused');
    expect(code).toBe('wrong-origin');
    await member(server, { origin: server.url }).opened();
  });

  test('refuses more sockets from one address than the limit allows', async () => {
    const server = await start({ limits: { socketsPerAddress: 1 } });
    const ada = await member(server).opened();
    await expect(member(server).opened()).rejects.toThrow('429');
    ada.socket.close();
    await ada.closed;
    // The server may notice the end of the connection a moment after the client.
    await expect
      .poll(() =>
        member(server)
          .opened()
          .then(() => 'open', String),
      )
      .toBe('open');
  });
});
