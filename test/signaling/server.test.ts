import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { MAX_CONTROL_BYTES, PROTOCOL_VERSION, type ClientMessage } from '../../src/protocol/control.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import { startSignaling, type SignalingOptions, type SignalingServer } from '../../signaling/index.ts';
import { AWAY_MS } from '../../signaling/room/index.ts';
import { ManualClock } from '../manualClock.ts';
import { CPU, enter, TestMember } from './helpers.ts';

const HOUR_MS = 60 * 60 * 1000;

const open: (() => Promise<void>)[] = [];
afterEach(async () => {
  vi.useRealTimers();
  while (open.length > 0) await open.pop()!();
});

async function start(options: SignalingOptions = {}): Promise<SignalingServer> {
  const server = await startSignaling({ logLevel: 'silent', ...options });
  open.push(() => server.close());
  return server;
}

function member(server: SignalingServer, options: ConstructorParameters<typeof TestMember>[1] = {}): TestMember {
  const one = new TestMember(server, options);
  open.push(() => {
    one.socket.terminate();
    return Promise.resolve();
  });
  return one;
}

const create = (name = 'Ada', startAt: number | null = null): ClientMessage => ({
  type: 'create',
  version: PROTOCOL_VERSION,
  name,
  job: DEFAULT_JOB,
  startAt,
  nodes: null,
});

/** The reconnectState of a member that remembers no run. */
const NOTHING = {
  settings: { job: DEFAULT_JOB, startAt: null, nodes: null, isLocked: false, isPausedByHost: false },
  run: 0,
  isRunOn: false,
  generation: 0,
  active: null,
};
const returning = (room: string, id: string, token: string): ClientMessage => ({
  type: 'reconnect',
  version: PROTOCOL_VERSION,
  name: 'back',
  room,
  member: id,
  token,
  reconnectState: NOTHING,
});

async function health(server: SignalingServer): Promise<Record<string, unknown>> {
  return (await (await fetch(`${server.url}/healthz`)).json()) as Record<string, unknown>;
}

async function rooms(server: SignalingServer): Promise<unknown> {
  return (await health(server))['rooms'];
}

/** Sockets that the server has not yet seen closed. */
async function connections(server: SignalingServer): Promise<unknown> {
  return (await health(server))['connections'];
}

/** Opens a room from a tab, and leaves it. */
async function openAndLeave(server: SignalingServer): Promise<string> {
  const ada = member(server);
  await ada.send(create());
  const { room } = await ada.next('admitted');
  await ada.send({ type: 'leave' });
  await ada.closed;
  return room;
}

/** Two members in a running room. */
async function pair(options: SignalingOptions = {}) {
  const server = await start(options);
  const room = server.createRoom({ job: DEFAULT_JOB, startAt: 2 });
  const [ada, bo] = [member(server), member(server)];
  const { id: adaId, token: adaToken } = await enter(ada, room, 'Ada');
  const { id: boId } = await enter(bo, room, 'Bo');
  const { generation } = await ada.next('prepare');
  await bo.next('prepare');
  return { server, room, ada, bo, adaId, adaToken, boId, generation };
}

describe('members', () => {
  test('go through a whole run', async () => {
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

  test('open a room, and the host starts it', async () => {
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

  test('see which of them share a browser, and nothing of its id', async () => {
    const server = await start();
    const browser = 'a-random-id-0123456789';
    const room = server.createRoom({ job: DEFAULT_JOB, startAt: 3 });
    const members = [member(server), member(server), member(server)];
    const heard: string[] = [];
    for (const [i, one] of members.entries()) {
      one.socket.on('message', (data: Buffer) => heard.push(data.toString()));
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
    expect(heard.join()).not.toContain(browser);
  });

  test('who leaves ends the run', async () => {
    const { ada, bo } = await pair();
    await ada.send({ type: 'leave' });
    expect((await bo.next('ended')).message).toMatch(/^Rank 0 \(Ada\) left while connecting/);
    await bo.send({ type: 'leave' });
    expect(await bo.closed).toBe(1000);
  });

  test('who is gone without a word ends the run, once it could have come back', async () => {
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

  test('who comes back in time goes on, over another connection', async () => {
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

  test('nobody else takes the place of a member', async () => {
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

  test('nobody else takes the place of a member that is away for a moment, with or without a secret', async () => {
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

  test('who watches hears what rank 0 tells, at a pace', async () => {
    const { server, room, ada, bo } = await pair({ clock: new ManualClock(), limits: { updateBurst: 2 } });
    const wu = member(server);
    await wu.send({ type: 'join', version: PROTOCOL_VERSION, room, name: 'Wu', isSpectator: true });
    await wu.next('room', ({ spectators }) => spectators.length === 1);
    await bo.send({ type: 'spectator-update', update: 'of Bo' });
    for (let i = 0; i < 5; i++) await ada.send({ type: 'spectator-update', update: `${i}` });
    await ada.send({ type: 'heartbeat' });
    await ada.next('heartbeat');
    await wu.send({ type: 'heartbeat' });
    const heard: string[] = [];
    for (const type of ['spectator-update', 'spectator-update', 'heartbeat'] as const) {
      const message = await wu.next(type);
      if (message.type === 'spectator-update') heard.push(message.update);
    }
    expect(heard).toEqual(['0', '1']);
  });

  test('hear an answer to each heartbeat', async () => {
    const { ada } = await pair();
    for (let i = 0; i < 3; i++) await ada.send({ type: 'heartbeat' });
    for (let i = 0; i < 3; i++) expect(await ada.next('heartbeat')).toEqual({ type: 'heartbeat' });
  });

  test('who is silent is gone, who sends heartbeats is not', async () => {
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

  test('who connects and says nothing is closed', async () => {
    const clock = new ManualClock();
    const ada = await member(await start({ clock })).opened();
    // The server's side of the connection exists once its answer is here.
    clock.advance(5_000);
    expect(await ada.next('refused')).toMatchObject({ code: 'silent' });
    await ada.closed;
  });

  test('a missed deadline ends the run', async () => {
    const clock = new ManualClock();
    const { ada, bo, adaId, boId, generation } = await pair({ clock, limits: { silentMs: 1e9 } });
    await ada.send({ type: 'linked', generation });
    // What follows proves that the report has arrived.
    await ada.send({ type: 'signal', generation, to: boId, attempt: 0, signal: { type: 'offer', sdp: adaId } });
    await bo.next('signal');
    clock.advance(15_000);
    expect((await bo.next('ended')).message).toMatch(/^Rank 1 \(Bo\) did not reach/);
  });
});

test('a lock whose keys a restart has made void keeps nobody out, its host least of all', async () => {
  const server = await start();
  const settings = { ...NOTHING.settings, isLocked: true };
  const back = {
    type: 'reconnect',
    version: PROTOCOL_VERSION,
    room: 'K7F3QX',
    reconnectState: { ...NOTHING, settings },
  } as const;
  const pupil = member(server);
  await pupil.send({ ...back, name: 'Bo', member: 'member-of-bo', token: 'x'.repeat(40) });
  expect(await pupil.answer()).toBe('admitted');
  const teacher = member(server);
  await teacher.join('K7F3QX', 'Ada');
  expect(await teacher.answer()).toBe('admitted');
});

describe('a run of more than a day', () => {
  test('its members are given new credentials half-way, and come back with them to where they were', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const server = await start({ secret: 'a secret of the server' });
    const ada = member(server);
    await ada.send(create());
    const { room, member: id, token, hostKey } = await ada.next('admitted');
    await ada.send({ type: 'lock', isLocked: true });
    const bo = member(server);
    const given: { token: string; hostKey: string | null }[] = [];
    let heartbeats = 0;
    ada.socket.on('message', (data: Buffer) => {
      const message = JSON.parse(data.toString()) as { type: string; token: string; hostKey: string | null };
      if (message.type === 'credentials') given.push(message);
      if (message.type === 'heartbeat') heartbeats++;
    });
    for (let hour = 1; hour <= 25; hour++) {
      vi.advanceTimersByTime(HOUR_MS);
      await ada.send({ type: 'heartbeat' });
      await expect.poll(() => heartbeats, { interval: 1 }).toBe(hour);
      expect(given).toHaveLength(Math.floor(hour / 12));
    }
    ada.socket.terminate();
    const renewed = given.at(-1)!;
    const reconnectState = { ...NOTHING, settings: { ...NOTHING.settings, isLocked: true } };
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

  test('who has no host key is given none with a new token', async () => {
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

describe('refusals', () => {
  test('a wrong code', async () => {
    const ada = member(await start());
    await ada.join('AAAAAA');
    expect((await ada.next('refused')).message).toMatch(/no room AAAAAA/);
    expect(await ada.closed).toBe(1008);
  });

  test('too many wrong codes from one address, and only for a minute', async () => {
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

  test('a class that waits with the link of yesterday keeps nobody of its address from joining', async () => {
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

  test('wrong codes in what returning tabs say, which have no proof, as those in what newcomers say', async () => {
    const clock = new ManualClock();
    const { server, room, adaId, adaToken } = await pair({
      clock,
      secret: 'a secret of the server',
      limits: { wrongCodesPerMinute: 2 },
    });
    const comeBack = async (code: string, id = 'somebody', token = 'x'.repeat(40)): Promise<string> => {
      const one = member(server);
      await one.send(returning(code, id, token));
      return one.answer();
    };
    expect(await comeBack(room)).toBe('not-member');
    for (const code of ['AAAAAA', 'AAAAAA', 'AAAAAB']) expect(await comeBack(code), code).toBe('not-member');
    // One answer for right and wrong ones.
    for (const code of ['AAAAAA', 'AAAAAC', room]) expect(await comeBack(code), code).toBe('rate-limited');
    const guesser = member(server);
    await guesser.join(room);
    expect(await guesser.answer()).toBe('rate-limited');
    expect(await comeBack(room, adaId, adaToken)).toBe('admitted');
    clock.advance(60_000);
    expect(await comeBack(room)).toBe('not-member');
  });

  test('a rank that another member has', async () => {
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

  test('a full room', async () => {
    const server = await start({ limits: { roomCapacity: 1 } });
    const room = server.createRoom({ job: DEFAULT_JOB, startAt: null });
    await enter(member(server), room, 'Ada');
    const bo = member(server);
    await bo.join(room);
    expect((await bo.next('refused')).code).toBe('room-full');
    expect(await bo.closed).toBe(1008);
  });

  test('a whole class behind one address is let in', async () => {
    const server = await start();
    const room = server.createRoom({ job: DEFAULT_JOB, startAt: null });
    const members = Array.from({ length: 64 }, () => member(server));
    await Promise.all(members.map((one, i) => enter(one, room, `pupil ${i}`)));
    const last = member(server);
    await last.join(room);
    expect((await last.next('refused')).code).toBe('room-full');
  });

  test('a room that is training', async () => {
    const { server, room } = await pair();
    const cy = member(server);
    await cy.join(room);
    expect((await cy.next('refused')).code).toBe('room-running');
  });

  test('more rooms than the server may hold', async () => {
    const server = await start({ limits: { maxRooms: 1 } });
    server.createRoom({ job: DEFAULT_JOB, startAt: null });
    expect(() => server.createRoom({ job: DEFAULT_JOB, startAt: null })).toThrow(/has 1 rooms, its maximum/);
    const ada = member(server);
    await ada.send(create());
    expect((await ada.next('refused')).code).toBe('rate-limited');
  });

  test('wrong codes keep nobody of the same address from opening a room', async () => {
    const server = await start({ limits: { wrongCodesPerMinute: 1 } });
    const child = member(server);
    await child.join('AAAAAA');
    await child.next('refused');
    const teacher = member(server);
    await teacher.send(create());
    await teacher.next('admitted');
  });

  test('a room that does not take its creator leaves nothing behind', async () => {
    const server = await start({ limits: { roomCapacity: 0 } });
    const ada = member(server);
    await ada.send(create());
    expect((await ada.next('refused')).code).toBe('room-full');
    await ada.closed;
    expect(await rooms(server)).toBe(0);
  });

  test.each([
    ['no JSON', '{'],
    ['null', 'null'],
    ['another version', JSON.stringify({ ...create(), version: 99 })],
    ['a signal that simple-peer would act on', '{"type":"signal","signal":{"type":"renegotiate"}}'],
    ['a first message out of place', '{"type":"heartbeat"}'],
    ['binary', Buffer.from('{}')],
  ])('%s', async (_, data) => {
    const ada = member(await start());
    await ada.raw(data);
    expect((await ada.next('refused')).code).toBe('bad-message');
    expect(await ada.closed).toBe(1008);
  });

  test('a second room on one connection', async () => {
    const ada = member(await start());
    await ada.send(create());
    await ada.send(create());
    expect((await ada.next('refused')).code).toBe('bad-message');
  });

  test('a flood of messages', async () => {
    const { ada, bo } = await pair({ limits: { messageBurst: 5 } });
    for (let i = 0; i < 5; i++) await ada.send({ type: 'heartbeat' });
    expect((await ada.next('refused')).code).toBe('rate-limited');
    expect((await bo.next('ended')).message).toMatch(/was disconnected by the server/);
  });

  test('an oversize frame ends its connection, not the server', async () => {
    const server = await start();
    const ada = member(server);
    await ada.raw('x'.repeat(MAX_CONTROL_BYTES + 1));
    expect(await ada.closed).toBe(1009);
    await member(server).send(create());
  });

  test('a reader that never reads', async () => {
    const { ada, bo, adaId, generation } = await pair({ limits: { messageBurst: 10_000, maxUnsentBytes: 100_000 } });
    ada.socket.pause();
    const sdp = 'x'.repeat(48 * 1024);
    for (let attempt = 0; attempt < 400; attempt++) {
      await bo.send({ type: 'signal', generation, to: adaId, attempt, signal: { type: 'offer', sdp } });
    }
    expect((await bo.next('ended')).message).toMatch(/^Rank 0 \(Ada\) lost its connection/);
  });

  test('another path, and a page of another site', async () => {
    const server = await start();
    await expect(member(server, { path: '/other' }).opened()).rejects.toThrow('404');
    await expect(member(server, { origin: 'https://evil.example' }).opened()).rejects.toThrow('403');
    await expect(member(server, { origin: 'null' }).opened()).rejects.toThrow('403');
    await member(server, { origin: server.url }).opened();
  });

  test('more sockets from one address than two schools need', async () => {
    const server = await start({ limits: { socketsPerAddress: 1 } });
    const ada = await member(server).opened();
    await expect(member(server).opened()).rejects.toThrow('429');
    ada.socket.close();
    await ada.closed;
    // The server may hear of it a moment after the client does.
    await expect
      .poll(() =>
        member(server)
          .opened()
          .then(() => 'open', String),
      )
      .toBe('open');
  });
});

describe('an empty room', () => {
  test('made by a tab waits a minute for who comes back, as its host', async () => {
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
    // The room's minute is over, and does not matter.
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

  test('has the code that the launcher chose, once', async () => {
    const server = await start();
    expect(server.createRoom({ job: DEFAULT_JOB, startAt: null, code: 'K7F3QX' })).toBe('K7F3QX');
    expect(() => server.createRoom({ job: DEFAULT_JOB, startAt: null, code: 'K7F3QX' })).toThrow(
      /room K7F3QX already exists/,
    );
    const ada = member(server);
    await ada.join('K7F3QX');
    await ada.next('admitted');
  });

  test('made by the launcher lasts as long as the server', async () => {
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

  test('makes place for a new one when the server is full, the longest empty first', async () => {
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

test('who was sent out of a room stays out of it after a restart of the server', async () => {
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
  const settings = { ...NOTHING.settings, isLocked };
  const comeBack = async (
    { id, token }: { id: string; token: string },
    known: { removed?: typeof removed } = {},
  ): Promise<TestMember> => {
    const one = member(restarted);
    const reconnectState = { ...NOTHING, settings: { ...settings, ...known } };
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
  // The first to come is believed, as nobody is there to know better.
  const pending = await comeBack(boId);
  expect(await pending.answer()).toBe('admitted');
  // What the server has not signed it does not believe.
  const liar = await comeBack(cyId, { removed: { members: [boId.id, first.member], seal: removed!.seal } });
  expect(await liar.answer()).toBe('admitted');
  const host = await comeBack({ id: first.member, token: first.token }, { removed });
  expect(await host.answer()).toBe('admitted');
  expect(await pending.next('refused')).toMatchObject({ code: 'removed' });
  expect((await liar.next('room', (m) => m.removed !== undefined)).removed).toEqual(removed);
  expect(await (await comeBack(boId)).answer()).toBe('removed');
});

describe('a server that has restarted without a secret', () => {
  test('counts the rooms that members bring back apart from those that tabs open, and from wrong codes', async () => {
    const clock = new ManualClock();
    const limits = { restoresPerMinute: 2, wrongCodesPerMinute: 1, roomBurst: 1 };
    const server = await start({ clock, limits });
    const room = server.createRoom({ job: DEFAULT_JOB, startAt: null });
    const answer = async (message: ClientMessage): Promise<string> => {
      const one = member(server);
      await one.send(message);
      return one.answer();
    };
    const comeBack = (code: string): Promise<string> => answer(returning(code, 'somebody', 'x'.repeat(40)));
    expect(await comeBack(room)).toBe('not-member');
    for (const code of ['AAAAAA', 'AAAAAB']) expect(await comeBack(code), code).toBe('admitted');
    // One answer for right and wrong codes.
    for (const code of ['AAAAAC', room]) expect(await comeBack(code), code).toBe('rate-limited');
    expect(await answer({ type: 'join', version: PROTOCOL_VERSION, name: 'Bo', room })).toBe('admitted');
    expect(await answer(create())).toBe('admitted');
    clock.advance(60_000);
    expect(await comeBack('AAAAAC')).toBe('admitted');
  });

  test('takes each member that trained at its word once, and then wants its token', async () => {
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

describe('the server', () => {
  test('says that it closes, and leaves running rings alone', async () => {
    const { server, ada, bo } = await pair();
    await server.close();
    for (const one of [ada, bo]) {
      expect((await one.next('refused')).code).toBe('server-closing');
      expect(await one.closed).toBe(1012);
      await expect(one.next('ended')).rejects.toThrow('closed before');
    }
    await server.close();
  });

  test('closes although a client never answers', async () => {
    const server = await start({ limits: { closeGraceMs: 10 } });
    const socket = connect(server.port, '127.0.0.1');
    socket.write(
      'GET /signal HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
        'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n',
    );
    await once(socket, 'data');
    const stray = connect({ port: server.port, host: '127.0.0.1', allowHalfOpen: true });
    stray.write('GET /other HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    await once(stray, 'data');
    await server.close();
    socket.destroy();
    stray.destroy();
  });

  test('says what to do when its port is in use', async () => {
    const { port } = await start();
    await expect(startSignaling({ port })).rejects.toThrow(/Port \d+ on 127.0.0.1 is in use\. .*--port/);
    await expect(startSignaling({ host: '203.0.113.1' })).rejects.toThrow(/does not have the address 203.0.113.1/);
  });
});
