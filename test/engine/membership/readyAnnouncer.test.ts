/** Tests of the order in which a rank asks for feeders and announces that it is ready. */
import { expect, test } from 'vitest';
import { ReadyAnnouncer } from '../../../src/engine/membership/readyAnnouncer.ts';
import type { Generation } from '../../../src/engine/membership/generation.ts';
import type { RoomMessage } from '../../../src/protocol/control.ts';
import type { ReportedDevice } from '../../../src/protocol/room.ts';
import { createDeferred } from '../../../src/util/deferred.ts';
import { ManualClock } from '../../manualClock.ts';

const DEVICE: ReportedDevice = { backend: 'cpu', adapter: 'test' };
const MEMBER = 'ada';
const READY = { type: 'ready', device: DEVICE, stateOfRun: null };
const FEEDERS = ['feeder-1', 'feeder-2', 'feeder-3'] as const;

/** The request for a feeder. */
const asks = (avoids: readonly string[], prefers: string | null = null) => ({ ...READY, catchUp: { prefers, avoids } });

/** A rank, and the messages that it sends. */
class Rank {
  readonly clock = new ManualClock();
  sent: unknown[] = [];
  readonly announcer = new ReadyAnnouncer(this.clock, (message) => this.sent.push(message));

  announce(isBehind: boolean): void {
    this.announcer.announce({ device: DEVICE, stateOfRun: null, isBehind });
  }

  /** Returns the messages that the rank has sent since the last call, after all retries. */
  takeSent(): unknown[] {
    this.clock.advance(60_000);
    return this.sent.splice(0);
  }

  fed(feeder: string): ReturnType<ReadyAnnouncer['fed']> {
    return this.announcer.fed({ rank: 1, members: [{ member: feeder }, { member: MEMBER }] } as Generation);
  }

  follow(phase: RoomMessage['phase'], isCounted: boolean): void {
    const members = [{ member: MEMBER, device: isCounted ? DEVICE : null }];
    this.announcer.follow({ phase, members } as RoomMessage, MEMBER);
  }
}

/** A rank that has asked for a feeder. */
function behind(): Rank {
  const rank = new Rank();
  rank.announce(true);
  expect(rank.takeSent()).toEqual([asks([])]);
  return rank;
}

test('a rank that lacks nothing is ready immediately', () => {
  const rank = new Rank();
  rank.announce(false);
  expect(rank.takeSent()).toEqual([READY]);
});

test('a newcomer is ready when it has caught up', () => {
  const rank = behind();
  rank.fed(FEEDERS[0]).onnear();
  expect(rank.takeSent()).toEqual([READY]);
});

test('a newcomer avoids a feeder that has sent nothing, but may use a feeder again after its link broke', () => {
  const rank = behind();
  rank.announcer.unfed(FEEDERS[0]);
  expect(rank.takeSent()).toEqual([asks([FEEDERS[0]])]);
  rank.fed(FEEDERS[1]).onbytes();
  rank.announcer.unfed(FEEDERS[1]);
  expect(rank.takeSent()).toEqual([asks([], FEEDERS[1])]);
});

test('a newcomer avoids a feeder that once sent a part of the state and can no longer be reached', () => {
  const rank = behind();
  rank.fed(FEEDERS[0]).onbytes();
  rank.announcer.unfed(FEEDERS[0]);
  expect(rank.takeSent()).toEqual([asks([], FEEDERS[0])]);
  rank.announcer.unfed(FEEDERS[0]);
  expect(rank.takeSent()).toEqual([asks([FEEDERS[0]], FEEDERS[0])]);
});

test('a newcomer waits a moment before it asks for another feeder', () => {
  const rank = behind();
  rank.announcer.unfed(FEEDERS[0]);
  expect(rank.sent).toEqual([]);
  expect(rank.clock.untilNext).toBeGreaterThan(0);
});

test('a newcomer is ready after three feeders have sent nothing', () => {
  const rank = behind();
  const sent = FEEDERS.map((feeder) => {
    rank.announcer.unfed(feeder);
    return rank.takeSent();
  });
  expect(sent).toEqual([[asks(FEEDERS.slice(0, 1))], [asks(FEEDERS.slice(0, 2))], [READY]]);
});

test('a newcomer is ready if the run is paused, because it then delays nobody', () => {
  const rank = behind();
  rank.follow('PAUSED', false);
  expect(rank.takeSent()).toEqual([READY]);
});

test('a newcomer needs no feeder if the server already counts it as ready', () => {
  const rank = behind();
  rank.follow('RUNNING', true);
  rank.announcer.unfed(FEEDERS[0]);
  expect(rank.takeSent()).toEqual([]);
});

test('a newcomer asks for no feeder after its announcement was forgotten, for example by a new admission', () => {
  const rank = behind();
  const hooks = rank.fed(FEEDERS[0]);
  rank.announcer.unfed(FEEDERS[0]);
  rank.announcer.forget();
  hooks.onnear();
  expect(rank.takeSent()).toEqual([]);
});

test('a rank that is announced again while its earlier work ends is announced once', async () => {
  const rank = new Rank();
  const earlierWork = createDeferred();
  const late = rank.announcer.announceAfter(earlierWork.promise, () => ({
    device: DEVICE,
    stateOfRun: null,
    isBehind: false,
  }));
  rank.announce(true);
  earlierWork.resolve();
  await late;
  expect(rank.takeSent()).toEqual([asks([])]);
});
