import { describe, expect, test } from 'vitest';
import type { Fault, FaultKind } from '../../tools/chaos/faults.ts';
import { type ReportedEvent, type Observation, recoveredAt, reportOf, returnedAt } from '../../tools/chaos/report.ts';
import type { RunResult } from '../../src/protocol/runResult.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';

/** Samples of a pass. */
const SIZE = 100;

/** What tabs tell, each thing 100 ms after the one before unless a time is given. */
class Story {
  readonly observations: Observation[] = [];

  tell(tab: string, event: ReportedEvent, at = (this.observations.at(-1)?.at ?? 0) + 100): this {
    this.observations.push({ at, tab, event });
    return this;
  }

  /** All these tabs begin a membership. */
  generation(generation: number, tabs: string[], { epochs = 2, maxSteps = null as number | null } = {}): this {
    const job = { ...DEFAULT_JOB, epochs, maxSteps };
    const world = { worldSize: tabs.length, localRank: 0, localWorldSize: 1, members: [], job };
    for (const [rank, tab] of tabs.entries()) {
      this.tell(tab, { type: 'generation', generation, run: 1, rank, ...world });
      this.tell(tab, {
        type: 'model',
        parameters: 1,
        gradientBytes: 4,
        bucketBytes: [4],
        totalSteps: 1,
        testSamples: 1,
        trainSamples: SIZE,
      });
    }
    return this;
  }

  /** All these tabs apply a step; times as in `tell`. */
  step(step: number, tabs: string[], [epoch, offset, samples]: [number, number, number], at?: number): this {
    const ms = { total: 1, compute: 1, readback: 0, communicate: 0, exposed: 0, update: 0 };
    for (const tab of tabs) this.tell(tab, { type: 'step', step, epoch, offset, samples, loss: 1, ms, at: 0 }, at);
    return this;
  }

  hashes(tab: string, step: number, hashes: string[], agree = true): this {
    return this.tell(tab, { type: 'hashes', step, hashes, agree });
  }

  finished(tab: string, stateHash: string[], accuracy = 0.5): this {
    return this.tell(tab, { type: 'finished', result: { stateHash, accuracy } as RunResult });
  }

  /** As if nothing had been done to them. */
  get report() {
    return reportOf(this.observations, []);
  }
}

const fault = (kind: FaultKind, at: number, tab: string | null, rest: Partial<Fault> = {}): Fault => ({
  kind,
  at,
  tab,
  undoneAt: null,
  endedAt: at + 1000,
  ...rest,
});

function generationOf(generation: number) {
  const common = { rank: 0, localRank: 0, localWorldSize: 1, members: [], job: DEFAULT_JOB };
  return { type: 'generation', generation, run: 1, ...common } as const;
}

/** Two passes of two steps each, by two tabs. */
const twoPasses = (): Story =>
  new Story()
    .generation(1, ['a', 'b'])
    .step(0, ['a', 'b'], [0, 0, 60])
    .step(1, ['a', 'b'], [0, 60, 40])
    .step(2, ['a', 'b'], [1, 0, 60])
    .step(3, ['a', 'b'], [1, 60, 40]);

describe('samples', () => {
  test('each once per pass', () => {
    expect(twoPasses().report).toMatchObject({ steps: 4, samplesSkipped: 0, samplesRepeated: 0 });
    const finished = twoPasses().finished('a', ['x', 'x']).report;
    expect(finished).toMatchObject({ samplesSkipped: 0, samplesRepeated: 0, finished: true, accuracy: 0.5 });
  });

  test('nothing is missing of what has not come yet', () => {
    const story = new Story().generation(1, ['a']).step(0, ['a'], [0, 0, 60]);
    expect(story.report).toMatchObject({ samplesSkipped: 0, samplesRepeated: 0, finished: false });
  });

  test('one tab suffices to know of a step, in whatever order steps are heard of', () => {
    const story = new Story()
      .generation(1, ['a', 'b'])
      .step(1, ['b'], [0, 60, 40])
      .step(0, ['a'], [0, 0, 60])
      .step(2, ['a'], [1, 0, 60]);
    expect(story.report).toMatchObject({ steps: 3, samplesSkipped: 0, samplesRepeated: 0 });
  });

  test('a gap in a pass', () => {
    const story = new Story().generation(1, ['a']).step(0, ['a'], [0, 10, 20]).step(1, ['a'], [0, 35, 65]);
    expect(story.report).toMatchObject({ samplesSkipped: 15, samplesRepeated: 0 });
  });

  test('a pass that ends too early, and one that is left out', () => {
    const story = new Story().generation(1, ['a']).step(0, ['a'], [0, 0, 60]).step(1, ['a'], [2, 0, 60]);
    expect(story.report).toMatchObject({ samplesSkipped: 40 + SIZE, samplesRepeated: 0 });
  });

  test('a run that finishes before its last pass is whole', () => {
    const story = new Story()
      .generation(1, ['a'])
      .step(0, ['a'], [0, 0, 100])
      .step(1, ['a'], [1, 0, 60])
      .finished('a', ['x']);
    expect(story.report.samplesSkipped).toBe(40);
    const short = new Story().generation(1, ['a']).step(0, ['a'], [0, 0, 100]).finished('a', ['x']);
    expect(short.report.samplesSkipped).toBe(SIZE);
  });

  test('a run that was to stop after so many steps', () => {
    const story = new Story().generation(1, ['a'], { maxSteps: 1 }).step(0, ['a'], [0, 0, 60]).finished('a', ['x']);
    expect(story.report.samplesSkipped).toBe(0);
  });

  test('a step that two memberships took counts once', () => {
    const story = new Story()
      .generation(1, ['a', 'b', 'c'])
      .step(0, ['c'], [0, 0, 60])
      .generation(2, ['a', 'b'])
      .step(0, ['a', 'b'], [0, 0, 60])
      .step(1, ['a', 'b'], [0, 60, 40]);
    expect(story.report).toMatchObject({ samplesSkipped: 0, samplesRepeated: 0, steps: 2 });
  });

  test('windows that overlap', () => {
    const story = new Story().generation(1, ['a']).step(0, ['a'], [0, 0, 60]).step(1, ['a'], [0, 50, 50]);
    expect(story.report).toMatchObject({ samplesSkipped: 0, samplesRepeated: 10 });
    const inside = new Story().generation(1, ['a']).step(0, ['a'], [0, 0, 60]).step(1, ['a'], [0, 10, 20]);
    expect(inside.report.samplesRepeated).toBe(20);
  });

  test('a window that was dealt again under another number', () => {
    const story = new Story().generation(1, ['a']).step(0, ['a'], [0, 0, 60]).step(1, ['a'], [0, 0, 60]);
    expect(story.report.samplesRepeated).toBe(60);
  });

  test('a tab that applies a step twice', () => {
    const story = new Story().generation(1, ['a']).step(0, ['a', 'a'], [0, 0, 60]);
    expect(story.report.samplesRepeated).toBe(60);
  });

  test('tabs that differ about the window of a step', () => {
    const story = new Story().generation(1, ['a', 'b']).step(0, ['a'], [0, 0, 60]).step(0, ['b'], [0, 0, 40]);
    expect(story.report.samplesRepeated).toBe(40);
  });

  test('a window over the end of a pass', () => {
    const story = new Story().generation(1, ['a']).step(0, ['a'], [0, 0, 110]);
    expect(story.report.samplesRepeated).toBe(10);
  });
});

describe('hashes', () => {
  test('all the same', () => {
    const story = twoPasses().hashes('a', 1, ['x', 'x']).hashes('b', 1, ['x', 'x']).hashes('a', 3, ['y', 'y']);
    expect(story.finished('a', ['z', 'z']).finished('b', ['z', 'z']).report.hashMismatches).toBe(0);
  });

  test('a rank that differs by what one tab says, however many say it', () => {
    const story = twoPasses().hashes('a', 1, ['x', 'y'], false).hashes('b', 1, ['x', 'y'], false);
    expect(story.report.hashMismatches).toBe(1);
  });

  test('two worlds that agree, each by itself', () => {
    const story = twoPasses().hashes('a', 1, ['x']).hashes('b', 1, ['y']).hashes('a', 3, ['x']).hashes('b', 3, ['y']);
    expect(story.report.hashMismatches).toBe(2);
  });

  test('ends that differ', () => {
    expect(twoPasses().finished('a', ['x', 'x']).finished('b', ['x', 'z']).report.hashMismatches).toBe(1);
  });
});

describe('recovery', () => {
  const tabs = ['a', 'b', 'c'];
  /**
   * Three tabs; `c` is lost at 2000, the others go on at 3000; `d` comes and trains at 4000, `c` at
   * 5000.
   */
  const story = new Story()
    .generation(1, tabs)
    .step(0, tabs, [0, 0, 10], 1000)
    .step(1, tabs, [0, 10, 10], 1500)
    .step(2, ['a'], [0, 20, 10], 2100)
    .step(2, ['c'], [0, 20, 10], 2150)
    .tell('a', { ...generationOf(2), worldSize: 2 }, 2500)
    .tell('c', { ...generationOf(2), worldSize: 2 }, 2500)
    .step(3, ['c'], [0, 30, 10], 2700)
    .step(3, ['a'], [0, 30, 10], 3000)
    .tell('d', { ...generationOf(3), worldSize: 3 }, 3500)
    .step(4, ['d'], [0, 40, 10], 4000)
    .tell('c', { ...generationOf(4), worldSize: 4 }, 4500)
    .step(5, ['c'], [0, 50, 10], 5000);

  test('without the lost tab: the first step of another one in a later membership', () => {
    for (const kind of ['close', 'crash', 'freeze', 'cut'] as const) {
      expect(recoveredAt(fault(kind, 2000, 'c'), story.observations)).toBe(3000);
    }
  });

  test('of an edge: the first step of anybody in a later membership', () => {
    expect(recoveredAt(fault('edge', 2000, 'c'), story.observations)).toBe(2700);
  });

  test('without the server: the next step', () => {
    expect(recoveredAt(fault('server', 2000, null), story.observations)).toBe(2100);
  });

  test('of a tab that came: its own first step', () => {
    expect(recoveredAt(fault('join', 2000, 'd'), story.observations)).toBe(4000);
    expect(recoveredAt(fault('duplicate', 2000, 'd'), story.observations)).toBe(4000);
  });

  test('has not happened yet', () => {
    expect(recoveredAt(fault('close', 3500, 'd'), story.observations)).toBe(5000);
    expect(recoveredAt(fault('close', 4600, 'a'), story.observations)).toBeNull();
    expect(recoveredAt(fault('server', 5000, null), story.observations)).toBeNull();
    expect(recoveredAt(fault('join', 2000, 'e'), story.observations)).toBeNull();
  });

  test('of a tab that was away: its first step after that, with the others', () => {
    const cut = fault('cut', 2000, 'c', { undoneAt: 2600 });
    expect(returnedAt(cut, story.observations)).toBe(2700);
    expect(returnedAt({ ...cut, undoneAt: 2800 }, story.observations)).toBe(5000);
    expect(returnedAt({ ...cut, undoneAt: null }, story.observations)).toBeNull();
    // What it had in hand when it froze is no return.
    const before = fault('freeze', 1600, 'c', { undoneAt: 2120 });
    expect(returnedAt(before, story.observations)).toBe(2700);
  });

  test('is told by kind, with what was not recovered from', () => {
    const { faults, recoveryMs, unrecovered, pauseMs, returnMs, stepGapMs, schedule } = reportOf(story.observations, [
      fault('server', 900, null, { endedAt: 1600 }),
      fault('cut', 2000, 'c', { undoneAt: 2600, endedAt: 3100 }),
      fault('server', 2000, null, { endedAt: 2600 }),
      fault('server', 2650, null, { endedAt: 4000 }),
      fault('close', 4600, 'a', { endedAt: 9000 }),
    ]);
    expect(faults).toEqual({ server: 3, cut: 1, close: 1 });
    expect(recoveryMs).toEqual({ server: { median: 100, max: 100 }, cut: { median: 1000, max: 1000 } });
    expect(unrecovered).toEqual({ close: 1 });
    expect(returnMs).toEqual({ cut: { median: 100, max: 100 } });
    // Steps were first heard of at 1000, 1500, 2100, 2700, 4000 and 5000.
    expect(pauseMs).toEqual({
      server: { median: 600, max: 1300 },
      cut: { median: 600, max: 600 },
      close: { median: 4000, max: 4000 },
    });
    expect(stepGapMs).toBe(600);
    expect(schedule[1]).toEqual({ kind: 'cut', tab: 'c', atMs: 1000, recoveryMs: 1000, returnMs: 100, pauseMs: 600 });
  });

  test('is not owed by a run that ends', () => {
    const ended = new Story()
      .generation(1, ['a', 'b'], { maxSteps: 1 })
      .step(0, ['a', 'b'], [0, 0, 10], 1000)
      .tell('a', { type: 'finished', result: { stateHash: ['x', 'x'], accuracy: null } as unknown as RunResult }, 2000);
    expect(reportOf(ended.observations, [fault('join', 1500, 'c')]).unrecovered).toEqual({});
    expect(reportOf(ended.observations, [fault('join', 2500, 'c')]).unrecovered).toEqual({ join: 1 });
  });

  test('memberships that took a step count', () => {
    expect(story.report).toMatchObject({ membershipChanges: 3, worldSizes: [3, 2, 4] });
    const idle = new Story()
      .generation(1, ['a', 'b'])
      .step(0, ['a'], [0, 0, 10])
      .generation(2, ['a'])
      .generation(3, ['a', 'b']);
    expect(idle.report).toMatchObject({ membershipChanges: 0, worldSizes: [2] });
  });
});

test('a run without a step', () => {
  expect(reportOf([], [fault('close', 0, 'a')])).toMatchObject({
    steps: 0,
    samplesSkipped: 0,
    samplesRepeated: 0,
    hashMismatches: 0,
    membershipChanges: 0,
    stepGapMs: 0,
    recoveryMs: {},
    unrecovered: { close: 1 },
    accuracy: null,
  });
});
