/** The laws of plans, without a network: runs all ranks' plans of a collective together. */
import { chooseAllGather, chooseAllReduce, chooseRooted } from '../../src/collectives/plans/costModel.ts';
import * as plans from '../../src/collectives/plans/plans.ts';
import type { Displacements, Move, Plan } from '../../src/collectives/plans/plans.ts';
import { Algorithm } from '../../src/protocol/frame.ts';
import { mixSeed } from '../../src/util/rng.ts';
import type { ConformanceCase } from './case.ts';
import { expectEqual, expectThat } from './expect.ts';
import { range } from './values.ts';

/**
 * An element: the ranks whose values it contains, each once, and the order in which they were
 * combined.
 */
interface Element {
  /** Bit r: rank r's value. */
  readonly ranks: bigint;
  /**
   * Equal if values were combined in the same way; then their bits are equal, too. Combining two
   * values is commutative, but not associative.
   */
  readonly order: number;
  /** Its original place, to detect elements in a wrong place. */
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
  /** Each rank's elements at the end. */
  tensors: Element[][];
  /** Elements each rank sent. */
  sent: number[];
  /** Moves on the longest chain of transfers that wait for each other. */
  rounds: number;
}

/**
 * Runs plans move by move, each rank's in its own order, and checks that every send meets one
 * receive of the same step and length.
 *
 * @param inputs arrays that sends read. Receives write to `outputs`, which are the same arrays if a
 *   collective works in place.
 */
function simulate(all: readonly Plan[], inputs: Element[][], outputs: Element[][], where: string): Simulation {
  const n = all.length;
  const wire = new Map<string, { elements: Element[]; round: number }>();
  const next = range(n).map(() => 0);
  const sent = range(n).map(() => 0);
  const round = range(n).map(() => 0);
  const full = (1n << BigInt(n)) - 1n;
  const take = (
    rank: number,
    { peer, step, start, end, how }: Move,
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
        expectThat(tensor[start + i]!.ranks !== full, `${here}: the last to combine, but not marked`);
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
  range(n).forEach((rank) => expectEqual(next[rank], all[rank]!.length, `${where}: executed moves of rank ${rank}`));
  expectEqual([...wire.keys()], [], `${where}: frames that were sent and not received`);
  return { tensors: outputs, sent, rounds: Math.max(...round) };
}

const tensorsOf = (n: number, count: number): Element[][] =>
  range(n).map((rank) => range(count).map((place) => own(rank, place)));
const isFull = (n: number, { ranks }: Element): boolean => ranks === (1n << BigInt(n)) - 1n;

/**
 * Checks that elements `start` .. `end`-1 of these tensors contain all ranks' values, combined in
 * the same order.
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

/** Counts that are multiples of n, that are not, and that are below n. */
const countsOf = (n: number): number[] => [...new Set([0, 1, n - 1, n, 2 * n + 3])];
/** Parts of different sizes, also empty ones. */
const unevenCuts = (n: number): Displacements => plans.displacementsOf(range(n).map((rank) => (rank * rank) % 4));
/** Largest chunk of a count that is divided among n ranks. */
const chunk = (count: number, n: number): number => Math.ceil(count / n);
const WORLDS = range(1, 33);
const log2 = (n: number): number => Math.floor(Math.log2(n));
const isPowerOfTwo = (n: number): boolean => 2 ** log2(n) === n;

/** Steps on a ring in each group, and on one between the groups. */
const twoLevelSteps = (n: number): number => {
  const size = plans.groupSizeOf(n);
  return 2 * (size - 1) + 2 * (n / size - 1);
};

/** Chooses a root for each world: the first, the last, and one between. */
const rootsOf = (n: number): number[] => [...new Set([0, n >> 1, n - 1])];

function checkAllReduces(): void {
  for (const n of WORLDS) {
    for (const count of countsOf(n)) {
      const p = 2 ** log2(n);
      const fold = p === n ? 0 : 2;
      for (const [name, plan, rounds, most] of [
        ['ring', plans.ringAllReduce, 2 * (n - 1), 2 * (n - 1) * chunk(count, n)],
        [
          'halving-doubling',
          plans.halvingDoubling,
          2 * log2(n) + fold,
          2 * (p - 1) * chunk(count, p) + (fold && count),
        ],
        ['two-level', plans.twoLevelAllReduce, twoLevelSteps(n), 2 * (n - 1) * chunk(count, n)],
        ['doubling', plans.recursiveDoubling, log2(n) + fold, log2(n) * count + (fold && count)],
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
        expectThat(Math.max(...result.sent) <= most, `${where}: sends ${Math.max(...result.sent)}, expected ${most}`);
        // Exactly 2(n-1)/n of the tensor if the count is a multiple of n.
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
        range(n).map((rank) => plans.ringReduceScatter(rank, n, displacements)),
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
        // All elements except its own part.
        expectEqual(scattered.sent[rank], count - size(rank), `${where}: elements rank ${rank} sends`);
      }
      for (const [name, plan, rounds] of [
        ['ring', plans.ringAllGather, n - 1],
        ['Bruck', plans.bruckAllGather, Math.ceil(Math.log2(n))],
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
        ['chain', plans.chainBroadcast, plans.chainReduce],
        ['tree', plans.treeBroadcast, plans.treeReduce],
        ['direct', plans.directBroadcast, plans.directReduce],
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
          if (name === 'chain') expectThat(Math.max(...sent) <= count, `${where}: a rank sends more than once`);
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
        range(n).map((rank) => plans.directGather(rank, n, root, displacements)),
        inputs,
        outputs,
        `gather ${where}`,
      );
      expectEqual(outputs[root], parts.flat(), `gather ${where}`);
      const targets = parts.map((part) => part.map(() => own(root, -1)));
      const sources = targets.slice();
      sources[root] = parts.flat();
      simulate(
        range(n).map((rank) => plans.directScatter(rank, n, root, displacements)),
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
      plans.directAllToAll(
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
 * The model must be the same function on all ranks, and every algorithm must be the best choice
 * somewhere, or it is dead code.
 */
function checkCostModel(): void {
  const sizes = range(0, 24).map((exponent) => 2 ** exponent);
  const chosen = (choose: (n: number, bytes: number) => Algorithm, worlds: number[]): Algorithm[] =>
    [...new Set(worlds.flatMap((n) => sizes.map((bytes) => choose(n, bytes))))].sort((a, b) => a - b);
  const large = range(9, 33);
  const log = [Algorithm.RING, Algorithm.HALVING_DOUBLING, Algorithm.DOUBLING, Algorithm.TWO_LEVEL];
  expectEqual(chosen(chooseAllReduce, range(1, 8)), [Algorithm.RING], 'allReduce up to 8 ranks');
  expectEqual(chosen(chooseAllReduce, large), log, 'allReduce in larger worlds');
  expectEqual(chosen(chooseAllGather, large), [Algorithm.RING, Algorithm.DOUBLING], 'allGather in larger worlds');
  expectEqual(chosen(chooseRooted, large), [Algorithm.RING, Algorithm.TREE], 'broadcast and reduce in larger worlds');
  for (const n of large) {
    // For small tensors only steps count, for large ones only bytes. For sizes in between
    // test/collectives/costModel.test.ts compares with the simulation.
    expectEqual(chooseAllReduce(n, sizes[0]!), Algorithm.DOUBLING, `allReduce of one byte over ${n}`);
    expectEqual(chooseAllReduce(n, 2 ** 28), Algorithm.RING, `allReduce of 256 MiB over ${n}`);
  }
}

export const PLAN_CASES: readonly ConformanceCase[] = [
  { number: 170, title: 'plans of allReduce: laws for 1 .. 33 ranks', check: checkAllReduces },
  {
    number: 171,
    title: 'plans of reduceScatter and allGather: laws for 1 .. 33 ranks',
    check: checkReduceScatterAndAllGather,
  },
  { number: 172, title: 'plans of broadcast and reduce: laws for 1 .. 33 ranks', check: checkRooted },
  { number: 173, title: 'plans of gather, scatter and allToAll: laws for 1 .. 33 ranks', check: checkDirect },
  {
    number: 174,
    title: 'the cost model chooses every algorithm somewhere, in the order of sizes',
    check: checkCostModel,
  },
];
