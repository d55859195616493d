import { describe, expect, test } from 'vitest';
import type { PeerSignal } from '../../src/protocol/linkSignal.ts';
import { ExtraConnections } from '../../src/transport/extraConnections.ts';
import { createDeferred } from '../../src/util/deferred.ts';
import { ProtocolError } from '../../src/util/errors.ts';

const OFFER: PeerSignal = { type: 'offer', sdp: 'offer' };
const CANDIDATE: PeerSignal = { type: 'candidate', candidate: { candidate: 'candidate' } };

interface Setting {
  connections?: number | null;
  /** Time between a ping and its pong, by ping. */
  pongsMs: (ping: number) => number;
  iceRoundTripMs?: () => Promise<number | null>;
  /** Whether the end that answers is not open yet when pings arrive. */
  startsLate?: boolean;
  /** Number of connections that the end that answers can open. */
  most?: number;
  /** How that end says that it can open no more. */
  onmost?: (() => null) | undefined;
}

/** Connects two ends, and resolves with the connections that each has opened and their signals. */
async function opened({
  connections = null,
  pongsMs,
  iceRoundTripMs = () => Promise.resolve(null),
  startsLate = false,
  most = 3,
  onmost = () => {
    throw new DOMException('too many', 'UnknownError');
  },
}: Setting) {
  let now = 0;
  let pings = 0;
  const ends: ExtraConnections[] = [];
  const counts = [0, 0];
  const signals: PeerSignal[][] = [[], []];
  for (const end of [0, 1]) {
    ends.push(
      new ExtraConnections({
        initiator: end === 0,
        connections,
        now: () => now,
        iceRoundTripMs,
        send: (text) =>
          queueMicrotask(() => {
            if (end === 1) now += pongsMs(pings++);
            ends[1 - end]!.receive(text);
          }),
        open: (onsignal) => {
          if (end === 1 && counts[1] === most) return onmost();
          counts[end]! += 1;
          if (end === 0) queueMicrotask(() => onsignal(OFFER));
          return { signal: (signal) => signals[end]!.push(signal), close: () => (counts[end]! -= 1) };
        },
      }),
    );
  }
  for (const end of startsLate ? ends.slice(0, 1) : ends) end.start();
  await new Promise((resolve) => setImmediate(resolve));
  return { ends, counts, signals };
}

describe('extra connections', () => {
  test('are three if all round trips take at least ten milliseconds', async () => {
    const { ends, counts, signals } = await opened({ pongsMs: () => 20 });
    expect(counts).toEqual([3, 3]);
    expect(signals).toEqual([[], [OFFER, OFFER, OFFER]]);
    for (const end of ends) end.close();
    expect(counts).toEqual([0, 0]);
  });

  test('are opened even if the other end answers late because it was not open yet', async () => {
    const { ends, counts } = await opened({ pongsMs: () => 20, startsLate: true });
    expect(counts).toEqual([0, 0]);
    ends[1]!.start();
    await new Promise((resolve) => setImmediate(resolve));
    expect(counts).toEqual([3, 3]);
  });

  test('are none if one of the round trips takes less than ten milliseconds', async () => {
    const { counts } = await opened({ pongsMs: (ping) => (ping === 6 ? 2 : 50) });
    expect(counts).toEqual([0, 0]);
  });

  test('are none if ICE has measured a shorter round trip', async () => {
    const { counts } = await opened({ pongsMs: () => 50, iceRoundTripMs: () => Promise.resolve(1) });
    expect(counts).toEqual([0, 0]);
  });

  test('are as many as the initiator requests', async () => {
    expect((await opened({ connections: 2, pongsMs: () => 0 })).counts).toEqual([1, 1]);
    expect((await opened({ connections: 1, pongsMs: () => 90 })).counts).toEqual([0, 0]);
  });

  test('are not opened after the link has closed', async () => {
    const asked = createDeferred<number | null>();
    const { ends, counts } = await opened({ pongsMs: () => 50, iceRoundTripMs: () => asked.promise });
    ends[0]!.close();
    asked.reject(new Error('The connection is closed.'));
    await new Promise((resolve) => setImmediate(resolve));
    expect(counts).toEqual([0, 0]);
  });

  test.each([
    ['a browser cannot open as many', undefined],
    ['a page has used its own', () => null],
  ])('are fewer on both ends if %s', async (_, onmost) => {
    const { counts, signals } = await opened({ pongsMs: () => 50, most: 1, onmost });
    expect([counts, signals]).toEqual([
      [1, 1],
      [[], [OFFER]],
    ]);
  });

  test('are not closed on the answering end by a refusal', async () => {
    const { ends, counts } = await opened({ pongsMs: () => 50 });
    ends[1]!.receive(JSON.stringify({ type: 'refused', connection: 1 }));
    expect(counts).toEqual([3, 3]);
  });

  test('are opened once on the answering end, and only for an offer', () => {
    let attempts = 0;
    const end = new ExtraConnections({
      ...{ initiator: false, connections: null, now: () => 0, iceRoundTripMs: () => Promise.resolve(null) },
      send: () => {},
      open: () => {
        attempts += 1;
        throw new DOMException('too many', 'UnknownError');
      },
    });
    const attemptsAfter = (signal: PeerSignal): number => {
      end.receive(JSON.stringify({ type: 'signal', connection: 1, signal }));
      return attempts;
    };
    expect([CANDIDATE, OFFER, CANDIDATE, OFFER].map(attemptsAfter)).toEqual([0, 1, 1, 1]);
  });

  test('are not opened for signals that arrive after the link has closed', async () => {
    const { ends, counts } = await opened({ connections: 1, pongsMs: () => 0 });
    ends[1]!.close();
    ends[1]!.receive(JSON.stringify({ type: 'signal', connection: 1, signal: OFFER }));
    expect(counts).toEqual([0, 0]);
  });

  test('are not opened on the initiating end by an offer', async () => {
    const { ends, counts } = await opened({ connections: 1, pongsMs: () => 0 });
    ends[0]!.receive(JSON.stringify({ type: 'signal', connection: 1, signal: OFFER }));
    expect(counts).toEqual([0, 0]);
  });

  test('are refused beyond three, and so are unknown messages', async () => {
    const { ends } = await opened({ pongsMs: () => 0 });
    const text = JSON.stringify({ type: 'signal', connection: 4, signal: OFFER });
    for (const wrong of [text, '{', '{}']) expect(() => ends[1]!.receive(wrong)).toThrow(ProtocolError);
  });
});
