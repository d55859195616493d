/** Averages of sharded optimizers when ranks join and leave, compared with whole optimizers. */
import { expect, test } from 'vitest';
import { Mesh } from '../../../src/collectives/mesh.ts';
import { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { createOptimizer, type OptimizerName } from '../../../src/optim/index.ts';
import {
  recordAppliedStep,
  initialTrainingProgress,
  type TrainingProgress,
} from '../../../src/parallel/recovery/progress.ts';
import { DdpStrategy, type DdpState } from '../../../src/parallel/strategies/index.ts';
import { BucketShards } from '../../../src/parallel/ddp/bucketShards.ts';
import { createFlatLayout } from '../../../src/parallel/flat/buckets.ts';
import { redistributeShards, type HeldShard } from '../../../src/parallel/zero/redistribution.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { systemClock } from '../../../src/util/clock.ts';
import { createRng } from '../../../src/util/rng.ts';
import { meanSquare, mlp, samplesOf } from '../models.ts';

const alone = (): ProcessGroup =>
  new ProcessGroup(new Mesh({ rank: 0, worldSize: 1, generation: 0, links: new Map() }));

interface Member {
  strategy: DdpStrategy;
  progress: TrainingProgress;
  notes: string[];
  dispose(): void;
}

async function createMember(shardOptimizer: boolean, optimizer: OptimizerName): Promise<Member> {
  const model = mlp(1, { units: 9 });
  const notes: string[] = [];
  const strategy = await DdpStrategy.create({
    ...{
      model,
      group: alone(),
      clock: systemClock,
      codec: 'fp32',
      errorFeedback: true,
      shardOptimizer,
      clipNorm: null,
    },
    createOptimizer: (size) => createOptimizer(optimizer, { learningRate: 0.05 }, size),
    checkGradients: () => {},
    onnote: (message) => notes.push(message),
  });
  const dispose = (): void => {
    strategy.dispose();
    model.dispose();
  };
  return { strategy, progress: initialTrainingProgress(), notes, dispose };
}

const createMembers = (n: number, isSharded: boolean, optimizer: OptimizerName = 'adam'): Promise<Member[]> =>
  Promise.all(Array.from({ length: n }, () => createMember(isSharded, optimizer)));

/** Lets members enter a world and take steps. Returns the whole state of each rank. */
function inWorld(members: readonly Member[], steps: number): Promise<DdpState[]> {
  return runWorld(members.length, async (group) => {
    const { strategy, progress } = members[group.rank]!;
    group.algorithm = 'ring';
    await strategy.attach(group, progress, null);
    for (let i = 0; i < steps; i++) {
      const inputs = samplesOf(group.rank, progress.step, 2);
      const applied = (): void => recordAppliedStep(progress, group.generation, progress.position);
      await strategy.step({ inputs, loss: meanSquare }, { samples: 2 }, applied);
      inputs.dispose();
    }
    await strategy.gatherWhole(true);
    expect(strategy.isWhole).toBe(true);
    const state = await strategy.snapshot();
    strategy.release();
    return state;
  });
}

const dispose = (members: readonly Member[]): void => {
  for (const member of members) member.dispose();
};

/** Returns all averages of a state. */
const averagesOf = ({ optimizer }: DdpState): number[] => optimizer.slots.flatMap((slot) => Array.from(slot));

test.each(['sgd', 'momentum', 'adam', 'adamw'] as const)(
  'a sharded %s has the bits of a whole optimizer, whatever the number of ranks',
  async (optimizer) => {
    for (const n of [2, 3, 4]) {
      const [whole, sharded] = [await createMembers(n, false, optimizer), await createMembers(n, true, optimizer)];
      const [expected] = await inWorld(whole, 4);
      for (const state of await inWorld(sharded, 4)) expect(state).toEqual(expected);
      dispose([...whole, ...sharded]);
    }
  },
);

test('averages move with their parameters to new owners when ranks join or change their order', async () => {
  const [whole, sharded] = [await createMembers(4, false), await createMembers(4, true)];
  for (const order of [
    [0, 1],
    [0, 1, 2],
    [2, 0, 1],
    [3, 1, 0, 2],
  ]) {
    const [expected] = await inWorld(
      order.map((i) => whole[i]!),
      2,
    );
    for (const state of await inWorld(
      order.map((i) => sharded[i]!),
      2,
    ))
      expect(state).toEqual(expected);
  }
  for (const { notes } of sharded) expect(notes).toEqual([]);
  dispose([...whole, ...sharded]);
});

test('averages of a lost rank are the copies that its neighbour has received; all others are current', async () => {
  const members = await createMembers(3, true);
  const [copied] = await inWorld(members, 2);
  const [lost] = await inWorld(members, 3);
  const survivors = [members[2]!, members[0]!];
  const [first, second] = await inWorld(survivors, 0);
  expect(second).toEqual(first);
  const state = first!;
  expect(state.parameters).toEqual(lost!.parameters);
  expect(state.optimizer.scalars).toEqual(lost!.optimizer.scalars);
  const [old, current] = [copied!, lost!].map(averagesOf) as [number[], number[]];
  const values = averagesOf(state);
  const stale = [...values.keys()].filter((i) => values[i] !== current[i]);
  for (const i of stale) expect(values[i]).toBe(old[i]);
  expect(stale.length / values.length).toBeGreaterThan(0.25);
  expect(stale.length / values.length).toBeLessThan(0.4);
  for (const { notes } of survivors) {
    expect(notes).toHaveLength(1);
    expect(notes[0]).toMatch(/^The averages of adam are at most 3 steps old for \d+ of 56 parameters/);
  }
  // They are the new averages of all ranks.
  const [a, b] = await inWorld(survivors, 2);
  expect(b).toEqual(a);
  expect(survivors[0]!.notes).toHaveLength(1);
  dispose(members);
});

test('averages start from zero, with a note, if their rank and its neighbour are lost', async () => {
  const members = await createMembers(4, true);
  const [copied] = await inWorld(members, 2);
  const [before] = await inWorld(members, 1);
  const survivors = [members[0]!, members[3]!];
  const [state] = await inWorld(survivors, 0);
  expect(state!.parameters).toEqual(before!.parameters);
  expect(state!.optimizer.scalars).toEqual(before!.optimizer.scalars);
  const [old, current, values] = [averagesOf(copied!), averagesOf(before!), averagesOf(state!)];
  // Rank 2 had the copy of rank 1. Rank 3 has the copy of rank 2.
  const changed = [...values.keys()].filter((i) => values[i] !== current[i]);
  const lost = changed.filter((i) => values[i] !== old[i]);
  for (const i of lost) expect(values[i]).toBe(0);
  expect(lost.length / values.length).toBeGreaterThan(0.15);
  expect((changed.length - lost.length) / values.length).toBeGreaterThan(0.15);
  for (const { notes } of survivors) {
    expect(notes).toHaveLength(2);
    expect(notes[1]).toMatch(/^The averages of adam are 1 step old/);
    expect(notes[0]).toMatch(/^The averages of adam start from zero for \d+ of 56 parameters, because the ranks/);
  }
  dispose(members);
});

test('a rank keeps its averages if other ranks have applied a step that it has not applied', async () => {
  for (const isApplied of [true, false]) {
    const [whole, sharded] = [await createMembers(3, false), await createMembers(3, true)];
    const [expected] = await inWorld(whole, isApplied ? 3 : 2);
    await inWorld(sharded, 2);
    // Rank 2, or every rank, does not receive the shards of the third step.
    await runWorld(3, async (group) => {
      const { strategy, progress } = sharded[group.rank]!;
      group.algorithm = 'ring';
      await strategy.attach(group, progress, null);
      const inputs = samplesOf(group.rank, progress.step, 2);
      const allGather = group.allGather.bind(group);
      if (group.rank === 2 || !isApplied) {
        group.allGather = (tensor, options) => {
          const gathered = allGather(tensor, options);
          // Shards of parameters are the only gathered parts with this many elements.
          if (tensor.length < 15) return gathered;
          const failed = gathered.then(() => Promise.reject(new Error('The link broke.')));
          return Object.assign(failed, { trace: null }) as unknown as typeof gathered;
        };
      }
      const step = strategy.step({ inputs, loss: meanSquare }, { samples: 2 }, () =>
        recordAppliedStep(progress, group.generation, progress.position),
      );
      await step.catch(() => {});
      inputs.dispose();
    });
    expect(sharded.map(({ progress }) => progress.step)).toEqual(isApplied ? [3, 3, 2] : [2, 2, 2]);
    for (const state of await inWorld(sharded, 0)) expect(state).toEqual(expected);
    for (const { notes } of sharded) expect(notes).toEqual([]);
    dispose([...whole, ...sharded]);
  }
});

test('each element of new shards has the newest averages, all from one rank', () => {
  const rng = createRng(7);
  for (let round = 0; round < 40; round++) {
    const sizes = Array.from({ length: 1 + rng.below(6) }, () => 1 + rng.below(40));
    const layout = createFlatLayout(sizes, { firstBucketBytes: 40, bucketCapBytes: 100 });
    const shards = new BucketShards(layout, alone(), rng.below(4));
    const worldSize = 1 + rng.below(5);
    const held = Array.from({ length: worldSize }, () =>
      Array.from({ length: rng.below(4) }, (): HeldShard => {
        const earlier = 1 + rng.below(5);
        return { place: { worldSize: earlier, rank: rng.below(earlier) }, age: rng.below(3) };
      }),
    );
    const { moves, missing, stale, oldest } = redistributeShards(held, (place) => shards.rangesOf(place));
    const covers = (place: HeldShard['place'], i: number): boolean =>
      shards.rangesOf(place).some(({ start, end }) => start <= i && i < end);
    let [none, behind, most] = [0, 0, 0];
    for (let i = 0; i < layout.size; i++) {
      const ages = held.flat().flatMap(({ place, age }) => (covers(place, i) ? [age] : []));
      const sources = moves.filter(({ start, end }) => start <= i && i < end);
      expect(sources).toHaveLength(ages.length === 0 ? 0 : 1);
      if (ages.length === 0) none += 1;
      for (const move of sources) {
        const source = held[move.from]![move.held]!;
        expect(covers(source.place, i)).toBe(true);
        expect(covers({ worldSize, rank: move.to }, i)).toBe(true);
        expect(source.age).toBe(Math.min(...ages));
        if (source.age > 0) behind += 1;
        most = Math.max(most, source.age);
      }
    }
    expect({ missing, stale, oldest }).toEqual({ missing: none, stale: behind, oldest: most });
  }
});
