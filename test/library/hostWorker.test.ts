/** A page hosts a worker's connections. Both are this process; the worker is an event target. */
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { PeerConnectOptions, PeerConnection } from '../../src/transport/peerLink.ts';
import { requestHostPage } from '../../src/library/worker/hostedPage.ts';
import { hostWorker } from '../../src/library/worker/index.ts';
import { UsageError } from '../../src/util/errors.ts';
import { errorOf } from '../errorOf.ts';
import { ManualClock } from '../manualClock.ts';

const { openPeerConnection } = vi.hoisted(() => ({
  openPeerConnection: vi.fn<(options: PeerConnectOptions) => PeerConnection>(),
}));
vi.mock('../../src/transport/peerLink.ts', () => ({ openPeerConnection }));

let clock: ManualClock;
let worker: Worker;
/** Ends the worker: the browser then grants its lock to those who wait. */
let endWorker: () => void;
let page: EventTarget;

beforeEach(() => {
  clock = new ManualClock();
  worker = new EventTarget() as unknown as Worker;
  page = new EventTarget();
  vi.stubGlobal('RTCPeerConnection', vi.fn());
  vi.stubGlobal('location', { origin: 'https://page.example', hash: '#K7F3QX' });
  vi.stubGlobal('isSecureContext', true);
  vi.stubGlobal('addEventListener', page.addEventListener.bind(page));
  vi.stubGlobal('removeEventListener', page.removeEventListener.bind(page));
  const waiting: (() => void)[] = [];
  endWorker = () => waiting.splice(0).forEach((granted) => granted());
  vi.stubGlobal('navigator', {
    locks: {
      request: async (...args: [string, ...unknown[]]) => {
        const callback = args.at(-1) as () => Promise<void>;
        if (args.length === 3) await new Promise<void>((resolve) => waiting.push(resolve));
        await callback();
      },
    },
  });
  vi.stubGlobal('postMessage', (data: unknown, { transfer }: { transfer: MessagePort[] }) =>
    worker.dispatchEvent(new MessageEvent('message', { data, ports: transfer })),
  );
});
afterEach(() => vi.unstubAllGlobals());

/** Lets time pass, after and before the promises and messages that are due. */
async function pass(ms: number): Promise<void> {
  await setImmediate();
  clock.advance(ms);
  await setImmediate();
}

test('a worker repeats its request until its page hosts it, and only hostWorker receives the request', async () => {
  const asking = requestHostPage(clock);
  await pass(600);
  hostWorker(worker);
  const received = vi.fn();
  worker.addEventListener('message', received);
  await pass(600);
  const { address } = await asking;
  expect(address).toEqual({ origin: 'https://page.example', hash: '#K7F3QX' });
  await pass(5_000);
  worker.dispatchEvent(new MessageEvent('message', { data: { type: 'of the program' } }));
  expect(received).toHaveBeenCalledOnce();
});

test('a worker gets an error after 10 s if its page does not host it', async () => {
  const failure = errorOf(requestHostPage(clock));
  await pass(10_000);
  expect(await failure).toBeInstanceOf(UsageError);
  expect((await failure).message).toContain('Call hostWorker(worker) of peergrad/worker on the page');
});

test("the code of a room that a worker opens is written into the page's URL", async () => {
  const replaceState = vi.fn();
  vi.stubGlobal('history', { replaceState });
  hostWorker(worker);
  (await requestHostPage(clock)).writeRoom('K7F3QX');
  await vi.waitFor(() => expect(replaceState).toHaveBeenCalledWith(null, '', '#K7F3QX'));
});

test('hostWorker in a worker throws', () => {
  vi.stubGlobal('RTCPeerConnection', undefined);
  expect(() => hostWorker(worker)).toThrow(/Call it on the page/);
});

test.each([
  ['the worker ends', () => endWorker()],
  ['the page is closed', () => page.dispatchEvent(new Event('pagehide'))],
])("the page closes a worker's connections when %s", async (_, end) => {
  const close = vi.fn();
  // A channel that cannot be transferred stays on the page.
  const channel = { cannotBeCloned: () => {} } as unknown as RTCDataChannel;
  const opened = new Promise<void>((resolve) => {
    openPeerConnection.mockImplementation(() => {
      resolve();
      return {
        channel,
        onclose: null,
        onchannel: null,
        signal: () => {},
        describe: () => new Promise(() => {}),
        close,
      };
    });
  });
  hostWorker(worker);
  const { connectPeer } = await requestHostPage(clock);
  connectPeer({ initiator: true, iceServers: [], onsignal: () => {} });
  await opened;
  expect(close).not.toHaveBeenCalled();
  end();
  await vi.waitFor(() => expect(close).toHaveBeenCalledOnce());
});
