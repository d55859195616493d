/**
 * Members whose runs continue after their worlds have ended, in several generations over memory
 * links.
 */
import type { ReportedDevice } from '../../src/protocol/room.ts';
import * as tf from '@tensorflow/tfjs';
import { ProcessGroup } from '../../src/collectives/processGroup.ts';
import type { TrainingTask } from '../../src/engine/tasks/task.ts';
import type { RunState } from '../../src/engine/storage/runState.ts';
import { ReplicaStep } from '../../src/engine/training/replicaStep.ts';
import { TrainingLoop } from '../../src/engine/training/trainingLoop.ts';
import type { EngineEvent, EventOf } from '../../src/protocol/events.ts';
import type { RunResult } from '../../src/protocol/runResult.ts';
import { type JobSpec } from '../../src/spec/job.ts';
import { parsePlan, type TrainingPlan } from '../../src/spec/plan.ts';
import { createMeshes } from '../../src/testing/index.ts';
import type { Link } from '../../src/transport/link.ts';
import { createMemoryLinkPair } from '../../src/transport/memoryLink.ts';
import { systemClock, type Clock } from '../../src/util/clock.ts';
import { asError, PeerGoneError } from '../../src/util/errors.ts';
import { mixSeed, seededPermutation, type Rng } from '../../src/util/rng.ts';
import { wrap } from './membership/links.ts';

/**
 * The number of floats that fill the first bucket. With more parameters there is a second bucket.
 */
const FIRST_BUCKET_FLOATS = 16_384;
/** A short timeout, so that a test that hangs fails soon. */
const TIMEOUT_MS = 4000;
/** The largest number of turns of the event loop that a slow frame takes. */
const MAX_DELAY = 4;

export type Step = EventOf<'step'>;

export interface Member<Rank = ReplicaStep, AnyTask = TrainingTask> {
  readonly name: string;
  readonly task: AnyTask;
  readonly rank: Rank;
  readonly run: TrainingLoop;
  readonly events: EngineEvent[];
  /** Calls `hear` for each event from now on. Earlier events are not repeated. */
  listen(hear: (event: EngineEvent) => void): void;
  /** The values of its variables, concatenated. */
  values(): number[];
  dispose(): void;
}

interface CountingOptions {
  samples: number;
  /** Whether the model has a buffer, which passes change and gradients do not. */
  buffer?: boolean;
  /** Number of further weights, which no sample changes. */
  padding?: number;
  dataHash?: string;
}

/**
 * A task whose weights count samples. It has a weight for each sample, and the loss of the sample
 * is minus this weight. With plain SGD and a learning rate of 1, a step adds 1 / (samples of its
 * window) to the weights of its samples. Other weights do not change.
 */
export function createCountingTask({
  samples,
  buffer = false,
  padding = FIRST_BUCKET_FLOATS,
  dataHash = '00'.repeat(8),
}: CountingOptions): TrainingTask {
  const half = samples >> 1;
  const parts = [
    { start: 0, variable: zeros([half]) },
    { start: half, variable: zeros([samples - half]) },
  ];
  const pad = zeros([padding]);
  const seen = zeros([], false);
  return {
    model: [...parts.map(({ variable }) => variable), pad, ...(buffer ? [seen] : [])],
    ...{ trainSamples: samples, testSamples: 3, testBatch: 2, classifies: true },
    dataHash: () => Promise.resolve(dataHash),
    dataAdvice: 'count again',
    withBatch: (indices, use) =>
      use(() => {
        if (buffer) seen.assign(seen.add(1));
        const losses = parts.map(({ start, variable }) => {
          const counts = new Float32Array(variable.size);
          for (const index of indices) if (index >= start && index < start + counts.length) counts[index - start]! += 1;
          return variable.mul(tf.tensor1d(counts)).sum<tf.Scalar>();
        });
        return losses[0]!.add(losses[1]!).add(pad.sum().mul(0)).neg().asScalar();
      }),
    evaluate: (indices) => Promise.resolve({ lossSum: indices.length, correct: indices.length }),
    dispose: () => tf.dispose([...parts.map(({ variable }) => variable), pad, seen]),
  };
}

function zeros(shape: number[], trainable = true): tf.Variable {
  return tf.tidy(() => tf.variable(tf.zeros(shape), trainable));
}

export const COUNTING_PLAN = { optimizer: 'sgd', learningRate: 1, batchSize: 2, hashEvery: 2 };

/** Returns a job's fields that belong to the training plan. */
export function planOf(job: JobSpec): Record<string, unknown> {
  return Object.fromEntries(Object.keys(parsePlan({})).map((name) => [name, job[name as keyof JobSpec]]));
}

export async function createMember(
  name: string,
  task: TrainingTask,
  fields: Record<string, unknown>,
  {
    from = null,
    checkDevice = () => {},
    keepBest = () => Promise.resolve(),
    clock = systemClock,
    savesState = () => false,
    onevent = () => {},
    backend = 'cpu',
  }: {
    from?: RunState | 'model' | null;
    checkDevice?: () => void;
    keepBest?: () => Promise<void>;
    clock?: Clock;
    savesState?: () => boolean;
    onevent?: (event: EngineEvent) => void;
    /** The backend that the device reports. */
    backend?: ReportedDevice['backend'];
  } = {},
): Promise<Member> {
  const events: EngineEvent[] = [];
  let heard: ((event: EngineEvent) => void) | null = null;
  const plan: TrainingPlan = parsePlan(fields);
  const options = {
    ...{ plan, keepBest, clock },
    device: { backend, adapter: 'test' },
    emit: (event: EngineEvent) => {
      events.push(event);
      onevent(event);
      heard?.(event);
    },
  };
  const rank = await ReplicaStep.prepare({ ...options, task, from, checkDevice, savesState });
  const run = new TrainingLoop(rank, options);
  return {
    ...{ name, task, rank, run, events },
    listen: (hear) => (heard = hear),
    values: () => {
      const weights = task.model instanceof tf.LayersModel ? task.model.getWeights() : task.model;
      const values: number[] = [];
      // Array.from and flatMap take ten times as long, which would be a quarter of a test's time.
      for (const weight of weights) for (const value of weight.dataSync()) values.push(value);
      return values;
    },
    dispose: () => {
      rank.dispose();
      task.dispose();
    },
  };
}

/**
 * The moment at which a rank's links break. They break instead of the frame that follows `frame`
 * frames. Sent and received frames are counted together, from the beginning of `step`. Without
 * `step`, they are counted from the beginning of the generation.
 */
interface Break {
  rank: number;
  step?: number;
  frame: number;
}

interface GenerationOptions {
  end?: Break | null;
  /**
   * Determines at random the number of turns of the event loop that each frame takes. By default a
   * frame takes none.
   */
  delays?: Rng | null;
  /** A rank whose link to the next rank is slow in both directions. */
  slow?: { rank: number; bytesPerMs: number } | null;
  clock?: Clock;
  /** Ends the world once it returns true after an event. */
  until?: (() => boolean) | null;
}

interface GenerationOutcome {
  /** For each rank: the result of `run`, or the error of `enter` or `run`. */
  results: (RunResult | Error)[];
  /** For each rank: the result of `enter`, and the member's values at that moment. */
  entered: ({ step: number; stateHash: string; values: number[] } | null)[];
  isBroken: boolean;
}

let lastGeneration = 0;

/** Lets `members` enter a world and run in it until the run ends or a link breaks. */
export async function runGeneration(
  members: readonly Pick<Member, 'run' | 'listen' | 'values'>[],
  { end = null, delays = null, slow = null, clock = systemClock, until = null }: GenerationOptions = {},
): Promise<GenerationOutcome> {
  const n = members.length;
  const generation = ++lastGeneration;
  const mine: Link[] = [];
  let frames = 0;
  let isBroken = false;
  let counts = end?.step === undefined;
  /** Called before each frame. Returns whether the rank's links are broken from this frame on. */
  const breaks = (): boolean => {
    if (counts && frames++ === end?.frame) {
      isBroken = true;
      for (const link of mine) link.close();
    }
    return isBroken;
  };
  const over = new AbortController();
  for (const [rank, member] of members.entries()) {
    member.listen((event) => {
      if (rank === end?.rank && event.type === 'begin' && event.step === end.step) counts = true;
      if (until?.()) over.abort(new PeerGoneError('The world has ended.'));
    });
  }
  let pairs = 0;
  const { meshes, close } = createMeshes(
    n,
    () => {
      const pair: [Link, Link] = createMemoryLinkPair();
      if (delays) pair.forEach((link, i) => (pair[i] = slowed(link, delays)));
      if (pairs === slow?.rank) pair.forEach((link, i) => (pair[i] = throttled(link, slow.bytesPerMs, clock)));
      // Changes only the links of the ring, in ring order. Links on demand are not changed.
      const ranks = pairs < n ? [pairs, (pairs + 1) % n] : [];
      pairs += 1;
      const at = ranks.indexOf(end?.rank ?? -1);
      if (at < 0) return pair;
      const link = pair[at]!;
      mine.push(link);
      const watched = watch(link, breaks);
      return at === 0 ? [watched, pair[1]] : [pair[0], watched];
    },
    generation,
  );
  const entered: GenerationOutcome['entered'] = members.map(() => null);
  const groups = meshes.map((mesh) => new ProcessGroup(mesh, { timeoutMs: TIMEOUT_MS, clock }));
  const results = await Promise.all(
    members.map(async (member, rank): Promise<RunResult | Error> => {
      const group = groups[rank]!;
      const { run } = member;
      try {
        const { signal } = over;
        entered[rank] = {
          ...(await run.enter({ group, transport: { webrtc: 0, server: 0, memory: group.worldSize }, signal })),
          values: member.values(),
        };
        return await run.run();
      } catch (error) {
        group.abort(asError(error));
        return asError(error);
      }
    }),
  );
  for (const group of groups) group.destroy();
  close();
  return { results, entered, isBroken };
}

/** Returns a link whose frames take some turns of the event loop. Their order does not change. */
function slowed(link: Link, delays: Rng): Link {
  let before = Promise.resolve();
  return wrap(link, {
    send: async (frame) => {
      const turns = delays.below(MAX_DELAY);
      const sent = before.then(async () => {
        for (let i = 0; i < turns; i++) await new Promise((resolve) => setImmediate(resolve));
        await link.send(frame);
      });
      before = sent.catch(() => {});
      return sent;
    },
  });
}

/** Returns a link that sends one frame after the other, with limited speed. */
function throttled(link: Link, bytesPerMs: number, clock: Clock): Link {
  let before = Promise.resolve();
  return wrap(link, {
    send: (frame) => {
      const { byteLength } = frame;
      before = before.then(async () => {
        await new Promise<void>((resolve) => clock.after(byteLength / bytesPerMs, resolve));
        await link.send(frame);
      });
      const sent = before;
      before = sent.catch(() => {});
      return sent;
    },
  });
}

/** Returns a link that calls `breaks` before each frame in either direction. */
function watch(link: Link, breaks: () => boolean): Link {
  return wrap(link, {
    send: (frame) => {
      breaks();
      return link.send(frame);
    },
    receive: (frame, handler) => {
      if (!breaks()) handler(frame);
    },
  });
}

/** Whether a world has ended because links broke. */
export const isLoss = (result: RunResult | Error): boolean => result instanceof PeerGoneError;

/**
 * Returns the steps in the history of `members`. Each step is returned as the first member that
 * took it emitted it.
 */
export function stepsOf(members: readonly Pick<Member, 'events'>[]): Step[] {
  const steps = new Map<number, Step>();
  for (const { events } of members) {
    for (const event of events) if (event.type === 'step' && !steps.has(event.step)) steps.set(event.step, event);
  }
  return [...steps.values()].sort((a, b) => a.step - b.step);
}

/**
 * Returns the weights of a counting task after every sample in the windows of `steps` was applied
 * once. The weights are bitwise exact.
 */
export function countedOnce(steps: readonly Step[], samples: number, seed = 1): number[] {
  const weights = new Float32Array(samples);
  for (const { epoch, offset, samples: size } of steps) {
    const order = seededPermutation(samples, mixSeed(seed, epoch));
    const share = new Float32Array([-1 / size])[0]!;
    for (const index of order.subarray(offset, offset + size)) weights[index] = weights[index]! - share;
  }
  return Array.from(weights);
}

/** Returns whether each window begins where the previous window ended. */
export function areContiguous(steps: readonly Step[], samples: number): boolean {
  let [epoch, offset] = [0, 0];
  for (const [i, one] of steps.entries()) {
    if (one.step !== i || one.epoch !== epoch || one.offset !== offset) return false;
    offset += one.samples;
    if (offset > samples) return false;
    if (offset === samples) [epoch, offset] = [epoch + 1, 0];
  }
  return steps.length > 0 && offset === 0;
}
