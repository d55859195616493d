/** How elastic jobs continue, end and fail. */
import * as tf from '@tensorflow/tfjs';
import { afterEach, describe, expect, test } from 'vitest';
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import type { ElasticOptions } from '../../src/library/elastic/elasticJob.ts';
import { distribute } from '../../src/library/distribute/distributedModel.ts';
import { ElasticState } from '../../src/library/elastic/elasticState.ts';
import { createOptimizer } from '../../src/optim/index.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import {
  AbortError,
  DeviceError,
  MismatchError,
  RunOverError,
  TimeoutError,
  UsageError,
} from '../../src/util/errors.ts';
import { errorOf } from '../errorOf.ts';
import { createState, disposeState, inEachTest, SAMPLES, type ElasticWorld, type Tab } from './elasticWorld.ts';

let world: ElasticWorld;
let tensors: number;

inEachTest((one) => {
  world = one;
  tensors = tf.memory().numTensors;
});

afterEach(() => {
  expect(tf.memory().numTensors).toBe(tensors);
});

const NODES = { min: 1, max: 4 };
/** Longer than the time for which newcomers wait. */
const LONG_MS = 4000;

const pass = (ms: number): Promise<void> => new Promise((resolve) => world.clock.after(ms, resolve));
const counter = () => new ElasticState({ step: 0, ranks: [] as number[] });

/** Takes steps until `limit`, each with an all-reduce. */
async function count(
  state: ReturnType<typeof counter>,
  group: ProcessGroup,
  { limit = 3, onstep = () => {} }: { limit?: number; onstep?: (step: number) => Promise<void> | void } = {},
): Promise<number[]> {
  while (state.step < limit) {
    await onstep(state.step);
    const [ranks] = await group.allReduce(Float32Array.of(1));
    state.step += 1;
    state.ranks.push(ranks!);
    await state.commit();
  }
  return state.ranks;
}

/** Opens a room with the first tab; the others join it. */
async function startAll<Result>(
  size: number,
  main: (i: number) => [state: ElasticState, run: (group: ProcessGroup) => Promise<Result>],
  optionsOf: (i: number) => Partial<ElasticOptions> = () => ({}),
): Promise<Tab<Result>[]> {
  const tabs: Tab<Result>[] = [];
  for (let i = 0; i < size; i++) {
    const [state, run] = main(i);
    const opening = i === 0 ? { nodes: NODES, worldSize: size } : { room: world.room };
    tabs.push(world.start({ ...opening, ...optionsOf(i) }, state, (_, group) => run(group)));
    await world.until('the room is open', () => world.room !== '');
  }
  return tabs;
}

const endings = (tabs: readonly Tab<unknown>[]): unknown[] => tabs.map(({ ended }) => ended);

describe('elastic resolves', () => {
  test('with the result of each rank', async () => {
    const tabs = await startAll(3, () => {
      const state = counter();
      return [state, async (group) => [group.rank, ...(await count(state, group))]];
    });
    await world.over(...tabs);
    expect(endings(tabs)).toEqual([0, 1, 2].map((rank) => ({ result: [rank, 3, 3, 3] })));
  });

  test('on a rank that has finished, even if another rank is killed in its last step', async () => {
    const calls = [0, 0, 0];
    const tabs = await startAll(3, (i) => {
      const state = counter();
      return [
        state,
        async (group) => {
          calls[i]! += 1;
          const result = await count(state, group);
          // Rank 0 has returned; the others have not.
          if (i > 0 && group.worldSize === 3) await pass(LONG_MS);
          if (i === 2 && calls[2] === 1) tabs[2]!.port.close();
          return result;
        },
      ];
    });
    await world.over(tabs[0]!, tabs[1]!);
    expect(endings(tabs.slice(0, 2))).toEqual([0, 1].map(() => ({ result: [3, 3, 3] })));
    // The finished rank is called again, with the others.
    expect(calls).toEqual([2, 2, 1]);
    await world.over(tabs[2]!);
  });

  test('when another rank joins after fewer ranks than the minimum were left', async () => {
    const nodes = { min: 2, max: 2 };
    const states = [counter(), counter(), counter()];
    const tabs = await startAll(
      2,
      (i) => [
        states[i]!,
        (group) =>
          count(states[i]!, group, {
            onstep: (step) => {
              if (i === 1 && step === 1) tabs[1]!.port.close();
              return pass(100);
            },
          }),
      ],
      () => ({ nodes }),
    );
    await world.pass(LONG_MS);
    expect(tabs[0]!.ended).toBeNull();
    const late = world.start({ room: world.room }, states[2]!, (state, group) => count(state, group));
    await world.over(tabs[0]!, late);
    expect(endings([tabs[0]!, late])).toEqual([0, 1].map(() => ({ result: [2, 2, 2] })));
  });

  test('with a step that only one rank could complete and commit', async () => {
    const begun: number[][] = [[], [], []];
    const tabs = await startAll(3, (i) => {
      const state = counter();
      return [
        state,
        async (group) => {
          begun[i]!.push(state.step);
          await group.barrier();
          if (state.step > 0) return;
          if (i === 2) tabs[2]!.port.close();
          const over = await group.failed;
          if (i > 0) throw over;
          state.step += 1;
          await state.commit();
        },
      ];
    });
    await world.over(...tabs.slice(0, 2));
    expect(begun.slice(0, 2)).toEqual([0, 1].map(() => [0, 1]));
    await world.over(...tabs);
  });

  test('after work since the latest commit was repeated', async () => {
    const states = [0, 1].map(() => createState(0, createOptimizer('sgd', { learningRate: 1 }, SAMPLES)));
    const first: number[] = [];
    let isBroken = false;
    const tabs = await startAll(2, (i) => [
      states[i]!,
      async (group) => {
        const [low] = states[i]!.model;
        first.push(low!.dataSync()[0]!);
        // A change that is not committed.
        tf.tidy(() => low!.assign(low!.add(1)));
        states[i]!.epoch = 1;
        states[i]!.sampler.recordBatch(2);
        if (isBroken) return;
        isBroken = i === 1;
        if (i === 1) tabs[1]!.port.close();
        await group.barrier();
      },
    ]);
    await world.over(tabs[0]!);
    expect(first).toEqual([0, 0, 0]);
    expect(states[0]!.sampler.state()).toEqual({ epoch: 0, processed: 2 });
    await world.over(tabs[1]!);
    for (const state of states) disposeState(state);
  });
});

test("fit of distribute continues at the state's epoch when a tab is killed", async () => {
  const xs = tf.tidy(() => tf.linspace(-1, 1, 24).expandDims<tf.Tensor2D>(1));
  const ys = tf.tidy(() => xs.mul(3).sub(2));
  const states = [0, 1, 2].map(() => {
    const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [1] })] });
    model.compile({ optimizer: 'adam', loss: 'meanSquaredError' });
    return new ElasticState({ model, optimizer: model.optimizer, epoch: 0 });
  });
  const tabs = await startAll(3, (i) => {
    const state = states[i]!;
    return [
      state,
      async (group) => {
        const trainer = await distribute(state.model, group);
        while (state.epoch < 4) {
          if (i === 2 && state.epoch === 2) tabs[2]!.port.close();
          await trainer.fit(xs, ys, { initialEpoch: state.epoch, epochs: state.epoch + 1, batchSize: 4, verbose: 0 });
          state.epoch += 1;
          await state.commit();
        }
        return group.worldSize;
      },
    ];
  });
  await world.over(tabs[0]!, tabs[1]!);
  expect(endings(tabs.slice(0, 2))).toEqual([{ result: 2 }, { result: 2 }]);
  const [first, second] = states.map(({ model }) => model.getWeights().map((weight) => Array.from(weight.dataSync())));
  expect(second).toEqual(first);
  await world.over(tabs[2]!);
  for (const { model } of states) {
    model.optimizer.dispose();
    model.dispose();
  }
  tf.dispose([xs, ys]);
});

describe('elastic rejects', () => {
  test('on all ranks if the function throws on one rank', async () => {
    const error = new Error('The labels are missing.');
    const tabs = await startAll(3, (i) => {
      const state = counter();
      const onstep = (step: number): void => {
        if (i === 1 && step === 2) throw error;
      };
      return [state, (group) => count(state, group, { onstep })];
    });
    await world.over(...tabs);
    expect(tabs[1]!.ended).toEqual({ error });
    for (const tab of [tabs[0]!, tabs[2]!]) {
      const other = await errorOf(tab.outcome);
      expect(other).toBeInstanceOf(RunOverError);
      expect(other.message).toContain('The labels are missing.');
    }
  });

  test('only on a rank whose GPU is lost; the others continue', async () => {
    const tabs = await startAll(3, (i) => {
      const state = counter();
      const onstep = (step: number): Promise<void> => {
        if (i === 1 && step === 1) throw new DeviceError('The GPU was lost.');
        return pass(10);
      };
      return [state, (group) => count(state, group, { onstep })];
    });
    await world.over(...tabs);
    expect(await errorOf(tabs[1]!.outcome)).toBeInstanceOf(DeviceError);
    expect(endings([tabs[0]!, tabs[2]!])).toEqual([0, 1].map(() => ({ result: [3, 2, 2] })));
  });

  test('on a rank that arrives after the end of the job', async () => {
    const state = counter();
    const late: Tab<void>[] = [];
    const first = await startAll(1, () => [
      state,
      async () => {
        // The newcomer is in the room, but cannot take part so early.
        late.push(world.start({ room: world.room }, counter(), () => Promise.resolve()));
        await pass(200);
      },
    ]);
    await world.over(...first);
    await world.over(...late);
    expect(await errorOf(late[0]!.outcome)).toBeInstanceOf(RunOverError);
  });

  test('after timeoutMs if too few ranks are present', async () => {
    const tab = world.start({ nodes: { min: 2, max: 4 }, timeoutMs: 5000 }, counter(), () => Promise.resolve());
    await world.over(tab);
    const error = await errorOf(tab.outcome);
    expect(error).toBeInstanceOf(TimeoutError);
    expect(error.message).toBe(
      'Timed out after 5 s: the elastic job still needed 1 more ranks. Open more tabs, or pass a longer timeoutMs.',
    );
  });

  test('on a rank whose signal is aborted; the others continue', async () => {
    const stop = new AbortController();
    const tabs = await startAll(
      3,
      (i) => {
        const state = counter();
        const onstep = (step: number): Promise<void> => {
          if (i === 1 && step === 1) stop.abort('The user pressed Stop.');
          return pass(10);
        };
        return [state, (group) => count(state, group, { onstep })];
      },
      (i) => (i === 1 ? { signal: stop.signal } : {}),
    );
    await world.over(...tabs);
    const error = await errorOf(tabs[1]!.outcome);
    expect(error).toBeInstanceOf(AbortError);
    expect(error.message).toBe(
      'Aborted: this rank has left the elastic job, because its signal was aborted: The user pressed Stop.',
    );
    expect(endings([tabs[0]!, tabs[2]!])).toEqual([0, 1].map(() => ({ result: [3, 2, 2] })));
  });

  test('on a rank whose fields have different values after the same number of commits', async () => {
    const states = [0, 1, 2].map(() => new ElasticState({ step: 0, loss: 0 }));
    let isBroken = false;
    const tabs = await startAll(4, (i) => {
      const state = states[i] ?? new ElasticState({ step: 0, loss: 0 });
      return [
        state,
        async (group) => {
          if (!isBroken) {
            await group.barrier();
            state.loss = i === 2 ? 1 : 2;
            await state.commit();
            await pass(100);
            isBroken = true;
            tabs[3]!.port.close();
          }
          await group.barrier();
        },
      ];
    });
    await world.over(...tabs.slice(0, 3));
    const error = await errorOf(tabs[2]!.outcome);
    expect(error).toBeInstanceOf(MismatchError);
    expect(error.message).toMatch(/^After 1 commits, the state of rank 2 differs from the other ranks' state: loss\./);
    expect(endings(tabs.slice(0, 2))).toEqual([{ result: undefined }, { result: undefined }]);
    await world.over(tabs[3]!);
  });

  test('on a rank whose state has different field names', async () => {
    const tabs = await startAll(3, (i) => [
      new ElasticState(i === 1 ? { step: 0, extra: 1 } : { step: 0 }),
      () => Promise.resolve('done'),
    ]);
    await world.over(...tabs);
    const error = await errorOf(tabs[1]!.outcome);
    expect(error).toBeInstanceOf(MismatchError);
    expect(error.message).toBe(
      'The state of rank 1 has the fields extra and step, but that of rank 0 has step. Create the same state on every rank.',
    );
    expect(endings([tabs[0]!, tabs[2]!])).toEqual([{ result: 'done' }, { result: 'done' }]);
  });

  test('in a room with a fixed world', async () => {
    const room = world.openRoom({ job: DEFAULT_JOB, startAt: 2, nodes: null });
    const tab = world.start({ room }, counter(), () => Promise.resolve());
    await world.over(tab);
    expect((await errorOf(tab.outcome)).message).toMatch(/^The room has a fixed number of ranks,/);
  });
});

/** Returns a function that starts a job without steps. */
const start =
  (options: object, state: ElasticState = counter()) =>
  (): unknown =>
    world.start(options, state, () => Promise.resolve());

describe('invalid arguments', () => {
  test('are rejected before any connection is opened', () => {
    expect(start({})).toThrow(UsageError);
    expect(start({ nodes: { min: 3, max: 2 } })).toThrow('nodes has min 3 and max 2.');
    expect(start({ nodes: { min: 0, max: 2 } })).toThrow('The smallest number of ranks is 0.');
    expect(start({ nodes: { min: 2, max: 3 }, worldSize: 4 })).toThrow(
      'The world size is 4. Pass a world size from 2 to 3',
    );
    expect(start({ room: 'no code' })).toThrow('"no code" is not a room code.');
    expect(start({ nodes: NODES }, new ElasticState({ log: () => {} }))).toThrow(
      'A field of the ElasticState (log) is not plain data',
    );
    expect(
      start({ nodes: NODES }, new ElasticState({ optimizer: createOptimizer('sgd', { learningRate: 1 }, 1) })),
    ).toThrow('The ElasticState has an optimizer without trainable variables.');
    const counts = tf.tidy(() => tf.variable(tf.zeros([2], 'int32')));
    expect(start({ nodes: NODES }, new ElasticState({ model: [counts] }))).toThrow('is int32');
    counts.dispose();
    expect(() => new ElasticState({ commit: 1 })).toThrow('cannot be named commit');
  });

  test('include a commit outside of elastic', async () => {
    expect((await errorOf(counter().commit())).message).toMatch(/^commit was called outside of elastic\./);
  });

  test('include a state that another call of elastic uses', async () => {
    const state = counter();
    const tab = world.start({ nodes: NODES }, state, (_, group) => count(state, group));
    expect(start({ nodes: NODES }, state)).toThrow('used by another call of elastic');
    await world.over(tab);
    expect((await errorOf(state.commit())).message).toMatch(/^commit was called outside of elastic\./);
  });
});
