import { describe, expect, test } from 'vitest';
import { planStepNumbersOfRank } from '../../../src/collectives/plans/planSteps.ts';
import { initialTabView, reduceTabView, tabViewWithoutRun, type TabView } from '../../../src/app/state/view.ts';
import { MAX_TIMELINE_STEPS } from '../../../src/app/state/runTelemetry.ts';
import { RECENT_STEP_COUNT } from '../../../src/app/state/runProgress.ts';
import type { RosterEntry } from '../../../src/protocol/room.ts';
import type { EngineEvent, EventOf } from '../../../src/protocol/events.ts';
import type { CodecChoice } from '../../../src/protocol/runResult.ts';
import type { HopEvent, StepLane } from '../../../src/protocol/stepTrace.ts';
import type { AllReduceName } from '../../../src/spec/algorithms.ts';
import type { FlightRecording } from '../../../src/protocol/flightRecording.ts';
import { DEFAULT_JOB, parseJob } from '../../../src/spec/job.ts';
import type { DataNote } from '../../../src/spec/preview.ts';
import { member, RESULT, stepEvent } from '../events.ts';

const MEMBERS = [member('Ada'), member('Grace'), member('Edsger')];
const ADMITTED: EngineEvent = { type: 'admitted', member: MEMBERS[1]!.member, room: 'K7F3QX', hostKey: null };
const ROOM: EngineEvent = {
  type: 'room',
  phase: 'FORMING',
  hosts: [MEMBERS[0]!.member],
  members: MEMBERS,
  job: DEFAULT_JOB,
  startAt: null,
  nodes: { min: 1, max: 64 },
  isLocked: false,
  isPausedByHost: false,
  spectators: [],
  waitingFor: 0,
};
const GENERATION: EngineEvent = {
  type: 'generation',
  generation: 1,
  run: 1,
  rank: 1,
  worldSize: 3,
  localRank: 1,
  localWorldSize: 3,
  members: MEMBERS,
  job: DEFAULT_JOB,
};

function fold(...events: EngineEvent[]): TabView {
  return events.reduce(reduceTabView, initialTabView);
}

/** Returns a trace of rank 1 of 3 with the first steps of its plan. */
function trace(step: number, hops: number, algorithm: AllReduceName = 'ring'): EventOf<'trace'> {
  const planSteps = planStepNumbersOfRank(algorithm, 3, 1).slice(0, hops);
  const all = planSteps.map((planStep): HopEvent => ({ planStep, sentAt: planStep, receivedAt: planStep + 1 }));
  return { type: 'trace', step, bucket: 0, bytes: 1, algorithm, startedAt: 0, hops: all };
}

function world(generation: number, members: RosterEntry[]): EngineEvent {
  return {
    ...(GENERATION as EventOf<'generation'>),
    generation,
    members,
    worldSize: members.length,
  };
}

function lane(step: number, duration: number): StepLane {
  return { step, startedAt: 100 * step, duration, segments: [] };
}

function telemetry(lanes: StepLane[]): EngineEvent {
  const ranks = [0, 1, 2].map((rank) => ({ rank, isHidden: false, waitMs: 0, right: null, clock: null, lanes }));
  return { type: 'telemetry', step: 0, ranks };
}

function counted(step: number): EngineEvent {
  return { type: 'confusion', step, classes: ['cats', 'dogs'], counts: [[step, 0], [1, 2]] }; // prettier-ignore
}

function chosen(codec: CodecChoice['codec']): EngineEvent {
  const expectedMs = { fp32: 80, fp16: 40, int8: 20, powersgd: 5 };
  const measured = { ownMs: 20, communicateMs: 90, exposedMs: 80, bytesPerMs: 1000 };
  return { type: 'codec', step: 4, choice: { codec, ...measured, expectedMs, suggestion: null } };
}

function failed(fatal: boolean): EngineEvent {
  return { type: 'failed', name: 'PeerGoneError', message: 'x', fatal };
}

describe('the room', () => {
  test('is known after admission and the first room event', () => {
    const view = fold(ADMITTED, ROOM);
    expect(view).toMatchObject({ room: 'K7F3QX', member: MEMBERS[1]!.member, run: null });
    expect(view.lobby?.members).toHaveLength(3);
  });

  test('is left after a fatal failure, but not after a failure that is not fatal', () => {
    expect(fold(ADMITTED, ROOM, failed(true))).toMatchObject({ lobby: null, member: null, state: 'OFFLINE' });
    expect(fold(ADMITTED, ROOM, failed(false)).lobby).not.toBeNull();
    expect(fold(failed(true), ADMITTED).failure).toBeNull();
  });
});

describe('the run', () => {
  test('shows the latest shares of its ranks, until another generation begins', () => {
    const equal = { type: 'shares', step: 0, shares: [4, 4, 4], reason: 'unknown', impossible: [] } as const;
    const speeds = [400, 400, 100];
    const first: EngineEvent = { ...equal, shares: [...equal.shares], impossible: [], speeds: [null, null, null] };
    const second: EngineEvent = { ...first, step: 8, shares: [5, 5, 2], reason: 'speed', speeds };
    expect(fold(GENERATION, first, second).run?.shares).toMatchObject({ shares: [5, 5, 2], reason: 'speed', speeds });
    expect(fold(GENERATION, second, { ...GENERATION, generation: 9 }).run?.shares).toBeNull();
  });

  test('has a pipeline until the next generation begins', () => {
    const pipeline: EngineEvent = {
      ...{ type: 'pipeline', ranks: 2, replicas: 1, microBatches: 4, schedule: '1f1b', ring: false },
      ...{ layers: [{ name: 'dense1', bytes: 64 }], cut: [1, 0] },
    };
    expect(fold(GENERATION, pipeline).run?.pipeline).toMatchObject({ ranks: 2, cut: [1, 0] });
    expect(fold(GENERATION, pipeline, { ...GENERATION, generation: 9 }).run?.pipeline).toBeNull();
  });

  test('begins with the first generation, and ignores a step before this generation', () => {
    expect(fold(stepEvent(0)).run).toBeNull();
    expect(fold(GENERATION).run).toMatchObject({ rank: 1, worldSize: 3, trace: null, result: null });
  });

  test('has the losses of all 100 steps, but only the latest step events', () => {
    const view = fold(GENERATION, ...Array.from({ length: 100 }, (_, step) => stepEvent(step)));
    expect(view.run!.losses.points).toHaveLength(100);
    expect(view.run!.recent).toHaveLength(RECENT_STEP_COUNT);
    expect(view.run!.recent.at(-1)!.step).toBe(99);
  });

  test('continues in a new generation, without the links and traces of the previous ring', () => {
    const link: EngineEvent = { type: 'link', peerRank: 2, up: true, route: 'direct', roundTripMs: 1 };
    const view = fold(GENERATION, link, stepEvent(0), stepEvent(1), trace(1, 4), {
      ...GENERATION,
      generation: 2,
      worldSize: 2,
    });
    expect(view.run!.losses.points).toHaveLength(2);
    expect(view.run).toMatchObject({ trace: null, links: {}, worldSize: 2 });
  });

  test('marks changes of ranks at the last step before the change', () => {
    const smaller: EngineEvent = { ...GENERATION, generation: 2, worldSize: 2, members: MEMBERS.slice(0, 2) };
    const view = fold(
      smaller,
      stepEvent(0),
      stepEvent(1),
      GENERATION,
      { ...GENERATION, generation: 3 },
      stepEvent(2),
      smaller,
    );
    expect(view.run!.changes).toEqual([
      { step: 1, at: 50, from: 2, to: 3, joined: ['Edsger'], returned: [], left: [] },
      { step: 2, at: 100, from: 3, to: 2, joined: [], returned: [], left: ['Edsger'] },
    ]);
  });

  test('marks ranks that joined, left or returned, even if the world size is the same', () => {
    const [ada, grace, edsger] = MEMBERS as [RosterEntry, RosterEntry, RosterEntry];
    const view = fold(
      ...[world(1, [ada, grace]), stepEvent(0), world(2, [ada, edsger]), stepEvent(1)],
      ...[world(3, [ada, edsger, grace]), stepEvent(2)],
    );
    expect(view.run!.changes).toEqual([
      { step: 0, at: 0, from: 2, to: 2, joined: ['Edsger'], returned: [], left: ['Grace'] },
      { step: 1, at: 50, from: 2, to: 3, joined: [], returned: ['Grace'], left: [] },
    ]);
  });

  test('marks checkpoints at their steps', () => {
    expect(fold(GENERATION, stepEvent(0), { type: 'saved', step: 1 }).run!.saves).toEqual([{ step: 0, at: 0 }]);
  });

  test('has the latest lanes: those of this rank from its own events, those of other ranks from telemetry', () => {
    const steps = Array.from({ length: 40 }, (_, step) => step);
    const own = steps.map((step): EngineEvent => ({ type: 'segments', lane: lane(step, 1) }));
    const { lanes } = fold(GENERATION, ...own, telemetry(steps.map((step) => lane(step, 2)))).run!;
    expect(lanes.map((one) => one.length)).toEqual([MAX_TIMELINE_STEPS, MAX_TIMELINE_STEPS, MAX_TIMELINE_STEPS]);
    expect(lanes.map((one) => one.at(-1))).toEqual([lane(39, 2), lane(39, 1), lane(39, 2)]);
  });

  test('clears the list of recent steps in a new generation, but keeps the latest step', () => {
    const view = fold(GENERATION, stepEvent(0), stepEvent(1), { ...GENERATION, generation: 2 });
    expect(view.run!.recent).toEqual([]);
    expect(view.run!.last).toMatchObject({ step: 1 });
    expect(reduceTabView(view, stepEvent(2)).run!.recent).toHaveLength(1);
  });

  test('continues in a new generation after a failure of this tab, and the failure is cleared', () => {
    const view = fold(GENERATION, stepEvent(0), failed(false), { ...GENERATION, generation: 2 });
    expect(view.failure).toBeNull();
    expect(view.run!.losses.points).toHaveLength(1);
  });

  test('begins at the step at which this tab joined', () => {
    const view = fold(GENERATION, stepEvent(40), stepEvent(41));
    expect(view.run).toMatchObject({ firstStep: 40, changes: [] });
    expect(view.run!.losses.points.map(({ step }) => step)).toEqual([40, 41]);
  });

  test('has continuous times, even if the clock of the engine restarts', () => {
    const view = fold(GENERATION, stepEvent(0), stepEvent(2), { ...stepEvent(3), at: 10 }, { ...stepEvent(4), at: 60 });
    expect(view.run!.losses.points.map(({ at }) => at)).toEqual([0, 100, 110, 160]);
  });

  test('removes the name of the chosen initial weights when it begins, unless it is a range test', () => {
    const weights: EngineEvent = { type: 'weights', file: 'a.safetensors', notes: [] };
    const job = parseJob({ measure: 'learning-rate' });
    const search: EngineEvent = { ...GENERATION, job };
    expect(fold(ADMITTED, ROOM, weights, search).beginsWith).toBe('a.safetensors');
    expect(fold(ADMITTED, ROOM, weights, search, GENERATION).beginsWith).toBeNull();
  });

  test('has the notes about the chosen initial weights', () => {
    const notes: DataNote[] = [{ kind: 'weights-left-out', count: 1, name: 'steps', example: 'I64' }];
    expect(fold(ADMITTED, ROOM, { type: 'weights', file: 'a', notes }).weightNotes).toEqual(notes);
  });

  test('has no losses and no result when it begins after another run', () => {
    const finished: EngineEvent = { type: 'finished', result: RESULT };
    const done = fold(GENERATION, stepEvent(0), finished);
    expect(done.run!.result).toBe(RESULT);
    const again = reduceTabView(done, { ...GENERATION, generation: 2, run: 2 });
    expect(again.run!.result).toBeNull();
    expect(again.run!.losses.points).toHaveLength(0);
  });

  test('replaces a step that is repeated, and removes all later steps and evaluations', () => {
    const evaluation: EngineEvent = { type: 'evaluation', step: 2, loss: 1, accuracy: 0.5, samples: 10 };
    const view = fold(GENERATION, stepEvent(0), stepEvent(1), stepEvent(2), evaluation, stepEvent(1));
    expect(view.run!.recent.map((one) => one.step)).toEqual([0, 1]);
    expect(view.run!.evaluations).toEqual([]);
  });

  test('has the latest confusion matrix until an earlier step is repeated or another run begins', () => {
    const view = fold(GENERATION, stepEvent(0), counted(0), stepEvent(1), counted(1));
    expect(view.run!.confusion).toMatchObject({ step: 1, classes: ['cats', 'dogs'], counts: [[1, 0], [1, 2]] }); // prettier-ignore
    expect(reduceTabView(view, { ...GENERATION, generation: 2 }).run!.confusion).toMatchObject({ step: 1 });
    expect(reduceTabView(view, stepEvent(0)).run!.confusion).toBeNull();
    expect(reduceTabView(view, { ...GENERATION, generation: 2, run: 2 }).run!.confusion).toBeNull();
  });

  test('ignores an evaluation without accuracy and metrics', () => {
    const evaluation: EngineEvent = { type: 'evaluation', step: 0, loss: 1, accuracy: null, samples: 10 };
    expect(fold(GENERATION, stepEvent(0), evaluation).run!.evaluations).toEqual([]);
  });

  test('stores a trace only if the trace has all steps of this rank', () => {
    expect(fold(GENERATION, trace(0, 3)).run!.trace).toBeNull();
    // Rank 1 of 3 has steps 0 to 3.
    const other = trace(0, 4);
    const hops = other.hops.map((hop) => ({ ...hop, planStep: hop.planStep + 1 }));
    expect(fold(GENERATION, { ...other, hops }).run!.trace).toBeNull();
    const view = fold(GENERATION, trace(0, 4), trace(1, 2));
    expect(view.run!.trace!.step).toBe(0);
    // With doubling, rank 1 of 3 receives, exchanges and sends.
    expect(fold(GENERATION, trace(0, 3, 'doubling')).run!.trace!.algorithm).toBe('doubling');
  });

  test('stores only the traces of the algorithm that sends the most bytes', () => {
    const used: EngineEvent = { type: 'algorithm', step: 0, algorithm: 'ring' };
    expect(fold(GENERATION, used, trace(0, 4), trace(0, 3, 'doubling')).run!.trace!.algorithm).toBe('ring');
    expect(fold(GENERATION, used, trace(0, 3, 'doubling')).run!.trace).toBeNull();
  });

  test('has the codec that ranks chose, and removes the trace of the ring if this codec does not use the ring', () => {
    expect(fold(GENERATION, trace(0, 4), chosen('int8')).run).toMatchObject({
      choice: { codec: 'int8' },
      trace: { step: 0 },
    });
    expect(fold(GENERATION, trace(0, 4), chosen('powersgd')).run).toMatchObject({
      choice: { codec: 'powersgd' },
      trace: null,
    });
  });

  test('removes notes of the lobby when it begins, and keeps notes of the run in a new generation', () => {
    const note: EngineEvent = { type: 'note', message: 'The run cannot be saved.' };
    expect(fold(ADMITTED, ROOM, note).note).toEqual({ message: note.message });
    expect(fold(ADMITTED, ROOM, note, GENERATION).note).toBeNull();
    expect(fold(ADMITTED, ROOM, GENERATION, note, world(2, MEMBERS)).note).toEqual({ message: note.message });
  });

  test('keeps the reason of a suspension separate from notes, until this tab has a rank again or the run is over', () => {
    const suspended: EngineEvent = { type: 'suspended', message: 'No other tab reaches this tab.' };
    const during: EngineEvent = { ...ROOM, phase: 'RUNNING' };
    const saving: EngineEvent = { type: 'note', message: 'The run cannot be saved.' };
    expect(fold(ADMITTED, during, saving).suspension).toBeNull();
    expect(fold(ADMITTED, during, suspended, saving, during)).toMatchObject({
      suspension: { message: suspended.message },
      note: { message: saving.message },
    });
    expect(fold(ADMITTED, during, suspended, world(2, MEMBERS)).suspension).toBeNull();
    expect(fold(ADMITTED, during, suspended, ROOM).suspension).toBeNull();
  });

  test('is removed together with the shown failure when the user closes the failure', () => {
    const view = fold(ADMITTED, ROOM, GENERATION, { type: 'failed', name: 'TimeoutError', message: 'x', fatal: false });
    const shown = view.run!.number;
    expect(tabViewWithoutRun(view, shown)).toMatchObject({ run: null, failure: null, member: MEMBERS[1]!.member });
  });

  test('keeps a run that began while the user was closing the previous run', () => {
    const view = fold(ADMITTED, ROOM, GENERATION);
    expect(tabViewWithoutRun(view, view.run!.number - 1)).toBe(view);
  });
});

test('a flight recording is available after a failure until the next generation', () => {
  const recording: FlightRecording = {
    format: 'peergrad-flight-recording',
    version: 3,
    rank: 1,
    worldSize: 3,
    generation: 1,
    records: [],
    traces: [],
    lanes: [],
    clocks: [],
  };
  const view = fold(ADMITTED, GENERATION, { type: 'recording', recording }, failed(true));
  expect(view.recording).toBe(recording);
  expect(reduceTabView(view, { ...GENERATION, generation: 2 }).recording).toBeNull();
});

test('the first step ends the warm-up', () => {
  const warm = fold(GENERATION, { type: 'warmup', stage: 'compiling', message: 'compiling' });
  expect(warm.warmup).toBe('compiling');
  expect(reduceTabView(warm, stepEvent(0)).warmup).toBeNull();
});

test('the page stops showing the progress of shaders when the next stage of the warm-up begins', () => {
  const compiling = { type: 'warmup', stage: 'compiling', message: 'compiling' } as const;
  const half = fold(GENERATION, compiling, { ...compiling, shaders: { compiled: 2, total: 4 } });
  expect(half.shaders).toEqual({ compiled: 2, total: 4 });
  expect(reduceTabView(half, { type: 'warmup', stage: 'data', message: 'loading' }).shaders).toBeNull();
});

test('reduce changes neither the event nor the previous run', () => {
  const event = Object.freeze(stepEvent(0));
  const before = fold(GENERATION);
  Object.freeze(before.run);
  expect(() => reduceTabView(before, event)).not.toThrow();
});

test('a new generation shows the previous statistics of its remaining members until it has its own, and computes no rates from the previous ones', () => {
  const own = { dataMs: 0, computeMs: 1, communicateMs: 10, stepMs: 20, gradientBytesSent: 0, otherBytesSent: 0 };
  const ranksEvent = (step: number, ranks: number[]): EngineEvent => ({
    ...{ type: 'ranks', step },
    ranks: ranks.map((rank) => ({
      ...own,
      rank,
      dataMs: 0,
      computeMs: rank + 1,
      gradientBytesReceived: 0,
      memoryBytes: 0,
    })),
  });
  const next = { ...GENERATION, generation: 2, rank: 0, worldSize: 2, members: MEMBERS.slice(1) } as EngineEvent;
  const events = [ROOM, GENERATION, stepEvent(0), ranksEvent(3, [0, 1, 2]), next];
  const { run } = events.reduce(reduceTabView, initialTabView);
  expect(run!.statistics!.ranks.map(({ rank, computeMs }) => [rank, computeMs])).toEqual([
    [0, 2],
    [1, 3],
  ]);
  const later = [...events, ranksEvent(6, [0, 1])].reduce(reduceTabView, initialTabView);
  expect(later.run).toMatchObject({ statistics: { step: 6 }, earlierStatistics: null });
});
