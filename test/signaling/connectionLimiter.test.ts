/** Connections that are admitted, refused, or cut off for their messages. */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import { clientAddress } from '../../signaling/http/address.ts';
import { startSignaling, type SignalingServer } from '../../signaling/index.ts';
import { AddressBuckets, MAX_ADDRESSES } from '../../signaling/limits.ts';
import { ManualClock } from '../manualClock.ts';
import { create, testServers, UPGRADE } from './helpers.ts';

const { onEnd, start, member } = testServers();

/** Returns the status of the response to an upgrade request. */
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
  onEnd(() => void (stream ?? response).destroy());
  return response.statusCode;
}

describe('origins', () => {
  const LISTED = ['https://class.example', 'http://lab.example:8080/'];

  test.each([
    'https://class.example',
    'http://lab.example:8080',
    'http://localhost:5173',
    'https://127.0.0.1:3000',
    'http://[::1]:5173',
  ])('may connect if they are in the options, or of this machine: %s', async (origin) => {
    const tab = member(await start({ origins: LISTED }), { origin });
    await tab.send(create());
    expect((await tab.next('admitted')).type).toBe('admitted');
  });

  test("may connect if they are the server's own", async () => {
    const server = await start({ origins: LISTED });
    const tab = member(server, { origin: server.url });
    await tab.send(create());
    expect((await tab.next('admitted')).type).toBe('admitted');
  });

  test.each([
    'http://class.example',
    'https://class.example.evil.example',
    'https://127.0.0.1.evil.example',
    'https://127.evil.example',
    'https://localhost.evil.example',
    'null',
  ])('are refused otherwise, and the message names the option: %s', async (origin) => {
    const tab = member(await start({ origins: LISTED }), { origin });
    const { code, message } = await tab.next('refused');
    expect({ code, message }).toEqual({
      code: 'wrong-origin',
      message: `This server does not accept pages from ${origin}. Start it with --origin ${origin}.`,
    });
    expect(await tab.closed).toBe(1008);
  });

  test.each(['class.example', 'https://class.example/room', 'null', 'wss://class.example', ''])(
    'that are invalid prevent the start of the server if its options list them: %s',
    async (origin) => {
      await expect(startSignaling({ origins: [origin] })).rejects.toThrow(/is not an origin such as/);
    },
  );
});

describe('addresses', () => {
  test('are read from X-Forwarded-For only if the server trusts its proxy', async () => {
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
  ])('are read from X-Forwarded-For: %s means %s', (header, address) => {
    const req = { headers: { 'x-forwarded-for': header }, socket: { remoteAddress: '192.0.2.1' } };
    expect(clientAddress(req as unknown as IncomingMessage, true)).toBe(address);
  });

  test('can connect only at a limited rate', async () => {
    const clock = new ManualClock();
    const server = await start({ clock, limits: { connectionBurst: 2, connectionsPerSecond: 1 } });
    const statuses = [await upgrade(server), await upgrade(server), await upgrade(server)];
    clock.advance(1000);
    expect([...statuses, await upgrade(server)]).toEqual([101, 101, 429, 101]);
  });

  test('can have sixty connections at the same time, as a class needs them', async () => {
    const server = await start();
    const statuses = await Promise.all(Array.from({ length: 60 }, () => upgrade(server)));
    expect(new Set(statuses)).toEqual(new Set([101]));
  });

  test('can open rooms only at a limited rate', async () => {
    const clock = new ManualClock();
    const server = await start({ clock, limits: { roomBurst: 1, roomsPerMinute: 6 } });
    const openRoom = async (): Promise<string> => {
      const one = member(server);
      await one.send(create());
      return one.answer();
    };
    const answers = [await openRoom(), await openRoom()];
    clock.advance(10_000);
    expect([...answers, await openRoom()]).toEqual(['admitted', 'rate-limited', 'admitted']);
  });

  test('are forgotten if there are too many, beginning with the one that was unused for longest', () => {
    const buckets = new AddressBuckets(new ManualClock(), 1, 1);
    expect([buckets.take('first'), buckets.take('second'), buckets.take('first')]).toEqual([true, true, false]);
    for (let i = 0; i < MAX_ADDRESSES - 1; i++) buckets.take(`address ${i}`);
    expect(buckets.take('first')).toBe(false);
    expect(buckets.take('second')).toBe(true);
  });
});

/** Returns a frame as the client of a WebSocket sends it, masked with zeros. */
function frame(opcode: number, payload: string, isFinal = true): Buffer {
  return Buffer.from([(isFinal ? 0x80 : 0) | opcode, 0x80 | payload.length, 0, 0, 0, 0, ...Buffer.from(payload)]);
}

/** Opens a WebSocket without a client library, which can send what no browser sends. */
async function rawSocket({ port }: SignalingServer): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  onEnd(() => void socket.destroy());
  socket.write(UPGRADE);
  await once(socket, 'data');
  return socket;
}

/** Resolves with the bytes that the server sends until it closes the connection. */
async function receivedUntilClose(socket: Socket): Promise<string> {
  let received = '';
  socket.on('data', (data: Buffer) => (received += data.toString('latin1')));
  socket.on('error', () => {});
  socket.end();
  await once(socket, 'close');
  return received;
}

describe('the server closes a connection that', () => {
  const TEXT = 1;
  const PING = 9;

  test('sends too many pings', async () => {
    const socket = await rawSocket(await start({ limits: { messageBurst: 10 } }));
    for (let i = 0; i < 12; i++) socket.write(frame(PING, ''));
    expect(await receivedUntilClose(socket)).toContain('rate-limited');
  });

  test('sends a message in too many fragments', async () => {
    const server = await start();
    const socket = await rawSocket(server);
    socket.write(frame(TEXT, '{', false));
    for (let i = 0; i < 100; i++) socket.write(frame(0, ' ', false));
    // The close code 1008 means that the server's policy was violated.
    expect(await receivedUntilClose(socket)).toContain('\x03\xf0');
    expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
  });
});
