/** Cases of messages between two ranks, with send and recv. */
import { newZeros } from '../../src/collectives/dtypes.ts';
import { MismatchError, TimeoutError, UsageError } from '../../src/util/errors.ts';
import { sleep, type ConformanceCase } from './case.ts';
import { DTYPES, repeated } from './dtypes.ts';
import { expectEqual, expectRejection, expectThat, expectThrow } from './expect.ts';
import { floats, range } from './values.ts';

/**
 * Bytes of a message with several frames. It is larger than what is sent before the receiver is
 * ready.
 */
const LARGE = 1_200_000;

export const MESSAGE_CASES: readonly ConformanceCase[] = [
  {
    number: 140,
    title: 'send and recv transfer a message between every pair of ranks, also between ranks that are not neighbours',
    worlds: [2, 3, 4, 5, 7],
    inTabs: true,
    run: async (group, n) => {
      const { rank } = group;
      for (let from = 0; from < n; from++) {
        for (let to = 0; to < n; to++) {
          if (from === to) continue;
          if (rank === from)
            await group.send(
              floats(10, (i) => from * 100 + to * 10 + i),
              to,
            );
          if (rank !== to) continue;
          const into = new Float32Array(10);
          expectEqual(await group.recv(into, from), from, `sender of ${from} -> ${to}`);
          expectEqual(
            into,
            floats(10, (i) => from * 100 + to * 10 + i),
            `${from} -> ${to}`,
          );
        }
      }
    },
  },
  {
    number: 141,
    title: 'receives with a tag get the messages with this tag in the order in which they were sent',
    worlds: [2, 3],
    inTabs: true,
    run: async (group, n) => {
      const right = (group.rank + 1) % n;
      const left = (group.rank + n - 1) % n;
      const tags = [0, 1, 7, 65_535];
      const sends = range(3).flatMap((round) =>
        tags.map((tag) =>
          group.isend(
            floats(3, () => tag + round),
            right,
            { tag },
          ),
        ),
      );
      for (const tag of tags.toReversed()) {
        for (const round of range(3)) {
          const into = new Float32Array(3);
          await group.recv(into, left, { tag });
          expectEqual(
            into,
            floats(3, () => tag + round),
            `tag ${tag}, message ${round}`,
          );
        }
      }
      await Promise.all(sends);
    },
  },
  {
    number: 142,
    title: 'a receive from any rank returns the rank of the sender',
    worlds: [2, 3, 4, 7],
    inTabs: true,
    run: async (group, n) => {
      if (group.rank > 0) {
        for (const round of range(3)) await group.send(Float32Array.of(group.rank, round), 0, { tag: 5 });
        return;
      }
      const rounds = new Map<number, number[]>();
      for (let i = 0; i < 3 * (n - 1); i++) {
        const into = new Float32Array(2);
        const from = await group.recv(into, null, { tag: 5 });
        expectEqual(into[0], from, 'the reported sender');
        rounds.set(from, [...(rounds.get(from) ?? []), into[1]!]);
      }
      expectEqual(new Set(rounds.keys()).size, n - 1, 'senders');
      for (const [from, seen] of rounds) expectEqual(seen, [0, 1, 2], `order of rank ${from}'s messages`);
    },
  },
  {
    number: 143,
    title: 'ranks can send and receive messages of more than 1 MiB at the same time, of every dtype',
    worlds: [2, 3],
    inTabs: true,
    run: async (group, n) => {
      const peer = (group.rank + 1) % n;
      const left = (group.rank + n - 1) % n;
      for (const dtype of DTYPES) {
        // The length of a frame is not a multiple of 101 elements, so a misplaced segment is
        // detected.
        const tensor = repeated(dtype, range(101), Math.ceil(LARGE / dtype.bytes));
        const into = newZeros(tensor, tensor.length);
        await Promise.all([group.isend(tensor, peer, dtype.options), group.irecv(into, left, dtype.options)]);
        expectEqual(into, tensor, dtype.name);
      }
    },
  },
  {
    number: 144,
    title: '500 small messages can be received by tag in reverse order',
    worlds: [2, 3],
    inTabs: true,
    run: async (group, n) => {
      const right = (group.rank + 1) % n;
      const left = (group.rank + n - 1) % n;
      const count = 500;
      const sends = range(count).map((i) => group.isend(Int32Array.of(group.rank, i), right, { tag: i }));
      for (const i of range(count).toReversed()) {
        const into = new Int32Array(2);
        await group.recv(into, left, { tag: i });
        expectEqual(into, Int32Array.of(left, i), `tag ${i}`);
      }
      await Promise.all(sends);
    },
  },
  {
    number: 145,
    title: 'a send completes only after the matching receive is called',
    worlds: [2],
    inTabs: true,
    run: async (group) => {
      for (const count of [0, 4, 16_000, LARGE / 4]) {
        if (group.rank === 0) {
          const work = group.isend(new Float32Array(count), 1);
          await sleep(5);
          expectEqual(work.isCompleted(), false, `${count} elements that are not received yet`);
          await group.barrier();
          await work;
        } else {
          await group.barrier();
          await group.recv(new Float32Array(count), 0);
        }
      }
    },
  },
  {
    number: 146,
    title: 'batchIsendIrecv exchanges tensors with both neighbours in one call',
    worlds: [2, 3, 4, 5],
    inTabs: true,
    run: async (group, n) => {
      const { rank } = group;
      const right = (rank + 1) % n;
      const left = (rank + n - 1) % n;
      const [fromLeft, fromRight] = [new Float32Array(100), new Float32Array(100)];
      const works = group.batchIsendIrecv([
        { op: 'irecv', tensor: fromLeft, peer: left, tag: 1 },
        { op: 'irecv', tensor: fromRight, peer: right, tag: 2 },
        { op: 'isend', tensor: floats(100, () => rank), peer: right, tag: 1 },
        { op: 'isend', tensor: floats(100, () => -rank), peer: left, tag: 2 },
      ]);
      await Promise.all(works);
      expectEqual([fromLeft, fromRight], [floats(100, () => left), floats(100, () => -right)], 'from left and right');
    },
  },
  {
    number: 147,
    title: 'messages and allReduces in flight at the same time all have correct results',
    worlds: [2, 3, 5],
    inTabs: true,
    run: async (group, n) => {
      const right = (group.rank + 1) % n;
      for (const round of range(20)) {
        const into = new Float32Array(3000);
        const [, from, reduced] = await Promise.all([
          group.isend(
            floats(3000, () => group.rank + round),
            right,
          ),
          group.irecv(into),
          group.allReduce(floats(100, () => 1)),
        ]);
        expectEqual([into[2999], reduced[99]], [from + round, n], `round ${round}`);
      }
    },
  },
  {
    number: 148,
    title: 'if a message has another length or dtype than its receive, the group fails on every rank',
    worlds: [2, 3, 4],
    inTabs: true,
    run: async (group) => {
      const call =
        group.rank === 0
          ? group.isend(new Float32Array(5), 1, { tag: 3 })
          : group.rank === 1
            ? group.irecv(new Int32Array(6), 0, { tag: 3 })
            : group.barrier();
      const message = 'Rank 0 sent 5 float32 with tag 3, but rank 1 receives 6 int32';
      await expectRejection(call, MismatchError, message, 'message and receive');
    },
  },
  {
    number: 149,
    title: 'a send without a receive, and a receive without a send, time out',
    worlds: [2, 3],
    inTabs: true,
    run: async (group) => {
      if (group.rank === 1) {
        const call = group.recv(new Float32Array(1), 0, { tag: 9, timeoutMs: 40 });
        await expectRejection(call, TimeoutError, 'recv(1 float32 from rank 0, tag 9)', 'recv');
      } else if (group.rank === 0) {
        const call = group.send(new Float32Array(1), 1, { tag: 8, timeoutMs: 5000 });
        await expectRejection(call, TimeoutError, 'Timed out', 'send');
      }
    },
  },
  {
    number: 150,
    title: 'send and recv reject invalid peers and tags',
    worlds: [1, 2],
    inTabs: true,
    run: async (group, n) => {
      const tensor = new Float32Array(1);
      for (const peer of [group.rank, -1, n, 0.5]) {
        expectThrow(() => group.isend(tensor, peer), UsageError, 'Invalid destination rank', `send to ${peer}`);
        expectThrow(() => group.irecv(tensor, peer), UsageError, 'Invalid source rank', `recv from ${peer}`);
      }
      if (n > 1) {
        for (const tag of [-1, 65_536, 0.5, NaN]) {
          expectThrow(() => group.isend(tensor, 1 - group.rank, { tag }), UsageError, 'A tag is', `tag ${tag}`);
        }
      }
      expectThrow(() => group.batchIsendIrecv([]), UsageError, 'non-empty', 'batchIsendIrecv');
      expectThat(group.failure === null, 'the group is usable');
    },
  },
];
