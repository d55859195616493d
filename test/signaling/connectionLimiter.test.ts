/** Connections that are admitted, refused, or cut off for their messages. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import { PROTOCOL_VERSION } from '../../src/protocol/control.ts';
import { clientAddress } from '../../signaling/http/address.ts';
import { startSignaling, type SignalingOptions, type SignalingServer } from '../../signaling/index.ts';
import { AddressBuckets, MAX_ADDRESSES } from '../../signaling/limits.ts';
import { ManualClock } from '../manualClock.ts';
import { TestMember } from './helpers.ts';

const open: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  while (open.length > 0) await open.pop()!();
});

async function start(options: SignalingOptions = {}): Promise<SignalingServer> {
  const server = await startSignaling({ logLevel: 'silent', ...options });
  open.push(() => server.close());
  return server;
}

/** The status that an upgrade is answered with. */
async function upgrade({ port }: SignalingServer, headers: Record<string, string> = {}): Promise<number | undefined> {
  const socket = request({
    port,
    host: '127.0.0.1',
    path: '/signal',
    agent: false,
    headers: {
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
      ...headers,
    },
  }).end();
  const answer = Promise.race([once(socket, 'upgrade'), once(socket, 'response')]);
  const [response, stream] = (await answer) as [IncomingMessage, Socket | undefined];
  open.push(() => void (stream ?? response).destroy());
  return response.statusCode;
}

describe('pages of', () => {
  test('named origins may connect, others not', async () => {
    const server = await start({ origins: ['https://class.example', 'http://lab.example:8080/'] });
    expect(await upgrade(server, { origin: 'https://class.example' })).toBe(101);
    expect(await upgrade(server, { origin: 'http://lab.example:8080' })).toBe(101);
    expect(await upgrade(server, { origin: server.url })).toBe(101);
    expect(await upgrade(server, { origin: 'http://class.example' })).toBe(403);
    expect(await upgrade(server, { origin: 'https://class.example.evil.example' })).toBe(403);
    expect(await upgrade(server, { origin: 'null' })).toBe(403);
  });

  test.each(['class.example', 'https://class.example/room', 'null', 'wss://class.example', ''])(
    'an origin that is none is refused: %s',
    async (origin) => {
      await expect(startSignaling({ origins: [origin] })).rejects.toThrow(/is not an origin such as/);
    },
  );
});

describe('addresses', () => {
  test('behind a proxy are what the proxy has seen, where it is trusted', async () => {
    const limits = { socketsPerAddress: 1 };
    const ada = { 'x-forwarded-for': '203.0.113.7, 198.51.100.1' };
    const bo = { 'x-forwarded-for': '203.0.113.7, 198.51.100.2' };
    const behind = await start({ limits, trustProxy: true });
    expect([await upgrade(behind, ada), await upgrade(behind, ada), await upgrade(behind, bo)]).toEqual([
      101, 429, 101,
    ]);
    const bare = await start({ limits });
    expect([await upgrade(bare, ada), await upgrade(bare, bo)]).toEqual([101, 429]);
  });

  test.each([
    ['203.0.113.7', '203.0.113.7'],
    ['made up, 2001:DB8::1', '2001:db8::1'],
    ['203.0.113.7, unknown', '192.0.2.1'],
    [undefined, '192.0.2.1'],
  ])('X-Forwarded-For: %s means %s', (header, address) => {
    const req = { headers: { 'x-forwarded-for': header }, socket: { remoteAddress: '192.0.2.1' } };
    expect(clientAddress(req as unknown as IncomingMessage, true)).toBe(address);
  });

  test('connect at their pace', async () => {
    const clock = new ManualClock();
    const server = await start({ clock, limits: { connectionBurst: 2, connectionsPerSecond: 1 } });
    const statuses = [await upgrade(server), await upgrade(server), await upgrade(server)];
    clock.advance(1000);
    expect([...statuses, await upgrade(server)]).toEqual([101, 101, 429, 101]);
    while (open.length > 1) await open.pop()!();
  });

  test('a class of sixty connects at once', async () => {
    const server = await start();
    const statuses = await Promise.all(Array.from({ length: 60 }, () => upgrade(server)));
    expect(new Set(statuses)).toEqual(new Set([101]));
  });

  test('open rooms at their pace', async () => {
    const clock = new ManualClock();
    const server = await start({ clock, limits: { roomBurst: 1, roomsPerMinute: 6 } });
    const create = async (): Promise<string> => {
      const one = new TestMember(server);
      open.push(() => one.socket.terminate());
      const job = { job: DEFAULT_JOB, startAt: null, nodes: null, version: PROTOCOL_VERSION } as const;
      await one.send({ type: 'create', name: 'Ada', ...job });
      const [data] = (await once(one.socket, 'message')) as [Buffer];
      return /"rate-limited"|admitted/.exec(data.toString())![0];
    };
    const answers = [await create(), await create()];
    clock.advance(10_000);
    expect([...answers, await create()]).toEqual(['admitted', '"rate-limited"', 'admitted']);
  });

  test('are forgotten when there are too many, the longest unused first', () => {
    const buckets = new AddressBuckets(new ManualClock(), 1, 1);
    expect([buckets.take('first'), buckets.take('second'), buckets.take('first')]).toEqual([true, true, false]);
    for (let i = 0; i < MAX_ADDRESSES - 1; i++) buckets.take(`address ${i}`);
    expect(buckets.take('first')).toBe(false);
    expect(buckets.take('second')).toBe(true);
  });
});

/** A frame of a WebSocket's client, masked with zeros. */
function frame(opcode: number, payload: string, isFinal = true): Buffer {
  return Buffer.from([(isFinal ? 0x80 : 0) | opcode, 0x80 | payload.length, 0, 0, 0, 0, ...Buffer.from(payload)]);
}

/** A WebSocket by hand: says what no browser says. */
async function rawSocket({ port }: SignalingServer): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  open.push(() => void socket.destroy());
  const key = createHash('sha1').update('any').digest().subarray(0, 16).toString('base64');
  socket.write(
    'GET /signal HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
      `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\n\r\n`,
  );
  await once(socket, 'data');
  return socket;
}

/** What the server says until it closes. */
async function lastWords(socket: Socket): Promise<string> {
  let said = '';
  socket.on('data', (data: Buffer) => (said += data.toString('latin1')));
  socket.on('error', () => {});
  socket.end();
  await once(socket, 'close');
  return said;
}

describe('a connection is closed that', () => {
  const TEXT = 1;
  const PING = 9;

  test('sends pings without end', async () => {
    const socket = await rawSocket(await start({ limits: { messageBurst: 10 } }));
    for (let i = 0; i < 12; i++) socket.write(frame(PING, ''));
    expect(await lastWords(socket)).toContain('rate-limited');
  });

  test('sends a message in very many pieces', async () => {
    const server = await start();
    const socket = await rawSocket(server);
    socket.write(frame(TEXT, '{', false));
    for (let i = 0; i < 100; i++) socket.write(frame(0, ' ', false));
    // 1008: against the server's policy.
    expect(await lastWords(socket)).toContain('\x03\xf0');
    expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
  });
});
