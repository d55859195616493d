/**
 * Cases of plans, the lists of moves by which ranks execute a collective: simulates the plans of
 * all ranks together, without a network, and checks what must hold for every plan.
 */
import {
  chooseAllGatherAlgorithm,
  chooseAllReduceAlgorithm,
  chooseRootedAlgorithm,
} from '../../src/collectives/plans/costModel.ts';
import * as plans from '../../src/collectives/plans/plans.ts';
import type { Displacements, PlanMove, CollectivePlan } from '../../src/collectives/plans/plans.ts';
import { twoLevelGroupSize } from '../../src/spec/algorithms.ts';
import { AlgorithmCode } from '../../src/protocol/frame.ts';
import { mixSeed } from '../../src/util/rng.ts';
import type { ConformanceCase } from './case.ts';
import { expectEqual, expectThat } from './expect.ts';
import { range } from './values.ts';

/**
 * A simulated element: the ranks whose values it contains, and the order in which these values were
 * combined.
 */
interface Element {
  /** Bit r is set if the element contains the value of rank r. */
  readonly ranks: bigint;
  /**
   * A hash of the order. Two elements with equal hashes were combined in the same order, so real
   * sums would have equal bits. The order matters because float addition is commutative, but not
   * associative.
   */
  readonly order: number;
  /** Original position of the element, to detect elements at a wrong position. */
  readonly place: number;
}

const own = (rank: number, place: number): Element => ({
  ranks: 1n << BigInt(rank),
  order: mixSeed(rank, place),
  place,
});

function combine(a: Element, b: Element, where: string): Element {
  expectThat((a.ranks & b.ranks) === 0n, `${where}: a rank's value is combined twice`);
  expectEqual(a.place, b.place, `${where}: places of combined elements`);
  const [first, second] = [a.order, b.order].sort((x, y) => x - y);
  return { ranks: a.ranks | b.ranks, order: mixSeed(first!, second!), place: a.place };
}

interface Simulation {
  /** Elements of each rank at the end. */
  tensors: Element[][];
  /** Number of elements that each rank sent. */
  sent: number[];
  /** Length of the longest chain of transfers in which each waits for the previous one. */
  rounds: number;
}

/**
 * Runs the plans of all ranks, each rank's moves in their order. Checks that every send has exactly
 * one receive with the same step and length.
 *
 * @param inputs arrays that sends read. Receives write to `outputs`, which are the same arrays if a
 * collective works in place.
 */
function simulate(
  all: readonly CollectivePlan[],
  inputs: Element[][],
  outputs: Element[][],
  where: string,
): Simulation {
  const n = all.length;
  const wire = new Map<string, { elements: Element[]; round: number }>();
  const next = range(n).map(() => 0);
  const sent = range(n).map(() => 0);
  const round = range(n).map(() => 0);
  const full = (1n << BigInt(n)) - 1n;
  const take = (
    rank: number,
    { peer, step, start, end, how }: PlanMove,
    { elements, round: at }: { elements: Element[]; round: number },
  ) => {
    const here = `${where}, rank ${rank}, step ${step} from ${peer}`;
    expectEqual(elements.length, end - start, `${here}: length sent`);
    const tensor = outputs[rank]!;
    elements.forEach((element, i) => {
      if (how === 'copy') tensor[start + i] = element;
      else tensor[start + i] = combine(element, tensor[start + i]!, here);
      if (how === 'combine-last') expectThat(tensor[start + i]!.ranks === full, `${here}: not the last to combine`);
      if (how === 'combine')
        expectThat(tensor[start + i]!.ranks !== full, `${here}: the last to combine, but not marked as the last`);
    });
    round[rank] = Math.max(round[rank]!, at + 1);
  };
  for (let progress = true; progress;) {
    progress = false;
    for (let rank = 0; rank < n; rank++) {
      for (let move = all[rank]![next[rank]!]; move; move = all[rank]![next[rank]!]) {
        const { kind, peer, step, start, end } = move;
        expectThat(peer !== rank && peer >= 0 && peer < n, `${where}: rank ${rank} addresses rank ${peer}`);
        expectThat(start <= end, `${where}: rank ${rank} moves ${start} .. ${end}`);
        const key = kind === 'send' ? `${rank}>${peer}/${step}` : `${peer}>${rank}/${step}`;
        if (kind === 'send') {
          expectThat(!wire.has(key), `${where}: ${key} is sent twice`);
          wire.set(key, { elements: inputs[rank]!.slice(start, end), round: round[rank]! });
          sent[rank]! += end - start;
        } else {
          const parcel = wire.get(key);
          if (!parcel) break;
          wire.delete(key);
          take(rank, move, parcel);
        }
        next[rank]! += 1;
        progress = true;
      }
    }
  }
  range(n).forEach((rank) =>
    expectEqual(next[rank], all[rank]!.length, `${where}: number of executed moves of rank ${rank}`),
  );
  expectEqual([...wire.keys()], [], `${where}: number of frames that were sent and not received`);
  return { tensors: outputs, sent, rounds: Math.max(...round) };
}

const tensorsOf = (n: number, count: number): Element[][] =>
  range(n).map((rank) => range(count).map((place) => own(rank, place)));
const isFull = (n: number, { ranks }: Element): boolean => ranks === (1n << BigInt(n)) - 1n;

/**
 * Checks that elements `start` to `end` - 1 of the tensors contain the values of all ranks, and
 * that all tensors have the same order of combination.
 */
function expectReduced(n: number, tensors: readonly Element[][], start: number, end: number, where: string): void {
  for (let place = start; place < end; place++) {
    const first = tensors[0]![place]!;
    for (const tensor of tensors) {
      const element = tensor[place]!;
      expectThat(isFull(n, element) && element.place === place, `${where}: element ${place} lacks ranks`);
      expectThat(
        element.order === first.order,
        `${where}: element ${place} was not summed in the same order on all ranks`,
      );
    }
  }
}

/** Returns counts that are multiples of n, counts that are not, and counts below n. */
const countsOf = (n: number): number[] => [...new Set([0, 1, n - 1, n, 2 * n + 3])];
/** Returns boundaries of parts with different sizes. Some parts are empty. */
const unevenCuts = (n: number): Displacements => plans.displacementsOf(range(n).map((rank) => (rank * rank) % 4));
/** Returns the size of the largest chunk if `count` elements are divided among n ranks. */
const chunk = (count: number, n: number): number => Math.ceil(count / n);
const WORLDS = range(1, 33);
const log2 = (n: number): number => Math.floor(Math.log2(n));
const isPowerOfTwo = (n: number): boolean => 2 ** log2(n) === n;

/**
 * Returns the number of steps of the two-level algorithm: on the rings inside groups, and on the
 * ring between groups.
 */
const twoLevelSteps = (n: number): number => {
  const size = twoLevelGroupSize(n);
  return 2 * (size - 1) + 2 * (n / size - 1);
};

/** Returns the roots to test in a world of n: the first rank, the last, and one in the middle. */
const rootsOf = (n: number): number[] => [...new Set([0, n >> 1, n - 1])];

function checkAllReduces(): void {
  for (const n of WORLDS) {
    for (const count of countsOf(n)) {
      const p = 2 ** log2(n);
      const fold = p === n ? 0 : 2;
      for (const [name, plan, rounds, most] of [
        ['ring', plans.planRingAllReduce, 2 * (n - 1), 2 * (n - 1) * chunk(count, n)],
        [
          'halving-doubling',
          plans.planHalvingDoublingAllReduce,
          2 * log2(n) + fold,
          2 * (p - 1) * chunk(count, p) + (fold && count),
        ],
        ['two-level', plans.planTwoLevelAllReduce, twoLevelSteps(n), 2 * (n - 1) * chunk(count, n)],
        ['doubling', plans.planRecursiveDoublingAllReduce, log2(n) + fold, log2(n) * count + (fold && count)],
      ] as const) {
        const where = `${name} allReduce of ${count} over ${n}`;
        const tensors = tensorsOf(n, count);
        const result = simulate(
          range(n).map((rank) => plan(rank, n, count)),
          tensors,
          tensors,
          where,
        );
        expectReduced(n, result.tensors, 0, count, where);
        expectThat(result.rounds <= rounds, `${where}: ${result.rounds} rounds, expected ${rounds}`);
        expectThat(
          Math.max(...result.sent) <= most,
          `${where}: a rank sends ${Math.max(...result.sent)} elements, expected at most ${most}`,
        );
        // Every rank sends exactly 2(n-1)/n of the tensor if the count is a multiple of n.
        if (count % n !== 0 || (name === 'halving-doubling' && !isPowerOfTwo(n)) || name === 'doubling') continue;
        expectEqual(new Set(result.sent), new Set([(2 * (n - 1) * count) / n]), `${where}: elements sent`);
      }
    }
  }
}

function checkReduceScatterAndAllGather(): void {
  for (const n of WORLDS) {
    for (const displacements of [...countsOf(n).map((count) => plans.evenDisplacements(count, n)), unevenCuts(n)]) {
      const count = displacements.at(-1)!;
      const size = (rank: number): number => displacements[rank + 1]! - displacements[rank]!;
      const tensors = tensorsOf(n, count);
      const where = `reduceScatter of ${count} over ${n}`;
      const scattered = simulate(
        range(n).map((rank) => plans.planRingReduceScatter(rank, n, displacements)),
        tensors,
        tensors,
        where,
      );
      for (const rank of range(n)) {
        expectReduced(
          n,
          [scattered.tensors[rank]!],
          displacements[rank]!,
          displacements[rank + 1]!,
          `${where}, rank ${rank}`,
        );
        // Every rank sends all elements except its own part.
        expectEqual(scattered.sent[rank], count - size(rank), `${where}: number of elements that rank ${rank} sends`);
      }
      for (const [name, plan, rounds] of [
        ['ring', plans.planRingAllGather, n - 1],
        ['Bruck', plans.planBruckAllGather, Math.ceil(Math.log2(n))],
      ] as const) {
        const here = `${name} allGather of ${count} over ${n}`;
        const nothing: Element = { ranks: 0n, order: 0, place: -1 };
        const parts = range(n).map((rank) =>
          range(count).map((place) =>
            place >= displacements[rank]! && place < displacements[rank + 1]! ? own(rank, place) : nothing,
          ),
        );
        const whole = range(n).flatMap((rank) => range(size(rank)).map((i) => own(rank, displacements[rank]! + i)));
        const gathered = simulate(
          range(n).map((rank) => plan(rank, n, displacements)),
          parts,
          parts,
          here,
        );
        for (const tensor of gathered.tensors) expectEqual(tensor, whole, here);
        expectThat(gathered.rounds <= rounds, `${here}: ${gathered.rounds} rounds, expected ${rounds}`);
        const sent = gathered.sent.reduce((a, b) => a + b, 0);
        expectEqual(sent, (n - 1) * count, `${here}: elements sent by all ranks`);
      }
    }
  }
}

function checkRooted(): void {
  for (const n of WORLDS) {
    for (const root of rootsOf(n)) {
      const count = 5;
      const rounds = { chain: n - 1, tree: Math.ceil(Math.log2(n)), direct: n > 1 ? 1 : 0 };
      for (const [name, broadcast, reduce] of [
        ['chain', plans.planChainBroadcast, plans.planChainReduce],
        ['tree', plans.planTreeBroadcast, plans.planTreeReduce],
        ['direct', plans.planDirectBroadcast, plans.planDirectReduce],
      ] as const) {
        const where = `${name} over ${n} with root ${root}`;
        const copies = tensorsOf(n, count);
        const source = copies[root]!.slice();
        const copied = simulate(
          range(n).map((rank) => broadcast(rank, n, root, count)),
          copies,
          copies,
          `broadcast by ${where}`,
        );
        for (const tensor of copied.tensors) expectEqual(tensor, source, `broadcast by ${where}`);
        const tensors = tensorsOf(n, count);
        const reduced = simulate(
          range(n).map((rank) => reduce(rank, n, root, count)),
          tensors,
          tensors,
          `reduce by ${where}`,
        );
        expectReduced(n, [reduced.tensors[root]!], 0, count, `reduce by ${where}`);
        for (const { rounds: took, sent } of [copied, reduced]) {
          expectThat(took <= rounds[name], `${where}: ${took} rounds, expected ${rounds[name]}`);
          const total = sent.reduce((a, b) => a + b, 0);
          expectEqual(total, (n - 1) * count, `${where}: elements sent by all ranks`);
          if (name === 'chain')
            expectThat(Math.max(...sent) <= count, `${where}: a rank sends elements more than once`);
        }
        if (name !== 'direct') expectEqual(reduced.sent[root], 0, `${where}: the root of a reduce sends nothing`);
      }
    }
  }
}

const sizeOf = (from: number, to: number): number => (from * 2 + to) % 4;

function checkDirect(): void {
  for (const n of WORLDS) {
    const displacements = unevenCuts(n);
    const size = (rank: number): number => displacements[rank + 1]! - displacements[rank]!;
    const parts = range(n).map((rank) => range(size(rank)).map((i) => own(rank, i)));
    for (const root of rootsOf(n)) {
      const where = `over ${n} with root ${root}`;
      const inputs = parts.map((part) => part.slice());
      const outputs = inputs.slice();
      outputs[root] = parts.flat();
      inputs[root] = outputs[root]!;
      simulate(
        range(n).map((rank) => plans.planDirectGather(rank, n, root, displacements)),
        inputs,
        outputs,
        `gather ${where}`,
      );
      expectEqual(outputs[root], parts.flat(), `gather ${where}`);
      const targets = parts.map((part) => part.map(() => own(root, -1)));
      const sources = targets.slice();
      sources[root] = parts.flat();
      simulate(
        range(n).map((rank) => plans.planDirectScatter(rank, n, root, displacements)),
        sources,
        targets,
        `scatter ${where}`,
      );
      for (const rank of range(n)) if (rank !== root) expectEqual(targets[rank], parts[rank], `scatter ${where}`);
    }
    const inputs = range(n).map((from) =>
      range(n).flatMap((to) => range(sizeOf(from, to)).map((i) => own(from, to * 10 + i))),
    );
    const expected = range(n).map((to) =>
      range(n).flatMap((from) => range(sizeOf(from, to)).map((i) => own(from, to * 10 + i))),
    );
    const outputs = expected.map((elements, to) =>
      elements.map((element) => (element.ranks === 1n << BigInt(to) ? element : own(to, -1))),
    );
    const all = range(n).map((rank) =>
      plans.planDirectAllToAll(
        rank,
        n,
        plans.displacementsOf(range(n).map((to) => sizeOf(rank, to))),
        plans.displacementsOf(range(n).map((from) => sizeOf(from, rank))),
      ),
    );
    simulate(all, inputs, outputs, `allToAll over ${n}`);
    expectEqual(outputs, expected, `allToAll over ${n}`);
  }
}

/**
 * Checks that the cost model chooses every algorithm for some world and size. An algorithm that is
 * never chosen would be dead code.
 */
function checkCostModel(): void {
  const sizes = range(0, 24).map((exponent) => 2 ** exponent);
  const chosen = (choose: (n: number, bytes: number) => AlgorithmCode, worlds: number[]): AlgorithmCode[] =>
    [...new Set(worlds.flatMap((n) => sizes.map((bytes) => choose(n, bytes))))].sort((a, b) => a - b);
  const large = range(9, 33);
  const log = [AlgorithmCode.RING, AlgorithmCode.HALVING_DOUBLING, AlgorithmCode.DOUBLING, AlgorithmCode.TWO_LEVEL];
  expectEqual(chosen(chooseAllReduceAlgorithm, range(1, 8)), [AlgorithmCode.RING], 'allReduce up to 8 ranks');
  expectEqual(chosen(chooseAllReduceAlgorithm, large), log, 'allReduce in larger worlds');
  expectEqual(
    chosen(chooseAllGatherAlgorithm, large),
    [AlgorithmCode.RING, AlgorithmCode.DOUBLING],
    'allGather in larger worlds',
  );
  expectEqual(
    chosen(chooseRootedAlgorithm, large),
    [AlgorithmCode.RING, AlgorithmCode.TREE],
    'broadcast and reduce in larger worlds',
  );
  for (const n of large) {
    // For small tensors the number of steps decides, for large tensors the number of bytes. For
    // sizes in between, test/collectives/costModel.test.ts compares the model with the simulation.
    expectEqual(chooseAllReduceAlgorithm(n, sizes[0]!), AlgorithmCode.DOUBLING, `allReduce of one byte over ${n}`);
    expectEqual(chooseAllReduceAlgorithm(n, 2 ** 28), AlgorithmCode.RING, `allReduce of 256 MiB over ${n}`);
  }
}

export const PLAN_CASES: readonly ConformanceCase[] = [
  { number: 170, title: 'plans of allReduce are correct for 1 to 33 ranks', check: checkAllReduces },
  {
    number: 171,
    title: 'plans of reduceScatter and allGather are correct for 1 to 33 ranks',
    check: checkReduceScatterAndAllGather,
  },
  { number: 172, title: 'plans of broadcast and reduce are correct for 1 to 33 ranks', check: checkRooted },
  { number: 173, title: 'plans of gather, scatter and allToAll are correct for 1 to 33 ranks', check: checkDirect },
  {
    number: 174,
    title: 'the cost model chooses every algorithm for some world size and tensor size',
    check: checkCostModel,
  },
];
