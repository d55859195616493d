/** Tests of transfers that take longer than their timeout, over links with a known rate. */
import { describe, expect, test } from 'vitest';
import { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { createMeshes } from '../../src/testing/index.ts';
import { BaseLink } from '../../src/transport/linkEnd.ts';
import { UNKNOWN_LINK_DESCRIPTION, type LinkDescription } from '../../src/transport/link.ts';
import { errorOf } from '../errorOf.ts';
import { ManualClock } from '../manualClock.ts';

const TIMEOUT_MS = 1000;
/** A link's queue of 1 MiB takes half of the timeout. */
const BYTES_PER_MS = 2000;
/** Number of float32 values that take five timeouts. */
const LONG = (5 * TIMEOUT_MS * BYTES_PER_MS) / 4;

/** One end of a link that sends one frame after another. */
class SlowLine extends BaseLink {
  peer: SlowLine | null = null;
  isStalled = false;
  readonly #queue: ArrayBuffer[] = [];
  readonly #clock: ManualClock;
  #isBusy = false;

  constructor(clock: ManualClock) {
    super();
    this.#clock = clock;
  }

  describe(): Promise<LinkDescription> {
    return Promise.resolve(UNKNOWN_LINK_DESCRIPTION);
  }

  protected transmit(frame: ArrayBuffer): void {
    this.#queue.push(frame.slice(0));
    if (!this.#isBusy) this.#next();
  }

  protected release(): void {
    this.peer = null;
  }

  #next(): void {
    const frame = this.#queue.shift();
    this.#isBusy = frame !== undefined;
    if (!frame) return;
    this.#clock.after(frame.byteLength / BYTES_PER_MS, () => {
      if (this.isStalled) return;
      this.left(frame.byteLength);
      this.peer?.arrived(frame);
      this.#next();
    });
  }
}

function slowWorld(n: number) {
  const clock = new ManualClock();
  const lines: SlowLine[] = [];
  const { meshes, links } = createMeshes(n, () => {
    const [one, other] = [new SlowLine(clock), new SlowLine(clock)];
    one.peer = other;
    other.peer = one;
    lines.push(one, other);
    return [one, other];
  });
  const groups = meshes.map((mesh) => new ProcessGroup(mesh, { clock, timeoutMs: TIMEOUT_MS }));
  const elapse = async (ms: number): Promise<void> => {
    for (let i = 0; i < ms / 20; i++) {
      clock.advance(20);
      for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
    }
  };
  /** Resolves with what each promise has become when all have settled or `ms` have passed. */
  const outcomes = async (promises: PromiseLike<unknown>[], ms: number): Promise<string[]> => {
    const states = promises.map(() => 'pending');
    promises.forEach((promise, i) => {
      promise.then(
        () => (states[i] = 'done'),
        (error: Error) => (states[i] = error.message),
      );
    });
    for (let at = 0; at < ms && states.includes('pending'); at += 100) await elapse(100);
    return states;
  };
  return { clock, groups, links, lines, elapse, outcomes };
}

const transfers: [string, number, (group: ProcessGroup) => PromiseLike<unknown>[]][] = [
  ['an all-reduce', 2, (group) => [group.allReduce(new Float32Array(2 * LONG))]],
  [
    'buckets that are all in flight',
    2,
    (group) => Array.from({ length: 40 }, () => group.allReduce(new Float32Array(LONG / 20))),
  ],
  ['a broadcast, also for its root', 3, (group) => [group.broadcast(new Float32Array(LONG), 0)]],
  ['a direct reduce', 4, (group) => [group.reduce(new Float32Array(LONG / 2), 0, { algorithm: 'direct' })]],
  ['a gather', 4, (group) => [group.gather(new Float32Array(LONG), 0)]],
  ['a barrier behind it', 2, (group) => [group.allReduce(new Float32Array(2 * LONG)), group.barrier()]],
  [
    'a monitored barrier behind it',
    2,
    (group) => [group.allReduce(new Float32Array(2 * LONG)), group.monitoredBarrier()],
  ],
  ['an object collective', 2, (group) => [group.allGatherObject('x'.repeat(4 * LONG))]],
  [
    'a message',
    2,
    (group) => (group.rank === 0 ? [group.send(new Float32Array(LONG), 1)] : [group.recv(new Float32Array(LONG), 0)]),
  ],
  [
    'messages that are sent one after another to receives that are posted at once',
    2,
    (group) => {
      const tensors = Array.from({ length: 5 }, () => new Float32Array(LONG / 2));
      if (group.rank === 1) return tensors.map((tensor) => group.recv(tensor, 0));
      const send = async (): Promise<void> => {
        for (const tensor of tensors) await group.send(tensor, 1);
      };
      return [send()];
    },
  ],
];

describe('over a slow line', () => {
  test.each(transfers)('an op may take longer than its timeout: %s', async (_what, n, call) => {
    const { groups, outcomes, clock } = slowWorld(n);
    const states = await outcomes(groups.flatMap(call), 40 * TIMEOUT_MS);
    expect([...new Set(states), clock.now() > 2 * TIMEOUT_MS]).toEqual(['done', true]);
  });

  test('a rank does not time out while the rank that it waits for still receives a tensor of an earlier op', async () => {
    const { groups, outcomes } = slowWorld(3);
    const sums = groups.map(async (group) => {
      if (group.rank > 0) {
        const tensor = new Float32Array(LONG);
        await (group.rank === 1 ? group.send(tensor, 2) : group.recv(tensor, 1));
      }
      await group.barrier();
    });
    expect(await outcomes(sums, 20 * TIMEOUT_MS)).toEqual(['done', 'done', 'done']);
  });

  test('a transfer that stalls fails within the timeout, and the error says how much has arrived', async () => {
    const { groups, lines, elapse, outcomes, clock } = slowWorld(2);
    const works = groups.map((group) => group.allReduce(new Float32Array(2 * LONG)));
    await elapse(2500);
    for (const line of lines) line.isStalled = true;
    const [text] = await outcomes(works, 10 * TIMEOUT_MS);
    expect([clock.now() <= 2500 + 3 * TIMEOUT_MS, text]).toEqual([
      true,
      expect.stringMatching(
        /; \d+ of 20000000 bytes have arrived at \d+ kB\/s, none in the last \d s; data of rank \d is missing\. Rank \d did not answer/,
      ),
    ]);
  });

  test('a message that stalls fails, and the error says how much has arrived', async () => {
    const { groups, lines, elapse, outcomes } = slowWorld(2);
    const received = groups[1]!.recv(new Float32Array(LONG), 0);
    const sent = groups[0]!.send(new Float32Array(LONG), 1);
    sent.catch(() => {});
    await elapse(2500);
    for (const line of lines) line.isStalled = true;
    expect(await outcomes([received], 10 * TIMEOUT_MS)).toEqual([
      expect.stringMatching(
        /not arrived completely: \d+ of 10000000 bytes have arrived at \d+ kB\/s, none in the last/,
      ),
    ]);
  });

  test('ranks that do not call a barrier are named, even while they exchange messages with each other', async () => {
    const { groups, elapse, clock } = slowWorld(3);
    const error = errorOf(groups[0]!.barrier());
    const later = [groups[1]!, groups[2]!].map(async (group) => {
      for (let i = 0; i < 100; i++) {
        const tensor = new Float32Array(LONG / 20);
        await (group.rank === 1 ? group.send(tensor, 2) : group.recv(tensor, 1));
      }
    });
    void Promise.allSettled(later);
    await elapse(3 * TIMEOUT_MS);
    expect([(await error).context.missing, clock.now()]).toEqual([[1, 2], 3 * TIMEOUT_MS]);
  });
});
