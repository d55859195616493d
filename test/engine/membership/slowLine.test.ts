/**
 * A tab and the signaling server over a line that links' data fill, so that heartbeats and their
 * answers wait behind these data.
 */
import { expect, test } from 'vitest';
import { Heartbeats } from '../../../src/engine/membership/heartbeats.ts';
import { Rendezvous } from '../../../src/engine/membership/rendezvous.ts';
import type { SignalingSocket } from '../../../src/engine/membership/signalingClient.ts';
import { PROTOCOL_VERSION } from '../../../src/protocol/control.ts';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';
import { ThreadActivity, pulseOfActiveRank } from '../../../src/util/activity.ts';
import { DEFAULT_LIMITS } from '../../../signaling/limits.ts';
import { SilenceTimer } from '../../../signaling/silenceTimer.ts';
import { ManualClock } from '../../manualClock.ts';
import { SignalingWorld } from '../signalingWorld.ts';

const TURN_MS = 100;
const MESSAGE_BYTES = 200;

/** Carries packets in order, `rate` bytes a second. */
class Line {
  rate: number;
  carried = 0;
  readonly #queue: { rest: number; arrive: () => void; isData: boolean }[] = [];
  #credit = 0;

  constructor(rate: number) {
    this.rate = rate;
  }

  /** Bytes of links in the queue. */
  get dataBytes(): number {
    return this.#queue.reduce((sum, { rest, isData }) => sum + (isData ? rest : 0), 0);
  }

  put(bytes: number, arrive: () => void = () => {}, isData = false): void {
    this.#queue.push({ rest: bytes, arrive, isData });
  }

  turn(): void {
    this.#credit += (this.rate * TURN_MS) / 1000;
    for (let [first] = this.#queue; first !== undefined; [first] = this.#queue) {
      const bytes = Math.min(first.rest, this.#credit);
      first.rest -= bytes;
      this.#credit -= bytes;
      if (first.isData) this.carried += bytes;
      if (first.rest > 0) return;
      this.#queue.shift();
      first.arrive();
    }
    this.#credit = 0;
  }
}

interface Scene {
  /** Bytes a second of the line, in both directions. */
  rate: number;
  /** Bytes that a link keeps in the queue of the line. */
  queued: { up: number; down: number };
  /** The second after which the server answers no more. */
  serverEnds?: number;
  /** The second after which the tab sends and receives nothing more. */
  tabEnds?: number;
}

/** Returns when each end gives the other up, in seconds; `null` if it does not in ten minutes. */
function play({ rate, queued, serverEnds = Infinity, tabEnds = Infinity }: Scene): {
  tab: number | null;
  server: number | null;
} {
  const clock = new ManualClock();
  const seconds = (): number => Math.round(clock.now() / 1000);
  const [up, down] = [new Line(rate), new Line(rate)];
  const ends: { tab: number | null; server: number | null } = { tab: null, server: null };
  const activity = new ThreadActivity(clock);
  // A link has 200 kB more to send, beyond what the line has accepted.
  activity.traffic = () => ({ unsent: queued.up && 200_000, sent: up.carried, received: down.carried });
  const silence = new SilenceTimer(clock, DEFAULT_LIMITS, () => (ends.server ??= seconds()));
  const heartbeats = new Heartbeats({
    clock,
    today: () => clock.now(),
    send: (message) => {
      if (seconds() >= tabEnds || message.type !== 'heartbeat') return;
      up.put(MESSAGE_BYTES, () => {
        silence.received();
        silence.allow(message.pulse?.lateMs ?? 0);
        if (seconds() < serverEnds) down.put(MESSAGE_BYTES, () => heartbeats.answered());
      });
    },
    pulse: () => pulseOfActiveRank(activity.report),
    bytes: () => activity.report.bytes,
    onlost: () => (ends.tab ??= seconds()),
  });
  heartbeats.start(DEFAULT_LIMITS.heartbeatMs);
  silence.watch();
  while (seconds() < 600) {
    // Data join the queue slowly, as a congestion window grows; after a pause they join at once.
    for (const [line, most] of [
      [up, queued.up],
      [down, queued.down],
    ] as const) {
      const room = Math.min(most, line.carried + 12_000) - line.dataBytes;
      const isPause = seconds() >= 100 && seconds() < 130;
      if (room > 0 && seconds() < tabEnds && !isPause) line.put(room, undefined, true);
      if (seconds() < tabEnds) line.turn();
    }
    clock.advance(TURN_MS);
  }
  return ends;
}

const NOTHING = { up: 0, down: 0 };
const FULL = { up: 65_000, down: 65_000 };

test.each([
  ['from other tabs', { up: 0, down: 65_000 }],
  ['to other tabs', { up: 65_000, down: 0 }],
  ['in both directions', FULL],
  ['of a queue of 20 s', { up: 125_000, down: 125_000 }],
])('a tab and its server do not give each other up while a 50 kbit/s line carries data %s', (_, queued) => {
  expect(play({ rate: 6_250, queued })).toEqual({ tab: null, server: null });
});

test('a missing end is given up within 10 s on an idle line and on a fast one', () => {
  const seconds = [
    play({ rate: 6_250, queued: NOTHING, serverEnds: 60 }).tab,
    play({ rate: 1_250_000, queued: FULL, serverEnds: 60 }).tab,
    play({ rate: 6_250, queued: NOTHING, tabEnds: 60 }).server,
    play({ rate: 1_250_000, queued: FULL, tabEnds: 60 }).server,
  ];
  expect(seconds).toEqual([68, 68, 70, 70]);
});

test('a missing end is given up within three minutes on a busy line', () => {
  const seconds = [
    play({ rate: 6_250, queued: FULL, serverEnds: 200 }).tab,
    play({ rate: 6_250, queued: FULL, tabEnds: 200 }).server,
  ];
  expect(seconds).toEqual([296, 369]);
});

/** A WebSocket whose packets wait in two lines. */
class SlowSocket extends EventTarget implements SignalingSocket {
  readonly OPEN = 1;
  readyState: WebSocket['readyState'] = 0;
  readonly #up: Line;
  #inner: SignalingSocket | null = null;

  constructor(up: Line, down: Line, open: () => SignalingSocket) {
    super();
    this.#up = up;
    const roundTrip = (then: () => void): void => up.put(MESSAGE_BYTES, () => down.put(MESSAGE_BYTES, then));
    // TCP, TLS and the request of a WebSocket take a round trip each.
    roundTrip(() =>
      roundTrip(() =>
        up.put(MESSAGE_BYTES, () => {
          if (this.readyState > 1) return;
          const inner = open();
          this.#inner = inner;
          const pass = (event: Event, readyState: 1 | 3): void =>
            down.put(MESSAGE_BYTES, () => {
              this.readyState = Math.max(this.readyState, readyState) as 1 | 3;
              this.dispatchEvent(event);
            });
          inner.addEventListener('open', () => pass(new Event('open'), 1));
          inner.addEventListener('message', ({ data }: MessageEvent<unknown>) =>
            pass(new MessageEvent('message', { data }), 1),
          );
          inner.addEventListener('close', () => pass(new Event('close'), 3));
        }),
      ),
    );
  }

  send(text: string): void {
    this.#up.put(MESSAGE_BYTES, () => this.#inner?.send(text));
  }

  close(): void {
    this.readyState = Math.max(this.readyState, 2) as 2 | 3;
    this.#up.put(MESSAGE_BYTES, () => this.#inner?.close());
  }
}

function never(): never {
  throw new Error('This room has no run.');
}

test.each([
  ['of 10 s', 65_000],
  ['of 20 s', 125_000],
])('a tab reaches a restarted server over a 50 kbit/s line with a queue %s', async (_, queued) => {
  const world = new SignalingWorld();
  const { clock } = world;
  const [up, down] = [new Line(6_250), new Line(6_250)];
  const port = world.plug();
  const activity = new ThreadActivity(clock);
  const seen: string[] = [];
  const tab = new Rendezvous({
    ...{ server: 'http://192.0.2.1', clock, today: () => clock.now(), random: () => 0, activity },
    browserId: () => Promise.resolve('b'.repeat(16)),
    openSocket: (url) => new SlowSocket(up, down, () => port.openSocket(url)),
    hello: {
      ...{ type: 'join', version: PROTOCOL_VERSION, name: 'Ada' },
      room: world.openRoom({ job: DEFAULT_JOB, startAt: null, nodes: { min: 1, max: 4 } }),
    },
    ...{ connectPeer: never, connectTab: never, enter: never, train: never, scopeOf: never },
    ...{ onroom: () => {}, onended: () => {}, onrefused: () => {} },
    onadmitted: () => seen.push('admitted'),
    onstate: ({ isServerAway }) => {
      if (isServerAway && seen.at(-1) !== 'lost') seen.push('lost');
    },
    onfatal: ({ message }) => seen.push(message),
  });
  let isFull = false;
  activity.traffic = () => ({ unsent: isFull ? 200_000 : 0, sent: up.carried, received: down.carried });
  const carry = (): void => {
    for (const line of [up, down]) {
      const room = Math.min(queued, line.carried + 12_000) - line.dataBytes;
      if (isFull && room > 0) line.put(room, undefined, true);
      line.turn();
    }
    clock.after(TURN_MS, carry);
  };
  carry();
  void tab.start();
  await world.until('the tab is admitted', () => seen.length > 0);
  isFull = true;
  await world.pass(60_000);
  world.stopServer();
  world.startServer();
  await world.pass(119_000);
  await world.pass(119_000);
  expect(seen).toEqual(['admitted', 'lost', 'admitted']);
});
