/** A feeder and a newcomer over a modelled line, in virtual time. */
import { afterEach, describe, expect, test } from 'vitest';
import { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import {
  recordAppliedStep,
  initialTrainingProgress,
  type TrainingProgress,
} from '../../../src/parallel/recovery/progress.ts';
import {
  nextNewcomerMove,
  StateFeed,
  type StateFeedReplica,
  type NewcomerLag,
  type StateWithProgress,
  type StepUpdate,
} from '../../../src/parallel/recovery/stateFeed.ts';
import type { StateReceiveProgress } from '../../../src/protocol/events.ts';
import { createMeshes } from '../../../src/testing/index.ts';
import { createMemoryLinkPair } from '../../../src/transport/memoryLink.ts';
import { PeerGoneError } from '../../../src/util/errors.ts';
import { hashOfArrays } from '../../../src/util/hash.ts';
import { wrap } from '../../engine/membership/links.ts';
import { ManualClock } from '../../manualClock.ts';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Parameters of the model. Its state has three arrays of this length, as with Adam. */
const SIZE = 100_000;
const STATE_BYTES = 12 * SIZE;

/** A rank whose step k adds k to each value. */
class Rank implements StateFeedReplica<null> {
  readonly stateBytes = STATE_BYTES;
  values = new Float32Array(3 * SIZE);
  now: TrainingProgress = initialTrainingProgress();
  /** Number of copies made of the state. */
  copies = 0;
  loads = 0;
  repeats = 0;
  readonly keepsGradients: boolean;

  constructor(keepsGradients = true) {
    this.keepsGradients = keepsGradients;
  }

  get hash(): string {
    return hashOfArrays([this.values]);
  }

  progress(): TrainingProgress {
    return this.now;
  }

  readonly repeater = this;

  lastUpdate(): StepUpdate | null {
    if (!this.keepsGradients || this.now.step === 0) return null;
    return { gradient: new Float32Array(SIZE).fill(this.now.step), learningRate: 1 };
  }

  read(): Promise<StateWithProgress<null>> {
    this.copies += 1;
    return Promise.resolve({ progress: structuredClone(this.now), head: null, arrays: [this.values.slice()] });
  }

  load({ progress, arrays }: StateWithProgress<null>): void {
    this.loads += 1;
    this.now = progress;
    this.values = arrays[0]!;
  }

  repeat({ gradient }: { gradient: Float32Array }, progress: TrainingProgress): void {
    this.repeats += 1;
    for (let i = 0; i < this.values.length; i++) this.values[i]! += gradient[i % SIZE]!;
    this.now = progress;
  }

  step(): void {
    const step = this.now.step + 1;
    for (let i = 0; i < this.values.length; i++) this.values[i]! += step;
    this.now.losses.push(1 / step);
    recordAppliedStep(this.now, 7, { epoch: 0, offset: step });
  }
}

class World {
  readonly clock = new ManualClock();
  readonly feeder: Rank;
  readonly newcomer = new Rank();
  readonly reports: StateReceiveProgress[] = [];
  /** When the ranks of the run need not wait any longer, in milliseconds. */
  nearAt: number | null = null;
  /** Resolves when the feeder's part in the feed has ended. */
  served: Promise<void> = Promise.resolve();
  readonly #rate: number;
  readonly #feed: StateFeed;
  readonly #received: StateFeed;
  #cut = (): void => {};
  #stop: () => void;

  /** @param rate bytes that the newcomer's line carries in a millisecond. */
  constructor(rate: number, { stepMs, keepsGradients = true }: { stepMs: number; keepsGradients?: boolean }) {
    this.#rate = rate;
    const { clock } = this;
    this.feeder = new Rank(keepsGradients);
    this.feeder.step();
    this.#feed = new StateFeed({ clock, replica: this.feeder, onprogress: () => {} });
    this.#received = new StateFeed({
      clock,
      replica: this.newcomer,
      onprogress: (progress) => this.reports.push(progress),
    });
    const step = (): void => {
      this.feeder.step();
      this.#feed.applied();
      this.#stop = clock.after(stepMs, step);
    };
    this.#stop = clock.after(stepMs, step);
  }

  /** Links the two. @param identities of the feeder's and the newcomer's run. */
  link(identities: readonly [string, string] = ['run', 'run']): void {
    const { clock } = this;
    let free = 0;
    const { meshes, close } = createMeshes(2, () => {
      const [a, b] = createMemoryLinkPair();
      const send = (frame: ArrayBuffer): Promise<void> => {
        free = Math.max(free, clock.now()) + frame.byteLength / this.#rate;
        return new Promise((resolve, reject) => {
          clock.after(free - clock.now(), () => void a.send(frame).then(resolve, reject));
        });
      };
      return [wrap(a, { send }), b];
    });
    const [one, other] = meshes.map((mesh) => new ProcessGroup(mesh, { clock })) as [ProcessGroup, ProcessGroup];
    const onnear = (): void => void (this.nearAt ??= clock.now());
    const hooks = { onnear, onbytes: () => {} };
    this.served = this.#feed.run(one, identities[0], hooks).catch(() => {});
    this.#received.run(other, identities[1], hooks).catch(() => {});
    this.#cut = () => {
      for (const group of [one, other]) group.abort(new PeerGoneError('The link broke.'));
      close();
    };
  }

  cut(): void {
    this.#cut();
  }

  async until(isSo: () => boolean, limitMs = 1e6): Promise<void> {
    const end = this.clock.now() + limitMs;
    while (!isSo()) {
      if (this.clock.now() > end) throw new Error(`Not after ${limitMs} ms: ${JSON.stringify(this.reports.at(-1))}`);
      for (let i = 0; i < 3; i++) await turn();
      this.clock.advance(50);
    }
  }

  end(): void {
    this.#stop();
    this.#cut();
  }
}

let world: World | null = null;
afterEach(() => {
  world?.end();
});

describe('a newcomer that is fed during training', () => {
  test('follows the run step by step with the same bits if its line is fast enough for the updates', async () => {
    // 20 s for a state, 6.7 s for a gradient, and a step takes 8 s.
    const now = (world = new World(60, { stepMs: 8_000 }));
    now.link();
    await now.until(() => now.nearAt !== null);
    expect(now.newcomer.loads).toBe(1);
    await now.until(() => now.newcomer.now.step === now.feeder.now.step && now.newcomer.repeats > 6);
    expect(now.newcomer.hash).toBe(now.feeder.hash);
    expect(now.newcomer.now).toEqual(now.feeder.now);
    expect(now.newcomer.loads).toBe(1);
  });

  test('whose line is too slow for the updates waits twenty times as long as other ranks will have to wait for it', async () => {
    const now = (world = new World(60, { stepMs: 1_000 }));
    now.link();
    await now.until(() => now.nearAt !== null);
    expect(now.nearAt! / 20_000).toBeGreaterThan(19);
    expect(now.nearAt! / 20_000).toBeLessThan(23);
    expect(now.feeder.copies).toBe(1);
    expect(now.reports.at(-1)!.waitsMs).toBeGreaterThan(0);
  });

  test('receives another copy of the state if it cannot repeat steps and its line is fast enough for copies', async () => {
    const now = (world = new World(60, { stepMs: 30_000, keepsGradients: false }));
    now.link();
    await now.until(() => now.nearAt !== null);
    expect(now.newcomer.hash).toBe(now.feeder.hash);
    expect(now.newcomer.repeats).toBe(0);
  });

  test('receives only the missing slices after a broken link', async () => {
    const now = (world = new World(60, { stepMs: 8_000 }));
    now.link();
    await now.until(() => (now.reports.at(-1)?.bytes ?? 0) > STATE_BYTES / 2);
    const { bytes } = now.reports.at(-1)!;
    now.cut();
    await now.until(() => true);
    now.clock.advance(5_000);
    const before = now.reports.length;
    now.link();
    await now.until(() => now.nearAt !== null);
    expect(now.reports[before]!.bytes).toBeGreaterThanOrEqual(bytes);
    expect(now.feeder.copies).toBe(1);
  });

  test('begins again with a newer copy if its feeder no longer has the old one', async () => {
    const now = (world = new World(60, { stepMs: 8_000 }));
    now.link();
    await now.until(() => (now.reports.at(-1)?.bytes ?? 0) > STATE_BYTES / 2);
    now.cut();
    await now.until(() => true);
    now.clock.advance(121_000);
    now.link();
    await now.until(() => now.nearAt !== null);
    expect(now.feeder.copies).toBe(2);
  });

  test('does not keep its feeder when the link closes while it waits for news', async () => {
    const idle = new World(1e6, { stepMs: 1e6 });
    idle.link();
    await idle.until(() => idle.nearAt !== null);
    for (let i = 0; i < 100; i++) await turn();
    idle.cut();
    let hasEnded = false;
    void idle.served.then(() => (hasEnded = true));
    // The clock stands still, so no deadline passes.
    for (let i = 0; i < 100; i++) await turn();
    expect(hasEnded).toBe(true);
  });

  test('receives nothing from a rank of another run and enters at once', async () => {
    const now = (world = new World(60, { stepMs: 8_000 }));
    now.link(['run', 'another run']);
    await now.until(() => now.nearAt !== null);
    expect(now.reports).toEqual([]);
    expect(now.feeder.copies).toBe(0);
    expect(now.newcomer.loads).toBe(0);
  });
});

/** A line of 0.25 MB/s and a model of 10 M parameters: 480 s for a state, 160 s for a gradient. */
const SLOW: NewcomerLag = {
  behind: 40,
  canRepeat: false,
  stateBytes: 120e6,
  updateBytes: 40e6,
  rate: 250,
  everyMs: 10_000,
  waitedMs: 480_000,
};
const MINUTE = 60_000;

describe('the next move of a newcomer', () => {
  test.each([
    ['has the state of the run', { behind: 0, rate: null }, { move: 'enter' }],
    ['has received nothing yet', { rate: null }, { move: 'state' }],
    ['has received nothing yet, and lacks one step', { rate: null, behind: 1, canRepeat: true }, { move: 'update' }],
    ['lacks a step that takes 4 s', { behind: 1, canRepeat: true, rate: 10_000 }, { move: 'enter' }],
    [
      'lacks two steps, so the whole state of 12 s',
      { behind: 2, canRepeat: true, rate: 10_000, waitedMs: 0 },
      { move: 'update' },
    ],
    ['lacks a state that its line carries in 5 s', { rate: 24_000 }, { move: 'enter' }],
    ['has a line that carries less than the updates', {}, { move: 'wait', ms: 152 * MINUTE }],
    ['has waited twenty times as long as the others must', { waitedMs: 160 * MINUTE }, { move: 'enter' }],
    ['has a line that carries the updates', { everyMs: 170_000 }, { move: 'state' }],
    [
      'cannot repeat steps, and its line carries no state between two changes',
      { updateBytes: null, everyMs: 170_000 },
      { move: 'wait', ms: 152 * MINUTE },
    ],
    [
      'cannot repeat steps, and its line carries a state between two changes',
      { updateBytes: null, everyMs: 500_000 },
      { move: 'state' },
    ],
  ] satisfies [string, Partial<NewcomerLag>, unknown][])('that %s (%o) is %o', (_, lag, move) => {
    expect(nextNewcomerMove({ ...SLOW, ...lag })).toEqual(move);
  });
});
