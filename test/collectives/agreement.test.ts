/**
 * Tests of agreement: as soon as all ranks have called an op, every rank knows it, and never
 * before. This is true for any order of frames.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createCallAgreement, type CallAgreement } from '../../src/collectives/diagnostics/agreement.ts';
import type { CollectiveOpDescriptor } from '../../src/collectives/diagnostics/descriptor.ts';
import { AlgorithmCode, DtypeCode, OpCode, ReduceOp } from '../../src/protocol/frame.ts';

const broadcast: CollectiveOpDescriptor = {
  op: OpCode.BROADCAST,
  reduceOp: ReduceOp.NONE,
  dtype: DtypeCode.FLOAT32,
  algorithm: AlgorithmCode.RING,
  root: 0,
  tag: 0,
  count: 10,
};

interface Call {
  from: number;
  to: number;
  step: number;
}

/**
 * Ranks that call one op, and the CALL frames on the links between them. `pick` chooses the link
 * that delivers the next frame.
 */
class Ranks {
  readonly agreements: (CallAgreement | null)[];
  readonly sent: Call[] = [];
  readonly #descriptor: CollectiveOpDescriptor;
  /** Frames that are on their way, by link, in order. */
  readonly #moving = new Map<string, Call[]>();
  /** Frames for ranks that have not called the op yet. */
  readonly #unexpected: Call[] = [];

  constructor(n: number, descriptor: CollectiveOpDescriptor) {
    this.#descriptor = descriptor;
    this.agreements = Array.from({ length: n }, () => null);
  }

  call(rank: number): void {
    const agreement = createCallAgreement(this.#descriptor, rank, this.agreements.length);
    this.agreements[rank] = agreement;
    this.#sendCalls(rank, agreement);
    for (const call of this.#unexpected.filter(({ to }) => to === rank)) this.#deliver(call);
  }

  /** Delivers all frames. */
  settle(pick: (links: number) => number): void {
    while (this.#moving.size > 0) {
      const [link, frames] = [...this.#moving][pick(this.#moving.size)]!;
      const call = frames.shift()!;
      if (frames.length === 0) this.#moving.delete(link);
      this.#deliver(call);
    }
  }

  get reached(): boolean[] {
    return this.agreements.map((agreement) => agreement?.isReached ?? false);
  }

  #deliver(call: Call): void {
    const agreement = this.agreements[call.to];
    if (!agreement) return void this.#unexpected.push(call);
    agreement.receive(call.step, call.from);
    this.#sendCalls(call.to, agreement);
  }

  #sendCalls(from: number, agreement: CallAgreement): void {
    for (const { to, step } of agreement.takeCalls()) {
      const call = { from, to, step };
      this.sent.push(call);
      const link = `${from} ${to}`;
      this.#moving.set(link, [...(this.#moving.get(link) ?? []), call]);
    }
  }
}

describe.each([
  ['the ring', AlgorithmCode.RING, (n: number) => n - 1],
  ['log2(n) steps', AlgorithmCode.TREE, (n: number) => Math.ceil(Math.log2(n))],
])('agreement over %s', (_name, algorithm, framesOfRank) => {
  test.each(Array.from({ length: 17 }, (_, i) => i + 1))(
    'is reached on all of %i ranks when the last rank has called the collective, and on no rank earlier',
    (n) => {
      fc.assert(
        fc.property(
          fc.shuffledSubarray(
            Array.from({ length: n }, (_, rank) => rank),
            { minLength: n, maxLength: n },
          ),
          fc.infiniteStream(fc.nat()),
          (order, picks) => {
            const ranks = new Ranks(n, { ...broadcast, algorithm });
            for (const [i, rank] of order.entries()) {
              expect(ranks.reached).not.toContain(true);
              ranks.call(rank);
              if (i < n - 1) ranks.settle((links) => picks.next().value % links);
            }
            ranks.settle((links) => picks.next().value % links);
            expect(ranks.reached).not.toContain(false);
            expect(ranks.sent).toHaveLength(n * framesOfRank(n));
          },
        ),
        { numRuns: 20 },
      );
    },
  );
});

test('agreement on the ring sends frames only to neighbours', () => {
  const ranks = new Ranks(6, broadcast);
  for (let rank = 0; rank < 6; rank++) ranks.call(rank);
  ranks.settle(() => 0);
  for (const { from, to } of ranks.sent) expect([1, 5]).toContain((to - from + 6) % 6);
});

test.each([
  ['the same step twice', [1, 4]],
  ['a step too far', [3, 4]],
  ['from a rank that is not a neighbour', [2, 3]],
  ['from this rank', [2, 0]],
] as const)('agreement on the ring ignores a frame that no correct neighbour sends: %s', (_what, [step, from]) => {
  const agreement = createCallAgreement(broadcast, 0, 5);
  agreement.receive(1, 4);
  agreement.takeCalls();
  agreement.receive(step, from);
  expect(agreement.takeCalls()).toEqual([]);
  agreement.receive(2, 4);
  agreement.receive(1, 1);
  expect(agreement.isReached).toBe(false);
  agreement.receive(2, 1);
  expect(agreement.isReached).toBe(true);
});

test('agreement in log2(n) steps uses the frame of a later step only after all earlier steps', () => {
  const agreement = createCallAgreement({ ...broadcast, algorithm: AlgorithmCode.DOUBLING }, 0, 8);
  expect(agreement.takeCalls()).toEqual([{ to: 1, step: 0 }]);
  agreement.receive(1, 6);
  agreement.receive(0, 3);
  expect(agreement.takeCalls()).toEqual([]);
  agreement.receive(0, 7);
  expect(agreement.takeCalls()).toEqual([
    { to: 2, step: 1 },
    { to: 4, step: 2 },
  ]);
  expect(agreement.isReached).toBe(false);
  agreement.receive(2, 4);
  expect(agreement.isReached).toBe(true);
});

test.each([
  ['all-reduce', { op: OpCode.ALL_REDUCE }, true],
  ['barrier', { op: OpCode.BARRIER, count: 1 }, true],
  ['an empty all-reduce', { op: OpCode.ALL_REDUCE, count: 0 }, false],
  ['reduce', { op: OpCode.REDUCE }, false],
  ['an all-gather of non-empty parts', { op: OpCode.ALL_GATHER }, true, true],
  ['an all-gather with an empty part', { op: OpCode.ALL_GATHER }, false, false],
])(
  'agreement needs no frames if the data already prove that all ranks have called: %s (%o): %s',
  (_name, fields, isSelfEvident, needsEveryRank?: boolean) => {
    const agreement = createCallAgreement({ ...broadcast, ...fields }, 0, 4, needsEveryRank);
    expect(agreement.isReached).toBe(isSelfEvident);
    expect(agreement.takeCalls().length === 0).toBe(isSelfEvident);
  },
);
