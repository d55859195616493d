/** Elastic jobs without a browser: ranks that share a server, a network and a clock. */
import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeEach, vi } from 'vitest';
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { ElasticJob, type ElasticOptions } from '../../src/library/elastic/elasticJob.ts';
import { ElasticState } from '../../src/library/elastic/elasticState.ts';
import type { Optimizer } from '../../src/optim/optimizer.ts';
import { DistributedDataParallel } from '../../src/parallel/ddp/distributedDataParallel.ts';
import { DataLoader } from '../../src/parallel/data/dataLoader.ts';
import { ElasticSampler } from '../../src/parallel/data/elasticSampler.ts';
import type { TensorflowOptimizer } from '../../src/parallel/flat/optimizerOf.ts';
import { hashOfArrays } from '../../src/util/hash.ts';
import { SignalingWorld, type Port } from '../engine/signalingWorld.ts';
import { ThreadActivity } from '../../src/util/activity.ts';

export const SAMPLES = 45;
export const EPOCHS = 2;
export const BATCH = 2;

/**
 * The state of the tests. The model has a weight for each sample, and the loss of a sample is minus
 * its weight, so weights count samples.
 */
export type CountingState = ReturnType<typeof createState>;

export function createState(initial: number, optimizer: Optimizer | TensorflowOptimizer) {
  // Two parameters, so that the layout of the flat arrays changes in the first backward.
  const [low, high] = tf.tidy(() => [20, SAMPLES - 20].map((size) => tf.variable(tf.zeros([size]).add(initial))));
  return new ElasticState({
    model: [low!, high!],
    optimizer,
    sampler: new ElasticSampler(SAMPLES, { seed: 7 }),
    epoch: 0,
    /** The epoch and the samples of each step, of all ranks together. */
    steps: [] as { epoch: number; indices: number[] }[],
  });
}

export function disposeState({ model }: CountingState): void {
  tf.dispose(model);
}

export const weightsOf = ({ model }: CountingState): number[] =>
  (model as tf.Variable[]).flatMap((variable) => Array.from(variable.dataSync()));

export function hashOf(state: CountingState): string {
  return hashOfArrays([Float32Array.from(weightsOf(state))]);
}

/**
 * The loss of samples: minus the sum of their weights.
 *
 * @param isReversed changes the order in which gradients become ready, so the layout of DDP.
 */
export function lossOf(model: readonly tf.Variable[], indices: ArrayLike<number>, isReversed: boolean): tf.Scalar {
  const [low, high] = model as readonly [tf.Variable, tf.Variable];
  const parts = [
    { variable: low, start: 0 },
    { variable: high, start: low.size },
  ];
  if (isReversed) parts.reverse();
  const [one, other] = parts.map(({ variable, start }) => {
    const counts = new Float32Array(variable.size);
    for (const index of Array.from(indices)) {
      if (index >= start && index < start + counts.length) counts[index - start]! += 1;
    }
    return variable.mul(tf.tensor1d(counts)).sum();
  });
  return one!.add(other!).neg().asScalar();
}

/** Trains as a user's program would. */
export async function train(
  state: CountingState,
  group: ProcessGroup,
  onstep: (step: number) => Promise<void> | void = () => {},
): Promise<string> {
  const model = state.model as tf.Variable[];
  const ddp = await DistributedDataParallel.create(model, group);
  try {
    for (; state.epoch < EPOCHS; state.epoch++) {
      state.sampler.setEpoch(state.epoch);
      const loader = new DataLoader((indices) => indices, { sampler: state.sampler, batchSize: BATCH });
      for await (const indices of loader) {
        await onstep(state.steps.length);
        const { length } = indices;
        await ddp.backward(() => lossOf(model, indices, group.generation % 2 === 0), {
          samples: length,
          reduction: 'sum',
        });
        const all = await group.allGatherObject(Array.from(indices));
        ddp.step(state.optimizer);
        state.sampler.recordBatch(BATCH);
        state.steps.push({ epoch: state.epoch, indices: all.flat() });
        await state.commit();
      }
    }
    return `done on rank ${group.rank} of ${group.worldSize}`;
  } finally {
    ddp.dispose();
  }
}

/** A tab that takes part in a job. */
export interface Tab<Result> {
  readonly port: Port;
  readonly outcome: Promise<Result>;
  /** The result or the error, once the job is over for this tab. */
  ended: { result: Result } | { error: Error } | null;
}

export class ElasticWorld extends SignalingWorld {
  #tabs = 0;
  /** Code of the room that a tab has opened. */
  room = '';

  /** Starts a job in another tab. */
  start<State extends ElasticState, Result>(
    options: Partial<ElasticOptions>,
    state: State,
    main: (state: State, group: ProcessGroup) => Promise<Result>,
  ): Tab<Result> {
    const port = this.plug();
    const name = `tab-${this.#tabs++}`;
    const job = new ElasticJob<State, Result>(
      { server: 'http://server', name, onroom: (room) => (this.room = room), ...options },
      state,
      main,
      {
        clock: this.clock,
        activity: new ThreadActivity(this.clock),
        device: { backend: 'cpu', adapter: 'cpu' },
        leaving: new EventTarget(),
        today: () => this.clock.now(),
        random: () => 0.5,
        browserId: () => Promise.resolve(`browser-of-${name}`.padEnd(16, '-')),
        openSocket: port.openSocket,
        connectPeer: port.connectPeer,
        connectTab: () => {
          throw new Error('Tabs of this world are of different browsers.');
        },
      },
    );
    const outcome = job.run();
    const tab: Tab<Result> = { port, outcome, ended: null };
    outcome.then(
      (result) => (tab.ended = { result }),
      (error: Error) => (tab.ended = { error }),
    );
    return tab;
  }

  /** Lets time pass until the jobs of all tabs are over. */
  async over(...tabs: readonly { ended: unknown }[]): Promise<void> {
    await this.until('the jobs are over', () => tabs.every(({ ended }) => ended !== null));
  }
}

/** Creates a world before each test of a file, and stops it after the test. */
export function inEachTest(begin: (world: ElasticWorld) => void): void {
  let world: ElasticWorld;
  beforeEach(() => {
    vi.stubGlobal('addEventListener', () => {});
    vi.stubGlobal('removeEventListener', () => {});
    world = new ElasticWorld();
    begin(world);
  });
  afterEach(() => {
    vi.unstubAllGlobals();
    world.stopServer();
  });
}
