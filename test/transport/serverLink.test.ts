import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  createFrame,
  emptyFrameHeader,
  FRAME_HEADER_BYTES,
  FrameKind,
  generationOfFrame,
  MAX_FRAME_BYTES,
} from '../../src/protocol/frame.ts';
import type { ServerLinkSignal } from '../../src/protocol/linkSignal.ts';
import type { Link } from '../../src/transport/link.ts';
import type { PeerAttempt } from '../../src/transport/peerLink.ts';
import { SERVER_LINK_PING_INTERVAL_MS, type LinkSocket } from '../../src/transport/serverLinkChannel.ts';
import { connectThroughServer, type LinkCrypto, type ServerConnectOptions } from '../../src/transport/serverLink.ts';
import { LinkAcrossGenerations } from '../../src/transport/linkAcrossGenerations.ts';
import { PeerGoneError, ProtocolError } from '../../src/util/errors.ts';
import { errorOf } from '../errorOf.ts';
import { LINK_CASES } from './linkCompliance.ts';
import { LinkRelay, startRelay, type RelaySocket } from './linkRelay.ts';

const MIB = 1024 * 1024;
const GENERATION = 7;
const MEMBERS = ['alice-00', 'bobby-00'] as const;
const TOKEN = 'token-of-a-member';
/** The `crypto` of an insecure page. */
const INSECURE: LinkCrypto = { getRandomValues: (array) => globalThis.crypto.getRandomValues(array) };

/** Tests wait longer on a busy machine. */
const SOON = { timeout: 20_000, interval: 10 };

type OpenSocket = (url: URL) => LinkSocket;

const refuseToOpen = (): LinkSocket => {
  throw new DOMException('An insecure WebSocket is not allowed.', 'SecurityError');
};

function attemptOf(initiator: boolean, openSocket: OpenSocket, options: Partial<ServerConnectOptions>): PeerAttempt {
  const [member, peer] = initiator ? MEMBERS : ([...MEMBERS].reverse() as [string, string]);
  return connectThroughServer({
    ...{
      initiator,
      server: 'https://peergrad.example:8443',
      openSocket,
      crypto: globalThis.crypto,
      onsignal: () => {},
    },
    ...{ room: 'K7F3QX', generation: GENERATION, member, peer, token: TOKEN },
    ...options,
  });
}

/** Starts attempts of both ends, whose signals reach the other end. */
function startPair(
  openSocket: OpenSocket,
  cryptos: readonly [LinkCrypto, LinkCrypto] = [globalThis.crypto, globalThis.crypto],
) {
  const signals: ServerLinkSignal[] = [];
  const pair: [PeerAttempt, PeerAttempt] = [0, 1].map((end) =>
    attemptOf(end === 0, openSocket, {
      crypto: cryptos[end]!,
      onsignal: (signal) => {
        signals.push(signal);
        setImmediate(() => pair[1 - end]!.signal(signal));
      },
    }),
  ) as [PeerAttempt, PeerAttempt];
  return { pair, signals, links: Promise.all([pair[0].link, pair[1].link]) };
}

/** Opens a link over a relay in this thread. */
async function openPair(cryptos?: readonly [LinkCrypto, LinkCrypto]) {
  const relay = new LinkRelay();
  const { links, ...rest } = startPair(relay.openSocket, cryptos);
  const [a, b] = await links;
  // The ends have measured the round trip: each has sent four pings and four answers.
  await expect.poll(() => relay.forwarded, SOON).toBe(16);
  return { relay, a, b, ...rest };
}

/** Opens a link, and lets so much time pass that it asks again. */
async function openEarlier() {
  const opened = await openPair();
  vi.advanceTimersByTime(SERVER_LINK_PING_INTERVAL_MS);
  return opened;
}

async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}

function frameOf(bytes: number, value = 0, generation = GENERATION): ArrayBuffer {
  const frame = createFrame(emptyFrameHeader(FrameKind.DATA, generation), bytes - FRAME_HEADER_BYTES);
  new Uint8Array(frame, FRAME_HEADER_BYTES).fill(value);
  return frame;
}

/** Resolves with the error with which a link closes. */
function closeOf(link: Link): Promise<Error | null> {
  return new Promise((resolve) => (link.onclose = resolve));
}

/** Sends frames. Their sends may fail. */
function send(link: Link, ...frames: ArrayBuffer[]): void {
  for (const frame of frames) link.send(frame).catch(() => {});
}

describe('a link through the server', () => {
  const header = new Uint8Array(FRAME_HEADER_BYTES);
  const relay = new LinkRelay();
  let real: Awaited<ReturnType<typeof startRelay>>;
  beforeAll(async () => {
    real = await startRelay();
  });
  afterAll(() => real.close());

  describe.each([
    ['sealed', () => startPair(relay.openSocket)],
    ['in the clear', () => startPair(relay.openSocket, [globalThis.crypto, INSECURE])],
    ['sealed, over WebSockets', () => startPair(real.openSocket)],
  ])('%s', (_name, start) => {
    test.each(LINK_CASES.map((one) => [one.name, one] as const))('%s', async (_case, { alice, bob }) => {
      const [a, b] = await start().links;
      await expect(Promise.all([alice(a, header), bob(b, header)])).resolves.toHaveLength(2);
      a.close();
      b.close();
    });

    test('keeps the order of 8 MiB in each direction', async () => {
      const links = await start().links;
      const count = (8 * MIB) / MAX_FRAME_BYTES;
      const received: number[][] = [[], []];
      for (const [i, link] of links.entries()) {
        link.onframe = (frame) => received[i]!.push(new Uint32Array(frame, FRAME_HEADER_BYTES, 1)[0]!);
      }
      await Promise.all(
        links.map(async (link) => {
          for (let number = 0; number < count; number++) {
            const frame = frameOf(MAX_FRAME_BYTES);
            new Uint32Array(frame, FRAME_HEADER_BYTES, 1)[0] = number;
            await link.send(frame);
          }
        }),
      );
      await expect.poll(() => received.map(({ length }) => length), SOON).toEqual([count, count]);
      const numbers = Array.from({ length: count }, (_, number) => number);
      expect(received).toEqual([numbers, numbers]);
      links[0].close();
    });
  });
});

describe('connecting through the server', () => {
  test('identifies each end, the generation and a channel that the initiator has chosen', async () => {
    const { relay, signals } = await openPair();
    const { channel } = signals[0]!;
    const common = {
      version: relay.openings[0]!.version,
      room: 'K7F3QX',
      token: TOKEN,
      generation: GENERATION,
      channel,
    };
    const [alice, bobby] = MEMBERS;
    expect(relay.openings).toEqual([
      { ...common, member: alice, peer: bobby },
      { ...common, member: bobby, peer: alice },
    ]);
    expect(relay.urls).toEqual(Array(2).fill('wss://peergrad.example:8443/link'));
    expect(channel).toMatch(/^[\da-f]{32}$/);
  });

  test('sends one signal from each end, and neither a public key nor a channel is used again', async () => {
    const signals = [...(await openPair()).signals, ...(await openPair()).signals];
    expect(signals.map(({ type }) => type)).toEqual(Array(4).fill('server'));
    expect([new Set(signals.map(({ key }) => key)).size, new Set(signals.map(({ channel }) => channel)).size]).toEqual([
      4, 2,
    ]);
  });

  test('describes a sealed link, with a measured round trip and without WebRTC connections', async () => {
    const { a, b } = await openPair();
    const description = { route: 'server', roundTripMs: expect.any(Number) as number, connections: 0 };
    expect([await a.describe(), await b.describe()]).toEqual([description, description]);
  });

  test.each([
    ['initiator', [INSECURE, globalThis.crypto]],
    ['other end', [globalThis.crypto, INSECURE]],
  ] satisfies [string, [LinkCrypto, LinkCrypto]][])(
    'sends frames in the clear if the page of the %s cannot encrypt',
    async (_end, cryptos) => {
      const { relay, a, b } = await openPair(cryptos);
      const messages: ArrayBuffer[] = [];
      relay.forward = (message) => messages.push(message);
      await a.send(frameOf(100, 42));
      await expect.poll(() => messages, SOON).toEqual([frameOf(100, 42)]);
      expect([(await a.describe()).route, (await b.describe()).route]).toEqual(['server-clear', 'server-clear']);
    },
  );

  test('shows the server neither the contents of frames nor that two are equal', async () => {
    const { relay, a } = await openPair();
    const messages: Uint8Array[] = [];
    relay.forward = (message) => messages.push(new Uint8Array(message));
    await a.send(frameOf(100, 42));
    await a.send(frameOf(100, 42));
    await expect.poll(() => messages.map(({ length }) => length), SOON).toEqual([116, 116]);
    const [one, two] = messages as [Uint8Array, Uint8Array];
    // A few of the random bytes are equal by chance.
    expect(one.filter((value, i) => value === two[i] || value === 42).length).toBeLessThan(20);
  });

  test('delivers frames that arrive before this end has received the other key', async () => {
    const relay = new LinkRelay();
    const late: ServerLinkSignal[] = [];
    const first: PeerAttempt = attemptOf(true, relay.openSocket, { onsignal: (signal) => second.signal(signal) });
    const second = attemptOf(false, relay.openSocket, { onsignal: (signal) => late.push(signal) });
    const b = await second.link;
    for (const value of [1, 2, 3]) await b.send(frameOf(100, value));
    // The first message is a ping.
    await expect.poll(() => relay.forwarded, SOON).toBe(4);
    first.signal(late[0]!);
    const values: number[] = [];
    (await first.link).onframe = (frame) => values.push(new Uint8Array(frame).at(-1)!);
    await expect.poll(() => values, SOON).toEqual([1, 2, 3]);
  });

  test('rejects with the text of a server that refuses', async () => {
    const relay = new LinkRelay();
    relay.open = (socket) => socket.answer({ type: 'refused', message: 'Links through this server are off.' });
    const error = await errorOf(startPair(relay.openSocket).links);
    expect(error).toBeInstanceOf(PeerGoneError);
    expect(error.message).toMatch(/Links through this server are off\.$/);
  });

  test.each([
    ['with a reason', 1008, 'The other end did not come.', /closed the link: The other end did not come/],
    ['normally, with a reason', 1000, 'A member left.', /closed the link: A member left\.$/],
    ['normally', 1000, '', /closed while it was opening/],
    ['by a break', 1006, '', /to the server was lost/],
  ])('rejects if the server closes the connection %s before the link is open', async (_how, code, reason, message) => {
    const relay = new LinkRelay();
    relay.open = (socket) => socket.cut(code, reason);
    const error = await errorOf(attemptOf(true, relay.openSocket, {}).link);
    expect(error).toBeInstanceOf(PeerGoneError);
    expect(error.message).toMatch(message);
  });

  test('rejects if the server cannot be reached', async () => {
    const relay = new LinkRelay();
    const { link } = attemptOf(true, relay.openSocket, {});
    relay.sockets[0]!.cut(1006);
    expect((await errorOf(link)).message).toMatch(/could not be reached for a link. Check that proxies/);
  });

  test('rejects if the browser cannot open a WebSocket', async () => {
    expect((await errorOf(attemptOf(true, refuseToOpen, {}).link)).message).toMatch(
      /cannot open a WebSocket to peergrad.example:8443: An insecure WebSocket is not allowed\./,
    );
  });

  test('rejects an invalid key of the other end', async () => {
    const relay = new LinkRelay();
    const attempt = attemptOf(true, relay.openSocket, {
      onsignal: (signal) => setImmediate(() => attempt.signal({ ...signal, key: 'A'.repeat(87) })),
    });
    expect((await errorOf(attempt.link)).message).toMatch(/invalid public key/);
  });

  test.each([
    ['a text that is not an answer', 'hello', /unknown answer/],
    ['a frame', new ArrayBuffer(50), /before it had connected/],
  ])('rejects if the server sends %s before it has connected the ends', async (_what, data, message) => {
    const relay = new LinkRelay();
    relay.open = (socket) => socket.receive(data);
    expect((await errorOf(attemptOf(true, relay.openSocket, {}).link)).message).toMatch(message);
  });

  test('ignores signals of other channels and kinds', async () => {
    const relay = new LinkRelay();
    const attempt = attemptOf(true, relay.openSocket, {});
    attempt.signal({ type: 'server', channel: '0'.repeat(32), key: null });
    attempt.signal({ type: 'answer', sdp: '' });
    await turns(5);
    relay.sockets[0]!.answer({ type: 'paired' });
    await turns(5);
    expect(relay.sockets[0]!.isClosed).toBe(false);
    attempt.abort();
    await expect(attempt.link).rejects.toBeInstanceOf(PeerGoneError);
  });

  test('is cancelled by an abort before the first signal', async () => {
    const relay = new LinkRelay();
    const attempt = attemptOf(false, relay.openSocket, {});
    attempt.abort();
    attempt.signal({ type: 'server', channel: '0'.repeat(32), key: null });
    expect([(await errorOf(attempt.link)).message, relay.sockets]).toEqual(['Linking was cancelled.', []]);
  });

  test('is cancelled by an abort while it waits for the other end, and then sends no signal', async () => {
    const relay = new LinkRelay();
    const signals: ServerLinkSignal[] = [];
    const attempt = attemptOf(true, relay.openSocket, { onsignal: (signal) => signals.push(signal) });
    attempt.abort();
    attempt.abort();
    await expect(attempt.link).rejects.toThrow('Linking was cancelled.');
    await expect.poll(() => relay.sockets[0]!.isClosed, SOON).toBe(true);
    expect(signals).toEqual([]);
  });

  test('abort closes an open link at both ends', async () => {
    const { a, b, pair } = await openPair();
    const closes = Promise.all([closeOf(a), closeOf(b)]);
    pair[0].abort();
    expect(await closes).toEqual([null, null]);
  });
});

describe('an open link through the server', () => {
  /** Forwards the messages of the initiator in another way. */
  const ATTACKS: [string, (relay: LinkRelay, victim: RelaySocket) => (message: ArrayBuffer) => void][] = [
    [
      'changed',
      (_, victim) => (message) => {
        new Uint8Array(message)[20]! ^= 1;
        victim.receive(message);
      },
    ],
    ['shortened', (_, victim) => (message) => victim.receive(message.slice(0, 10))],
    [
      'repeated',
      (_, victim) => (message) => {
        victim.receive(message.slice());
        victim.receive(message);
      },
    ],
    [
      'lost',
      (relay, victim) => () => {
        relay.forward = (message) => victim.receive(message);
      },
    ],
    [
      'reordered',
      (relay, victim) => (first) => {
        relay.forward = (second) => {
          victim.receive(second);
          victim.receive(first);
        };
      },
    ],
    ['sent back to its sender', (_, victim) => (message) => victim.other!.receive(message)],
  ];

  test.each(ATTACKS)('ends if a message is %s', async (name, attack) => {
    const { relay, a, b } = await openPair();
    const received: ArrayBuffer[] = [];
    for (const link of [a, b]) link.onframe = (frame) => received.push(frame);
    const closes = [closeOf(a), closeOf(b)] as const;
    const forward = attack(relay, relay.sockets[1]!);
    relay.forward = (message, from) => {
      if (from === relay.sockets[0]) forward(message);
    };
    send(a, frameOf(100), frameOf(100));
    const [own, others] = await Promise.all(closes);
    const [error, beside] = name === 'sent back to its sender' ? [own, others] : [others, own];
    expect(error).toBeInstanceOf(ProtocolError);
    expect(error!.message).toMatch(/was changed on its way, repeated or lost. If it happens again, check programs/);
    // The other end sees that the link is closed.
    expect(beside).toBeNull();
    expect(received.length).toBe(name === 'repeated' ? 1 : 0);
  });

  test.each([
    ['with a reason', 1013, 'The receiver was too slow.', /^The server closed the link: The receiver was too slow\.$/],
    ['by a break', 1006, '', /^The connection of a link to the server was lost\.$/],
  ])('ends with an error if the server closes it %s', async (_how, code, reason, message) => {
    const { relay, a } = await openPair();
    const close = closeOf(a);
    relay.sockets[0]!.cut(code, reason);
    const error = await close;
    expect(error).toBeInstanceOf(PeerGoneError);
    expect(error!.message).toMatch(message);
  });

  test('ends without an error if the server closes it because the other end has closed', async () => {
    const { relay, a } = await openPair();
    const close = closeOf(a);
    relay.sockets[0]!.cut(1000, 'The other end of the link has closed.');
    expect(await close).toBeNull();
  });

  test('delivers the messages that have arrived before the connection closes', async () => {
    const { relay, a, b } = await openPair();
    const values: number[] = [];
    b.onframe = (frame) => values.push(new Uint8Array(frame).at(-1)!);
    const messages: ArrayBuffer[] = [];
    relay.forward = (message) => messages.push(message);
    for (const value of [1, 2, 3]) await a.send(frameOf(100, value));
    await expect.poll(() => messages.length, SOON).toBe(3);
    const close = closeOf(b);
    for (const message of messages) relay.sockets[1]!.receive(message);
    relay.sockets[1]!.cut(1000);
    expect([await close, values]).toEqual([null, [1, 2, 3]]);
  });

  test('sends at most 1 MiB to an end that acknowledges nothing, and the rest later', async () => {
    const { relay, a, b } = await openPair();
    const held: ArrayBuffer[] = [];
    relay.forward = (message) => held.push(message);
    const count = 40;
    const sends = Array.from({ length: count }, () => a.send(frameOf(MAX_FRAME_BYTES)));
    await expect.poll(() => held.length, SOON).toBe(15);
    await turns(20);
    const bytes = held.reduce((sum, { byteLength }) => sum + byteLength, 0);
    expect([held.length, bytes <= MIB, a.unsentBytes]).toEqual([15, true, (count - 15) * MAX_FRAME_BYTES]);
    let received = 0;
    b.onframe = () => (received += 1);
    relay.forward = (message, from) => from.other!.receive(message);
    for (const message of held) relay.sockets[1]!.receive(message);
    await Promise.all(sends);
    await expect.poll(() => received, SOON).toBe(count);
    expect(a.unsentBytes).toBe(0);
  });

  test('counts frames as unsent while they are sealed and while the socket has not sent them', async () => {
    const { relay, a } = await openPair();
    relay.sockets[0]!.bufferedAmount = 1000;
    await a.send(frameOf(100));
    expect(a.unsentBytes).toBe(1100);
    await expect.poll(() => a.unsentBytes, SOON).toBe(1000);
  });

  test('does not send waiting frames of a generation that is over', async () => {
    const { relay, a } = await openPair([globalThis.crypto, INSECURE]);
    const sent: number[] = [];
    relay.forward = (message, from) => {
      if (from === relay.sockets[0]) sent.push(generationOfFrame(message));
      from.other!.receive(message);
    };
    const shared = new LinkAcrossGenerations(a);
    const [old, next] = [shared.view(1), shared.view(2)];
    const sends = Array.from({ length: 40 }, () => old.send(frameOf(MAX_FRAME_BYTES, 0, 1)));
    sends.push(next.send(frameOf(FRAME_HEADER_BYTES, 0, 2)));
    old.close();
    await Promise.all(sends);
    await expect.poll(() => sent, SOON).toEqual([...Array<number>(15).fill(1), 2]);
  });

  test('ends if the other end sends much more than its window before this end is open', async () => {
    const relay = new LinkRelay();
    const attempt = attemptOf(true, relay.openSocket, {});
    await expect.poll(() => relay.openings.length, SOON).toBe(1);
    const [socket] = relay.sockets;
    socket!.answer({ type: 'paired' });
    for (let i = 0; i < 33; i++) socket!.receive(new ArrayBuffer(MAX_FRAME_BYTES));
    expect((await errorOf(attempt.link)).message).toMatch(/sends more than it may/);
  });

  test('answers four pings, so that an end that floods it with pings cannot fill its memory', async () => {
    const { relay, a } = await openPair([INSECURE, INSECURE]);
    const [socket] = relay.sockets;
    const sizes: number[] = [];
    relay.forward = ({ byteLength }) => sizes.push(byteLength);
    for (let i = 0; i < 10; i++) socket!.receive(new ArrayBuffer(2));
    await turns(5);
    expect([sizes, a.state]).toEqual([[], 'open']);
  });

  describe('that is asked whether its other end answers', () => {
    beforeEach(() => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    });
    afterEach(() => {
      vi.useRealTimers();
    });

    test.each([
      ['an answer', (relay: LinkRelay) => relay],
      [
        'anything else',
        (relay: LinkRelay, b: Link) => {
          relay.forward = (message, from) => {
            if (from === relay.sockets[1]) from.other!.receive(message);
          };
          send(b, frameOf(100));
        },
      ],
    ])('resolves with true after %s', async (_what, prepare) => {
      const { relay, a, b } = await openEarlier();
      prepare(relay, b);
      expect(await a.answers!(5_000)).toBe(true);
    });

    test('resolves with false after the deadline', async () => {
      const { relay, a } = await openEarlier();
      relay.forward = () => {};
      const answers = a.answers!(5_000);
      await turns(10);
      vi.advanceTimersByTime(4_999);
      const early = await Promise.race([answers, turns(2)]);
      vi.advanceTimersByTime(1);
      expect([early, await answers]).toEqual([undefined, false]);
    });

    test('asks every 4 s at most, and gets an answer each time', async () => {
      const { relay, a } = await openPair();
      for (const [passed, forwarded] of [
        [SERVER_LINK_PING_INTERVAL_MS - 1_000, 0],
        [1_000, 2],
        [SERVER_LINK_PING_INTERVAL_MS - 1_000, 2],
        [1_000, 4],
      ] as const) {
        vi.advanceTimersByTime(passed);
        expect(await a.answers!(5_000)).toBe(true);
        await turns(5);
        expect(relay.forwarded).toBe(16 + forwarded);
      }
    });
  });
});
