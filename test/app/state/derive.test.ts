import { describe, expect, test } from 'vitest';
import {
  agreement,
  edgeRates,
  endsByTimeOnly,
  goneRanks,
  isTraining,
  missingToStart,
  neighbours,
  ownRank,
  samplesPerSecond,
  communication,
  theoreticalBytes,
  timeLeft,
} from '../../../src/app/state/derive.ts';
import { runFromOutside, startNote, startObstacle } from '../../../src/app/state/lobbyNotes.ts';
import { describeState } from '../../../src/app/state/describeState.ts';
import { titleOf } from '../../../src/app/state/title.ts';
import { initialView, reduce, type View } from '../../../src/app/state/view.ts';
import type { Lobby } from '../../../src/app/state/room.ts';
import type { EngineEvent, RankState, RankStatus } from '../../../src/protocol/events.ts';
import { DEFAULT_JOB, parseJob } from '../../../src/spec/job.ts';
import { member, RESULT, stepEvent } from '../events.ts';

const MEMBERS = [member('Ada'), member('Grace'), member('Edsger'), member('Barbara')];
const GENERATION: EngineEvent = {
  type: 'generation',
  generation: 1,
  run: 1,
  rank: 0,
  worldSize: 4,
  localRank: 0,
  localWorldSize: 4,
  members: MEMBERS,
  job: DEFAULT_JOB,
};

function fold(...events: EngineEvent[]): View {
  return events.reduce(reduce, initialView);
}

function lobby(change: Partial<Lobby>): Lobby {
  return {
    phase: 'FORMING',
    hosts: [MEMBERS[0]!.member],
    members: MEMBERS,
    spectators: [],
    job: DEFAULT_JOB,
    startAt: null,
    nodes: { min: 1, max: 64 },
    isLocked: false,
    isPausedByHost: false,
    waitingFor: 0,
    ...change,
  };
}

function statistics(step: number, gradientBytesSent: number): EngineEvent {
  const ranks = [
    {
      rank: 0,
      computeMs: 1,
      communicateMs: 10,
      stepMs: 20,
      gradientBytesSent,
      gradientBytesReceived: 0,
      otherBytesSent: 0,
      memoryBytes: 0,
    },
  ];
  return { type: 'ranks', step, ranks };
}

function state(name: RankState, change: Partial<RankStatus> = {}): EngineEvent {
  return { type: 'state', state: name, generation: 1, detail: '', isServerAway: false, connecting: [], ...change };
}

function room(change: Partial<Lobby>): EngineEvent {
  const { members, spectators, ...rest } = lobby(change);
  return { type: 'room', ...rest, members: [...members], spectators: [...spectators] };
}

/** Returns the text of the state after these events. */
function textAfter(...events: EngineEvent[]): string {
  return describeState(fold(...events)).text;
}

describe('the statistics of a run', () => {
  const run = fold(GENERATION, ...[0, 1, 2, 3, 4].map(stepEvent)).run!;

  test('have samples per second, computed from the time between steps', () => {
    expect(samplesPerSecond(run)).toBe(2000);
    expect(samplesPerSecond(fold(GENERATION, stepEvent(0)).run!)).toBe(2500);
    expect(samplesPerSecond(fold(GENERATION).run!)).toBeNull();
  });

  test('have the time left, computed from the number of steps left', () => {
    expect(timeLeft(run, 25)).toBe(1000);
    expect(timeLeft(run, 5)).toBe(0);
    expect(timeLeft(run, null)).toBeNull();
  });

  test('say whether only the time ends the run, because the job has neither epochs nor a maximum of steps', () => {
    expect(endsByTimeOnly(parseJob({ job: 'gpt', maxMinutes: 15, maxSteps: null }))).toBe(true);
    expect(endsByTimeOnly(parseJob({ job: 'gpt', maxMinutes: 15, maxSteps: null, epochs: 2 }))).toBe(false);
    expect(endsByTimeOnly(parseJob({ maxMinutes: 15 }))).toBe(false);
    expect(endsByTimeOnly(parseJob({ job: 'gpt' }))).toBe(false);
  });

  test('have the share of communication in a step, and the share of overlapped communication in all communication', () => {
    expect(communication(run)).toEqual({ share: 0.25, overlapped: 0.6 });
    expect(communication(fold(GENERATION).run!)).toBeNull();
  });

  test('have the rate of an edge: its bytes divided by the time of communication', () => {
    const later = fold(GENERATION, statistics(19, 1_000_000), statistics(39, 3_000_000));
    expect(edgeRates(later.run!)).toEqual([10, null, null, null]);
  });

  test('have the bytes that theory predicts: 2(n-1)/n times the gradient bytes, for each step', () => {
    expect(theoreticalBytes(4, 1000, 10)).toBe(15_000);
    expect(theoreticalBytes(1, 1000, 10)).toBe(0);
  });
});

describe('the agreement of state hashes', () => {
  test('is unknown before the first comparison, and names the ranks that differ afterwards', () => {
    expect(agreement(null)).toEqual({ kind: 'unknown' });
    expect(agreement({ step: 1, hashes: ['a', 'a'], agree: true })).toEqual({ kind: 'agree' });
    expect(agreement({ step: 1, hashes: ['a', 'b'], agree: false })).toEqual({ kind: 'differ', ranks: [1] });
  });
});

test('the neighbours of a rank are the ranks on both sides in the ring', () => {
  expect(neighbours(0, 4)).toEqual([1, 3]);
  expect(neighbours(1, 2)).toEqual([0]);
  expect(neighbours(0, 1)).toEqual([]);
});

describe('the start of a run', () => {
  const [ada] = MEMBERS;

  test('requires that the host is ready, and a note names other tabs that are not ready', () => {
    const unready = [member('Ada'), member('Grace', false)];
    expect(startObstacle(lobby({}), ada!.member)).toBeNull();
    expect(startObstacle(lobby({ members: unready }), ada!.member)).toBeNull();
    expect(startNote(lobby({ members: unready }))).toBe('Grace is not ready and will join later.');
    expect(startNote(lobby({ members: unready, nodes: null }))).toBe('Grace is not ready and would miss this run.');
    const host = { members: [member('Ada', false), member('Grace')] };
    expect(startObstacle(lobby(host), ada!.member)).toContain('still getting ready');
    // If there are several hosts, each host has its own obstacles.
    expect(startObstacle(lobby(host), 'member-grace')).toBeNull();
    const table = lobby({ ...host, job: { ...DEFAULT_JOB, job: 'table', data: { kind: 'files' } } });
    expect(startObstacle(table, ada!.member)).toContain('Choose the data files');
    expect(startObstacle(table, ada!.member, { preview: null, problem: null })).toContain('getting ready');
    expect(startObstacle(table, ada!.member, { preview: null, problem: 'line 3' })).toContain('error above');
    expect(startNote(lobby({ members: [member('Ada')] }))).toContain('alone');
  });

  test('requires the files that the host shares', () => {
    const file = { name: 'a', size: 3, hash: '0'.repeat(16) };
    const of = (files: (typeof file)[]) => parseJob({ job: 'mnist', data: { kind: 'shared', files } });
    const members = [member('Ada', false)];
    expect(startObstacle(lobby({ job: of([]), members }), ada!.member)).toContain('Choose the data files');
    expect(startObstacle(lobby({ job: of([file]), members }), ada!.member)).toContain('still getting ready');
  });

  test('requires a tab that trains if the host only watches', () => {
    const spectators = [{ member: 'wu', name: 'Wu' }];
    expect(startObstacle(lobby({ spectators, members: [] }), 'wu')).toContain('This tab only watches');
    expect(startObstacle(lobby({ spectators, members: [ada!] }), 'wu')).toBeNull();
    expect(startNote(lobby({ spectators, members: [ada!] }))).toMatch(/^One tab can start alone/);
  });

  test('requires the minimum number of tabs of the room', () => {
    const few = lobby({ members: [ada!], nodes: { min: 2, max: 4 } });
    expect(startObstacle(few, ada!.member)).toBe('A run needs at least 2 tabs; 1 is ready.');
    expect(startObstacle({ ...few, job: parseJob({ strategy: 'diloco' }) }, ada!.member)).toBeNull();
  });

  test('comes with a note that says whether tabs may join later', () => {
    expect(startNote(lobby({}))).toBe('All 4 tabs are ready. Tabs that arrive later join the run.');
    const later = 'All 4 tabs are ready. Tabs that arrive later can join after the run.';
    expect(startNote(lobby({ nodes: null }))).toBe(later);
    expect(startNote(lobby({ job: parseJob({ strategy: 'local-sgd' }) }))).toBe(later);
  });

  test('requires that only one tab is ready if the strategy is data-parallel', () => {
    const job = parseJob({ strategy: 'data-parallel', replicas: 3 });
    const both = [ada!, member('Grace')];
    expect(startObstacle(lobby({ job, members: both }), ada!.member)).toMatch(/needs a single tab, and 2 are ready/);
    expect(startObstacle(lobby({ job, members: [ada!, member('Grace', false)] }), ada!.member)).toBeNull();
    expect(startNote(lobby({ job, members: [ada!] }))).toBe('This tab starts 3 workers.');
  });

  test('is automatic if the room sets a number of tabs, and missingToStart counts the tabs that are not ready yet', () => {
    expect(missingToStart(lobby({}))).toBeNull();
    expect(missingToStart(lobby({ startAt: 6 }))).toBe(2);
    expect(missingToStart(lobby({ startAt: 2 }))).toBe(0);
  });
});

const GRACE: EngineEvent = { type: 'admitted', member: 'member-grace', room: 'K7F3QX', hostKey: null };

function distributing(generation: number, bytesPerRank: number[]): EngineEvent {
  return { type: 'file-distribution', generation, total: 9, bytesPerRank };
}

describe('the state in words', () => {
  test('names the stage of the warm-up, and later says that the tab trains', () => {
    const warm: EngineEvent = { type: 'warmup', stage: 'compiling', message: 'Compiling' };
    expect(textAfter(GENERATION, state('SYNCING'), warm)).toBe('warming up: compiling the model for this device');
    expect(textAfter(GENERATION, warm, state('RUNNING'))).toBe('training');
    const connecting = [
      { rank: 3, isRelayed: false },
      { rank: 1, isRelayed: true },
    ];
    expect(textAfter(GENERATION, state('RUNNING', { connecting }))).toBe('training; others are joining');
    expect(textAfter(GENERATION, state('RUNNING', { isServerAway: true }))).toContain('the signaling server is away');
    expect(textAfter(state('LINKING', { connecting }))).toBe('connecting to rank 3 and rank 1 over a relay');
  });

  test('names file distribution until all ranks have the files', () => {
    const begun = [GENERATION, state('SYNCING'), distributing(1, [9, 4, 0, 0])];
    expect(textAfter(...begun)).toBe('syncing: files are distributed from tab to tab');
    // Late events of an earlier generation are ignored.
    expect(textAfter(...begun, distributing(0, [9, 9, 9, 9]))).toBe('syncing: files are distributed from tab to tab');
    expect(textAfter(...begun, distributing(1, [9, 9, 9, 9]))).toBe(
      'syncing: all ranks must start from the same state',
    );
  });

  test('names the tabs that the lobby waits for', () => {
    expect(textAfter(GRACE, state('WAITING'), room({}))).toBe('waiting for the host to start');
    expect(textAfter(GRACE, state('WAITING'), room({ startAt: 5 }))).toBe('waiting for 1 more tab');
    const ada: EngineEvent = { ...GRACE, member: MEMBERS[0]!.member };
    expect(textAfter(ada, state('WAITING'), room({}))).toBe('waiting for you to start');
  });

  test('names the reason why a newcomer waits while others train', () => {
    const newcomer = [GRACE, state('WAITING')];
    const warm: EngineEvent = { type: 'warmup', stage: 'generating', message: 'Generating digits' };
    const unready: Partial<Lobby> = { phase: 'RUNNING', members: [member('Ada'), member('Grace', false)] };
    expect(textAfter(...newcomer, room(unready))).toBe('waiting to get ready');
    expect(textAfter(...newcomer, room(unready), warm)).toBe('warming up: generating digits');
    // A tab that was ready before is still ready.
    expect(textAfter(...newcomer, warm, room({ phase: 'RUNNING' }))).toBe('waiting to join the run');
    expect(textAfter(...newcomer, room({ phase: 'RUNNING', nodes: { min: 1, max: 3 } }))).toContain('for a place');
    expect(textAfter(...newcomer, room({ phase: 'PAUSED', waitingFor: 2 }))).toBe('waiting for 2 more tabs');
    expect(textAfter(...newcomer, room({ phase: 'RUNNING', nodes: null }))).toContain('for the next start');
  });

  test('is "connecting" and no longer "warming up" when a newcomer is ready and opens links', () => {
    const warm: EngineEvent = { type: 'warmup', stage: 'compiling', message: 'Compiling' };
    const before = room({ phase: 'RUNNING', members: [member('Ada'), member('Grace', false)] });
    const linking = state('LINKING', { connecting: [{ rank: 0, isRelayed: false }] });
    const events = [GRACE, state('WAITING'), before, warm, room({ phase: 'LINKING' }), linking];
    expect(textAfter(...events)).toBe('connecting to rank 0');
    // In a run that begins in the lobby, the model is compiled after all tabs are ready.
    expect(textAfter(...events, warm, room({ phase: 'LINKING' }))).toContain('warming up');
  });

  test('names the reason why a run is interrupted', () => {
    const inRun = [GRACE, GENERATION, stepEvent(0)];
    const rest = MEMBERS.filter(({ name }) => name !== 'Edsger');
    const gone = room({ phase: 'LINKING', members: rest });
    expect(textAfter(...inRun, state('WAITING'), gone)).toBe('rejoining: rank 2 left, reopening links');
    expect(textAfter(...inRun, state('LINKING'), gone)).toBe('rejoining: rank 2 left, reopening links');
    expect(textAfter(...inRun, state('LINKING'), room({ phase: 'LINKING' }))).toBe('rejoining: reopening links');
    const paused = room({ phase: 'PAUSED', waitingFor: 1, members: rest });
    expect(textAfter(...inRun, state('WAITING'), paused)).toBe('paused: waiting for 1 more tab');
    const held = room({ phase: 'PAUSED', isPausedByHost: true, members: rest });
    expect(textAfter(...inRun, state('WAITING'), held)).toBe('paused by the host');
    const letGo = room({ phase: 'RUNNING', members: [member('Ada'), member('Grace', false)] });
    expect(textAfter(...inRun, state('WAITING'), letGo)).toMatch(/^reconnecting: this tab was dropped/);
    expect(textAfter(...inRun, state('WAITING', { isServerAway: true }), room({}))).toContain(
      'the signaling server is away',
    );
  });

  test('describes the run of others if this tab only watches', () => {
    const watcher: EngineEvent = { type: 'admitted', member: 'wu', room: 'AAAAAA', hostKey: null };
    const spectators = [{ member: 'wu', name: 'Wu' }];
    const inRun = [watcher, GENERATION, stepEvent(0), state('WAITING')];
    expect(textAfter(watcher, state('WAITING'), room({ spectators }))).toBe('watching: no run yet');
    expect(textAfter(...inRun, room({ spectators, phase: 'RUNNING' }))).toBe('watching');
    expect(textAfter(...inRun, room({ spectators, phase: 'PAUSED', isPausedByHost: true }))).toBe('paused by the host');
    const view = fold(...inRun, room({ spectators, phase: 'RUNNING' }));
    expect([ownRank(view, view.run!), isTraining(view)]).toEqual([null, true]);
    const trainer = fold(GRACE, GENERATION, state('WAITING'), room({ spectators, phase: 'RUNNING' }));
    expect([ownRank(trainer, trainer.run!), isTraining(trainer)]).toEqual([0, false]);
  });

  test('is "stopped" after a failure of the run, and "finished" after its result', () => {
    const stopped: EngineEvent = { type: 'failed', name: 'PeergradError', message: 'x', fatal: false };
    expect(textAfter(GRACE, GENERATION, room({}), state('WAITING'), stopped)).toBe('stopped');
    const finished: EngineEvent = { type: 'finished', result: RESULT };
    expect(textAfter(GRACE, GENERATION, room({ phase: 'LINKING' }), state('WAITING'), finished)).toBe('finished');
  });
});

describe('the lobby of a room in which others train', () => {
  test.each<[Partial<Lobby>, RankState, string]>([
    [{ nodes: null }, 'WAITING', 'This room is training. You can join its next run.'],
    [{}, 'LINKING', 'Connecting. This tab will train in a moment.'],
    [{ phase: 'PAUSED', waitingFor: 1 }, 'WAITING', 'The run is paused. It resumes when 1 more tab can take part.'],
    [
      { members: [member('Ada'), member('Grace', false)] },
      'WAITING',
      'This room is training. You will join when this tab is ready.',
    ],
    [{ nodes: { min: 1, max: 2 } }, 'WAITING', 'This room is training and full. You will join when a tab leaves.'],
    [{}, 'WAITING', 'This room is training. You will join in a moment.'],
  ])('states when this tab will train, for a lobby with %o and the state %s', (change, name, sentence) => {
    const view = fold(GRACE, state(name), room({ phase: 'RUNNING', ...change }));
    expect(runFromOutside(view, view.lobby!)).toBe(sentence);
  });
});

test('a rank counts as gone if its member is not in the room and the run is not over', () => {
  const view = fold(GENERATION, room({ members: MEMBERS.slice(1) }));
  expect(goneRanks(view.run!, view.lobby)).toEqual([0]);
  expect(goneRanks({ ...view.run!, result: RESULT }, view.lobby)).toEqual([]);
});

test('the title of a hidden tab shows the progress of the run', () => {
  const training = fold(GRACE, room({ phase: 'RUNNING' }), GENERATION, stepEvent(119), state('RUNNING'));
  const sizes = { parameters: 1, gradientBytes: 4, bucketBytes: [4], totalSteps: 315, trainSamples: 1, testSamples: 1 };
  const view = reduce(training, { type: 'model', ...sizes });
  expect(titleOf(view, 'K7F3QX', true)).toBe('Step 120 of 315, training in the background · K7F-3QX · peergrad');
  expect(titleOf(view, 'K7F3QX', false)).toBe('K7F-3QX · peergrad');
  const done = fold(GRACE, GENERATION, state('WAITING'), { type: 'finished', result: RESULT });
  expect(titleOf(done, 'K7F3QX', true)).toBe('Finished · K7F-3QX · peergrad');
  expect(titleOf(initialView, null, true)).toContain('train one model');
});
