import { describe, expect, test } from 'vitest';
import type { Fault, FaultKind } from '../../tools/chaos/faults.ts';
import { type ReportedEvent, type Observation, recoveredAt, reportOf, returnedAt } from '../../tools/chaos/report.ts';
import type { RunResult } from '../../src/protocol/runResult.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';

/** Number of samples per epoch. */
const SIZE = 100;

/** Records events of tabs. Each event is 100 ms after the previous one, unless a time is given. */
class Timeline {
  readonly observations: Observation[] = [];

  event(tab: string, event: ReportedEvent, at = (this.observations.at(-1)?.at ?? 0) + 100): this {
    this.observations.push({ at, tab, event });
    return this;
  }

  /** Records that all these tabs begin a generation. */
  generation(
    generation: number,
    tabs: string[],
    { epochs = 2, maxSteps = null as number | null, strategy = DEFAULT_JOB.strategy, batchSize = 32 } = {},
  ): this {
    const job = { ...DEFAULT_JOB, epochs, maxSteps, strategy, batchSize };
    const world = { worldSize: tabs.length, localRank: 0, localWorldSize: 1, members: [], job };
    for (const [rank, tab] of tabs.entries()) {
      this.event(tab, { type: 'generation', generation, run: 1, rank, ...world });
      this.event(tab, {
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

  /** Records that all these tabs take a step. `at` is the time, as in `event`. */
  step(step: number, tabs: string[], [epoch, offset, samples]: [number, number, number], at?: number): this {
    const ms = { total: 1, data: 0, compute: 1, readback: 0, communicate: 0, exposed: 0, update: 0 };
    for (const tab of tabs) this.event(tab, { type: 'step', step, epoch, offset, samples, loss: 1, ms, at: 0 }, at);
    return this;
  }

  hashes(tab: string, step: number, hashes: string[], agree = true): this {
    return this.event(tab, { type: 'hashes', step, hashes, agree });
  }

  finished(tab: string, stateHash: string[], accuracy = 0.5): this {
    return this.event(tab, { type: 'finished', result: { stateHash, accuracy } as RunResult });
  }

  /** The report, if there were no faults. */
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

/** Two tabs take two steps in each of two epochs. */
const twoEpochs = (): Timeline =>
  new Timeline()
    .generation(1, ['a', 'b'])
    .step(0, ['a', 'b'], [0, 0, 60])
    .step(1, ['a', 'b'], [0, 60, 40])
    .step(2, ['a', 'b'], [1, 0, 60])
    .step(3, ['a', 'b'], [1, 60, 40]);

describe('samples in the chaos report', () => {
  test('are neither skipped nor repeated if each epoch contains each sample once', () => {
    expect(twoEpochs().report).toMatchObject({ steps: 4, samplesSkipped: 0, samplesRepeated: 0 });
    const finished = twoEpochs().finished('a', ['x', 'x']).report;
    expect(finished).toMatchObject({ samplesSkipped: 0, samplesRepeated: 0, finished: true, accuracy: 0.5 });
  });

  test('do not count as skipped if their step has not been taken yet', () => {
    const timeline = new Timeline().generation(1, ['a']).step(0, ['a'], [0, 0, 60]);
    expect(timeline.report).toMatchObject({ samplesSkipped: 0, samplesRepeated: 0, finished: false });
  });

  test('do not count as skipped if any tab reports their step, in any order of steps', () => {
    const timeline = new Timeline()
      .generation(1, ['a', 'b'])
      .step(1, ['b'], [0, 60, 40])
      .step(0, ['a'], [0, 0, 60])
      .step(2, ['a'], [1, 0, 60]);
    expect(timeline.report).toMatchObject({ steps: 3, samplesSkipped: 0, samplesRepeated: 0 });
  });

  test('count as skipped if they lie between the windows of two steps', () => {
    const timeline = new Timeline().generation(1, ['a']).step(0, ['a'], [0, 10, 20]).step(1, ['a'], [0, 35, 65]);
    expect(timeline.report).toMatchObject({ samplesSkipped: 15, samplesRepeated: 0 });
  });

  test('count as skipped if their epoch ends early or is missing', () => {
    const timeline = new Timeline().generation(1, ['a']).step(0, ['a'], [0, 0, 60]).step(1, ['a'], [2, 0, 60]);
    expect(timeline.report).toMatchObject({ samplesSkipped: 40 + SIZE, samplesRepeated: 0 });
  });

  test('count as skipped if the final epoch is not complete when the run finishes', () => {
    const timeline = new Timeline()
      .generation(1, ['a'])
      .step(0, ['a'], [0, 0, 100])
      .step(1, ['a'], [1, 0, 60])
      .finished('a', ['x']);
    expect(timeline.report.samplesSkipped).toBe(40);
    const short = new Timeline().generation(1, ['a']).step(0, ['a'], [0, 0, 100]).finished('a', ['x']);
    expect(short.report.samplesSkipped).toBe(SIZE);
  });

  test('do not count as skipped after the final step of a run with maxSteps', () => {
    const timeline = new Timeline()
      .generation(1, ['a'], { maxSteps: 1 })
      .step(0, ['a'], [0, 0, 60])
      .finished('a', ['x']);
    expect(timeline.report.samplesSkipped).toBe(0);
  });

  test('do not count as repeated if two generations took the same step', () => {
    const timeline = new Timeline()
      .generation(1, ['a', 'b', 'c'])
      .step(0, ['c'], [0, 0, 60])
      .generation(2, ['a', 'b'])
      .step(0, ['a', 'b'], [0, 0, 60])
      .step(1, ['a', 'b'], [0, 60, 40]);
    expect(timeline.report).toMatchObject({ samplesSkipped: 0, samplesRepeated: 0, steps: 2 });
  });

  test('count as repeated if the windows of two steps overlap', () => {
    const timeline = new Timeline().generation(1, ['a']).step(0, ['a'], [0, 0, 60]).step(1, ['a'], [0, 50, 50]);
    expect(timeline.report).toMatchObject({ samplesSkipped: 0, samplesRepeated: 10 });
    const inside = new Timeline().generation(1, ['a']).step(0, ['a'], [0, 0, 60]).step(1, ['a'], [0, 10, 20]);
    expect(inside.report.samplesRepeated).toBe(20);
  });

  test('count as repeated if two steps have the same window', () => {
    const timeline = new Timeline().generation(1, ['a']).step(0, ['a'], [0, 0, 60]).step(1, ['a'], [0, 0, 60]);
    expect(timeline.report.samplesRepeated).toBe(60);
  });

  test('count as repeated if a tab takes a step twice', () => {
    const timeline = new Timeline().generation(1, ['a']).step(0, ['a', 'a'], [0, 0, 60]);
    expect(timeline.report.samplesRepeated).toBe(60);
  });

  test('count as repeated if tabs report different windows of the same step', () => {
    const timeline = new Timeline().generation(1, ['a', 'b']).step(0, ['a'], [0, 0, 60]).step(0, ['b'], [0, 0, 40]);
    expect(timeline.report.samplesRepeated).toBe(40);
  });

  test('count as repeated if the window of a step exceeds the end of the epoch', () => {
    const timeline = new Timeline().generation(1, ['a']).step(0, ['a'], [0, 0, 110]);
    expect(timeline.report.samplesRepeated).toBe(10);
  });
});

describe('state hashes in the chaos report', () => {
  test('have no mismatch if they are equal', () => {
    const timeline = twoEpochs().hashes('a', 1, ['x', 'x']).hashes('b', 1, ['x', 'x']).hashes('a', 3, ['y', 'y']);
    expect(timeline.finished('a', ['z', 'z']).finished('b', ['z', 'z']).report.hashMismatches).toBe(0);
  });

  test('have one mismatch in a step, even if several tabs report it', () => {
    const timeline = twoEpochs().hashes('a', 1, ['x', 'y'], false).hashes('b', 1, ['x', 'y'], false);
    expect(timeline.report.hashMismatches).toBe(1);
  });

  test('have one mismatch for each step of which two tabs report different hashes, even if each report contains only equal hashes', () => {
    const timeline = twoEpochs()
      .hashes('a', 1, ['x'])
      .hashes('b', 1, ['y'])
      .hashes('a', 3, ['x'])
      .hashes('b', 3, ['y']);
    expect(timeline.report.hashMismatches).toBe(2);
  });

  test('have a mismatch if they differ at the end of the run', () => {
    expect(twoEpochs().finished('a', ['x', 'x']).finished('b', ['x', 'z']).report.hashMismatches).toBe(1);
  });
});

describe('the time of recovery', () => {
  const tabs = ['a', 'b', 'c'];
  /**
   * There are three tabs. `c` is lost at 2000, and the other tabs continue at 3000. `d` joins and
   * trains at 4000; `c` trains again at 5000.
   */
  const timeline = new Timeline()
    .generation(1, tabs)
    .step(0, tabs, [0, 0, 10], 1000)
    .step(1, tabs, [0, 10, 10], 1500)
    .step(2, ['a'], [0, 20, 10], 2100)
    .step(2, ['c'], [0, 20, 10], 2150)
    .event('a', { ...generationOf(2), worldSize: 2 }, 2500)
    .event('c', { ...generationOf(2), worldSize: 2 }, 2500)
    .step(3, ['c'], [0, 30, 10], 2700)
    .step(3, ['a'], [0, 30, 10], 3000)
    .event('d', { ...generationOf(3), worldSize: 3 }, 3500)
    .step(4, ['d'], [0, 40, 10], 4000)
    .event('c', { ...generationOf(4), worldSize: 4 }, 4500)
    .step(5, ['c'], [0, 50, 10], 5000);

  test('is the first step of another tab in a later generation if a tab was lost', () => {
    for (const kind of ['close', 'crash', 'freeze', 'cut'] as const) {
      expect(recoveredAt(fault(kind, 2000, 'c'), timeline.observations)).toBe(3000);
    }
  });

  test('is the first step of any tab in a later generation if a link broke', () => {
    expect(recoveredAt(fault('edge', 2000, 'c'), timeline.observations)).toBe(2700);
  });

  test('is the next step if the server failed', () => {
    expect(recoveredAt(fault('server', 2000, null), timeline.observations)).toBe(2100);
  });

  test('is the first step of the added tab if a tab was added', () => {
    expect(recoveredAt(fault('join', 2000, 'd'), timeline.observations)).toBe(4000);
    expect(recoveredAt(fault('duplicate', 2000, 'd'), timeline.observations)).toBe(4000);
  });

  test('is null if training did not continue', () => {
    expect(recoveredAt(fault('close', 3500, 'd'), timeline.observations)).toBe(5000);
    expect(recoveredAt(fault('close', 4600, 'a'), timeline.observations)).toBeNull();
    expect(recoveredAt(fault('server', 5000, null), timeline.observations)).toBeNull();
    expect(recoveredAt(fault('join', 2000, 'e'), timeline.observations)).toBeNull();
  });

  test('is not the return of a tab that was cut off, which is the first step of this tab in a later generation', () => {
    const cut = fault('cut', 2000, 'c', { undoneAt: 2600 });
    expect(returnedAt(cut, timeline.observations)).toBe(2700);
    expect(returnedAt({ ...cut, undoneAt: 2800 }, timeline.observations)).toBe(5000);
    expect(returnedAt({ ...cut, undoneAt: null }, timeline.observations)).toBeNull();
    // The step that `c` reports at 2150 had begun before the freeze, so it is not the return.
    const before = fault('freeze', 1600, 'c', { undoneAt: 2120 });
    expect(returnedAt(before, timeline.observations)).toBe(2700);
  });

  test('is reported for each kind of fault, with the number of faults without a recovery', () => {
    const { faults, recoveryMs, unrecovered, pauseMs, returnMs, stepGapMs, schedule } = reportOf(
      timeline.observations,
      [
        fault('server', 900, null, { endedAt: 1600 }),
        fault('cut', 2000, 'c', { undoneAt: 2600, endedAt: 3100 }),
        fault('server', 2000, null, { endedAt: 2600 }),
        fault('server', 2650, null, { endedAt: 4000 }),
        fault('close', 4600, 'a', { endedAt: 9000 }),
      ],
    );
    expect(faults).toEqual({ server: 3, cut: 1, close: 1 });
    expect(recoveryMs).toEqual({ server: { median: 100, max: 100 }, cut: { median: 1000, max: 1000 } });
    expect(unrecovered).toEqual({ close: 1 });
    expect(returnMs).toEqual({ cut: { median: 100, max: 100 } });
    // Steps were first reported at 1000, 1500, 2100, 2700, 4000 and 5000.
    expect(pauseMs).toEqual({
      server: { median: 600, max: 1300 },
      cut: { median: 600, max: 600 },
      close: { median: 4000, max: 4000 },
    });
    expect(stepGapMs).toBe(600);
    expect(schedule[1]).toEqual({ kind: 'cut', tab: 'c', atMs: 1000, recoveryMs: 1000, returnMs: 100, pauseMs: 600 });
  });

  test('is not expected if the run ends before training could continue', () => {
    const ended = new Timeline()
      .generation(1, ['a', 'b'], { maxSteps: 1 })
      .step(0, ['a', 'b'], [0, 0, 10], 1000)
      .event(
        'a',
        { type: 'finished', result: { stateHash: ['x', 'x'], accuracy: null } as unknown as RunResult },
        2000,
      );
    expect(reportOf(ended.observations, [fault('join', 1500, 'c')]).unrecovered).toEqual({});
    expect(reportOf(ended.observations, [fault('join', 2500, 'c')]).unrecovered).toEqual({ join: 1 });
  });

  test('is reported with those changes of membership whose generation took a step', () => {
    expect(timeline.report).toMatchObject({ membershipChanges: 3, worldSizes: [3, 2, 4] });
    const idle = new Timeline()
      .generation(1, ['a', 'b'])
      .step(0, ['a'], [0, 0, 10])
      .generation(2, ['a'])
      .generation(3, ['a', 'b']);
    expect(idle.report).toMatchObject({ membershipChanges: 0, worldSizes: [2] });
  });
});

test('a run without steps has an empty report', () => {
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

/** A run in which a step was not committed, and is taken again from another sample. */
function rolledBack(strategy: 'ddp' | 'sparseloco', again: number) {
  const options = { epochs: 1, strategy, batchSize: 20 };
  const share = strategy === 'ddp' ? 40 : 20;
  return new Timeline()
    .generation(1, ['ann', 'ben'], options)
    .step(0, ['ann', 'ben'], [0, 0, share])
    .step(1, ['ben'], [0, 40, share])
    .generation(2, ['ann', 'cy'], options)
    .step(1, ['ann', 'cy'], [0, again, share])
    .step(2, ['ann', 'cy'], [0, 80, strategy === 'ddp' ? 20 : 10])
    .finished('ann', ['a', 'a']).report;
}

test('samples of steps that ranks roll back are not counted, and other samples are counted over all ranks', () => {
  expect(rolledBack('sparseloco', 40)).toMatchObject({ samplesSkipped: 0, samplesRepeated: 0 });
  expect(rolledBack('sparseloco', 45)).toMatchObject({ samplesSkipped: 5, samplesRepeated: 5 });
  // A tab of ddp takes no step twice.
  expect(rolledBack('ddp', 40)).toMatchObject({ samplesSkipped: 0, samplesRepeated: 0 });
});
