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
  ...{ type: 'generation', generation: 1, run: 1, rank: 0, worldSize: 4, localRank: 0, localWorldSize: 4 },
  ...{ members: MEMBERS, job: DEFAULT_JOB },
};

function fold(...events: EngineEvent[]): View {
  return events.reduce(reduce, initialView);
}

function lobby(change: Partial<Lobby>): Lobby {
  return {
    ...{
      phase: 'FORMING',
      hosts: [MEMBERS[0]!.member],
      members: MEMBERS,
      spectators: [],
      job: DEFAULT_JOB,
      startAt: null,
    },
    ...{ nodes: { min: 1, max: 64 }, isLocked: false, isHeld: false, waitingFor: 0, ...change },
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

/** What the page says after these events. */
function said(...events: EngineEvent[]): string {
  return describeState(fold(...events)).text;
}

describe('rates', () => {
  const run = fold(GENERATION, ...[0, 1, 2, 3, 4].map(stepEvent)).run!;

  test('samples a second come from the time between steps', () => {
    expect(samplesPerSecond(run)).toBe(2000);
    expect(samplesPerSecond(fold(GENERATION, stepEvent(0)).run!)).toBe(2500);
    expect(samplesPerSecond(fold(GENERATION).run!)).toBeNull();
  });

  test('time left is the steps left at this pace', () => {
    expect(timeLeft(run, 25)).toBe(1000);
    expect(timeLeft(run, 5)).toBe(0);
    expect(timeLeft(run, null)).toBeNull();
  });

  test('a run ends by its time only where passes have no end of their own', () => {
    expect(endsByTimeOnly(parseJob({ job: 'gpt', maxMinutes: 15, maxSteps: null }))).toBe(true);
    expect(endsByTimeOnly(parseJob({ job: 'gpt', maxMinutes: 15, maxSteps: null, epochs: 2 }))).toBe(false);
    expect(endsByTimeOnly(parseJob({ maxMinutes: 15 }))).toBe(false);
    expect(endsByTimeOnly(parseJob({ job: 'gpt' }))).toBe(false);
  });

  test('communication is a share of the step, overlapped a share of the communication', () => {
    expect(communication(run)).toEqual({ share: 0.25, overlapped: 0.6 });
    expect(communication(fold(GENERATION).run!)).toBeNull();
  });

  test('an edge’s rate is what went over it in the time of its communication', () => {
    const lazyPage = fold(GENERATION, statistics(19, 1_000_000), statistics(39, 3_000_000));
    expect(edgeRates(lazyPage.run!)).toEqual([10, null, null, null]);
  });

  test('theory: 2(n-1)/n of the gradient for each step', () => {
    expect(theoreticalBytes(4, 1000, 10)).toBe(15_000);
    expect(theoreticalBytes(1, 1000, 10)).toBe(0);
  });
});

describe('agreement', () => {
  test('is unknown before the first comparison', () => {
    expect(agreement(null)).toEqual({ kind: 'unknown' });
    expect(agreement({ step: 1, hashes: ['a', 'a'], agree: true })).toEqual({ kind: 'agree' });
    expect(agreement({ step: 1, hashes: ['a', 'b'], agree: false })).toEqual({ kind: 'differ', ranks: [1] });
  });
});

test('neighbours are the ranks on both sides', () => {
  expect(neighbours(0, 4)).toEqual([1, 3]);
  expect(neighbours(1, 2)).toEqual([0]);
  expect(neighbours(0, 1)).toEqual([]);
});

describe('starting', () => {
  const [ada] = MEMBERS;

  test('needs the host; others may be left out, by name', () => {
    const unready = [member('Ada'), member('Grace', false)];
    expect(startObstacle(lobby({}), ada!.member)).toBeNull();
    expect(startObstacle(lobby({ members: unready }), ada!.member)).toBeNull();
    expect(startNote(lobby({ members: unready }))).toBe('Grace is not ready, and will join a little later.');
    expect(startNote(lobby({ members: unready, nodes: null }))).toBe('Grace is not ready, and would sit this run out.');
    const host = { members: [member('Ada', false), member('Grace')] };
    expect(startObstacle(lobby(host), ada!.member)).toContain('still getting ready');
    // Of several hosts each speaks for itself.
    expect(startObstacle(lobby(host), 'member-grace')).toBeNull();
    const table = lobby({ ...host, job: { ...DEFAULT_JOB, job: 'table', data: { kind: 'files' } } });
    expect(startObstacle(table, ada!.member)).toContain('Choose the data files');
    expect(startObstacle(table, ada!.member, { preview: null, problem: null })).toContain('getting ready');
    expect(startObstacle(table, ada!.member, { preview: null, problem: 'line 3' })).toContain('said above');
    expect(startNote(lobby({ members: [member('Ada')] }))).toContain('alone');
  });

  test('needs files, where the host hands them on', () => {
    const file = { name: 'a', size: 3, hash: '0'.repeat(16) };
    const of = (files: (typeof file)[]) => parseJob({ job: 'mnist', data: { kind: 'shared', files } });
    const members = [member('Ada', false)];
    expect(startObstacle(lobby({ job: of([]), members }), ada!.member)).toContain('Choose the data files');
    expect(startObstacle(lobby({ job: of([file]), members }), ada!.member)).toContain('still getting ready');
  });

  test('may be led by who only watches, once somebody trains', () => {
    const spectators = [{ member: 'wu', name: 'Wu' }];
    expect(startObstacle(lobby({ spectators, members: [] }), 'wu')).toContain('this tab only watches');
    expect(startObstacle(lobby({ spectators, members: [ada!] }), 'wu')).toBeNull();
    expect(startNote(lobby({ spectators, members: [ada!] }))).toMatch(/^One tab can start alone/);
  });

  test('needs as many as the room says', () => {
    const few = lobby({ members: [ada!], nodes: { min: 2, max: 4 } });
    expect(startObstacle(few, ada!.member)).toBe('A run here takes 2 tabs, and 1 is ready.');
    expect(startObstacle({ ...few, job: parseJob({ strategy: 'diloco' }) }, ada!.member)).toBeNull();
  });

  test('says whether one may come later', () => {
    expect(startNote(lobby({}))).toBe('All 4 tabs are ready. Who comes later joins while it trains.');
    const lazyPage = 'All 4 tabs are ready. Who comes later can join when the run has ended.';
    expect(startNote(lobby({ nodes: null }))).toBe(lazyPage);
    expect(startNote(lobby({ job: parseJob({ strategy: 'local-sgd' }) }))).toBe(lazyPage);
  });

  test('workers in one tab start from one tab only', () => {
    const job = parseJob({ strategy: 'data-parallel', replicas: 3 });
    const both = [ada!, member('Grace')];
    expect(startObstacle(lobby({ job, members: both }), ada!.member)).toMatch(/2 tabs are ready: choose another/);
    expect(startObstacle(lobby({ job, members: [ada!, member('Grace', false)] }), ada!.member)).toBeNull();
    expect(startNote(lobby({ job, members: [ada!] }))).toBe('This tab starts 3 workers.');
  });

  test('by itself counts those who are ready', () => {
    expect(missingToStart(lobby({}))).toBeNull();
    expect(missingToStart(lobby({ startAt: 6 }))).toBe(2);
    expect(missingToStart(lobby({ startAt: 2 }))).toBe(0);
  });
});

const GRACE: EngineEvent = { type: 'admitted', member: 'member-grace', room: 'K7F3QX', hostKey: null };

function spread(generation: number, held: number[]): EngineEvent {
  return { type: 'file-distribution', generation, total: 9, held };
}

describe('spoken states', () => {
  test('say what is compiled, and when training is on', () => {
    const warm: EngineEvent = { type: 'warmup', stage: 'compiling', message: 'Compiling' };
    expect(said(GENERATION, state('SYNCING'), warm)).toBe('warming up: compiling the model for this GPU');
    expect(said(GENERATION, warm, state('RUNNING'))).toBe('training');
    const connecting = [
      { rank: 3, isRelayed: false },
      { rank: 1, isRelayed: true },
    ];
    expect(said(GENERATION, state('RUNNING', { connecting }))).toBe('training; others are joining');
    expect(said(GENERATION, state('RUNNING', { isServerAway: true }))).toContain('the signaling server is away');
    expect(said(state('LINKING', { connecting }))).toBe('connecting to rank 3 and rank 1 over a relay');
  });

  test('say that files go round, until all ranks have them', () => {
    const begun = [GENERATION, state('SYNCING'), spread(1, [9, 4, 0, 0])];
    expect(said(...begun)).toBe('syncing: the files go from tab to tab');
    // What is left of a generation that is over says nothing of this one.
    expect(said(...begun, spread(0, [9, 9, 9, 9]))).toBe('syncing: the files go from tab to tab');
    expect(said(...begun, spread(1, [9, 9, 9, 9]))).toBe('syncing: all must start from the same numbers');
  });

  test('say for whom a lobby waits', () => {
    expect(said(GRACE, state('WAITING'), room({}))).toBe('waiting for the host to start');
    expect(said(GRACE, state('WAITING'), room({ startAt: 5 }))).toBe('waiting for 1 more tab');
    const ada: EngineEvent = { ...GRACE, member: MEMBERS[0]!.member };
    expect(said(ada, state('WAITING'), room({}))).toBe('waiting for you to start');
  });

  test('say what a newcomer waits for while others train', () => {
    const newcomer = [GRACE, state('WAITING')];
    const warm: EngineEvent = { type: 'warmup', stage: 'drawing', message: 'Drawing digits' };
    const unready: Partial<Lobby> = { phase: 'RUNNING', members: [member('Ada'), member('Grace', false)] };
    expect(said(...newcomer, room(unready))).toBe('waiting to get ready');
    expect(said(...newcomer, room(unready), warm)).toBe('warming up: drawing digits');
    // What it made ready stays so.
    expect(said(...newcomer, warm, room({ phase: 'RUNNING' }))).toBe('waiting to join the run');
    expect(said(...newcomer, room({ phase: 'RUNNING', nodes: { min: 1, max: 3 } }))).toContain('for a place');
    expect(said(...newcomer, room({ phase: 'PAUSED', waitingFor: 2 }))).toBe('waiting for 2 more tabs');
    expect(said(...newcomer, room({ phase: 'RUNNING', nodes: null }))).toContain('for the next start');
  });

  test('say why a run that has begun does not go on', () => {
    const inRun = [GRACE, GENERATION, stepEvent(0)];
    const rest = MEMBERS.filter(({ name }) => name !== 'Edsger');
    const gone = room({ phase: 'LINKING', members: rest });
    expect(said(...inRun, state('WAITING'), gone)).toBe('rejoining: rank 2 left, finding together again');
    expect(said(...inRun, state('LINKING'), gone)).toBe('rejoining: rank 2 left, finding together again');
    expect(said(...inRun, state('LINKING'), room({ phase: 'LINKING' }))).toBe('rejoining: finding together again');
    const paused = room({ phase: 'PAUSED', waitingFor: 1, members: rest });
    expect(said(...inRun, state('WAITING'), paused)).toBe('paused: waiting for 1 more tab');
    const held = room({ phase: 'PAUSED', isHeld: true, members: rest });
    expect(said(...inRun, state('WAITING'), held)).toBe('paused by the host');
    const letGo = room({ phase: 'RUNNING', members: [member('Ada'), member('Grace', false)] });
    expect(said(...inRun, state('WAITING'), letGo)).toMatch(/^coming back: this tab was let go/);
    expect(said(...inRun, state('WAITING', { isServerAway: true }), room({}))).toContain(
      'the signaling server is away',
    );
  });

  test('are of somebody else where this tab only watches', () => {
    const watcher: EngineEvent = { type: 'admitted', member: 'wu', room: 'AAAAAA', hostKey: null };
    const spectators = [{ member: 'wu', name: 'Wu' }];
    const inRun = [watcher, GENERATION, stepEvent(0), state('WAITING')];
    expect(said(watcher, state('WAITING'), room({ spectators }))).toBe('watching: nothing trains yet');
    expect(said(...inRun, room({ spectators, phase: 'RUNNING' }))).toBe('watching');
    expect(said(...inRun, room({ spectators, phase: 'PAUSED', isHeld: true }))).toBe('paused by the host');
    const view = fold(...inRun, room({ spectators, phase: 'RUNNING' }));
    expect([ownRank(view, view.run!), isTraining(view)]).toEqual([null, true]);
    const trainer = fold(GRACE, GENERATION, state('WAITING'), room({ spectators, phase: 'RUNNING' }));
    expect([ownRank(trainer, trainer.run!), isTraining(trainer)]).toEqual([0, false]);
  });

  test('are over with the run', () => {
    const stopped: EngineEvent = { type: 'failed', name: 'PeergradError', message: 'x', fatal: false };
    expect(said(GRACE, GENERATION, room({}), state('WAITING'), stopped)).toBe('stopped');
    const finished: EngineEvent = { type: 'finished', result: RESULT };
    expect(said(GRACE, GENERATION, room({ phase: 'LINKING' }), state('WAITING'), finished)).toBe('finished');
  });
});

describe('a room that trains, from its lobby', () => {
  test.each<[Partial<Lobby>, RankState, string]>([
    [{ nodes: null }, 'WAITING', 'This room is training: you can join its next run.'],
    [{}, 'LINKING', 'Connecting: this tab trains in a moment.'],
    [
      { phase: 'PAUSED', waitingFor: 1 },
      'WAITING',
      'This room’s run is paused: it goes on when 1 more tab can take part.',
    ],
    [
      { members: [member('Ada'), member('Grace', false)] },
      'WAITING',
      'This room is training: you will join once this tab is ready.',
    ],
    [
      { nodes: { min: 1, max: 2 } },
      'WAITING',
      'This room is training with as many tabs as it may: you will join when one leaves.',
    ],
    [{}, 'WAITING', 'This room is training: you will join in a moment.'],
  ])('says when this tab will train: %o, %s', (change, name, sentence) => {
    const view = fold(GRACE, state(name), room({ phase: 'RUNNING', ...change }));
    expect(runFromOutside(view, view.lobby!)).toBe(sentence);
  });
});

test('ranks that have left are known by their absence from the room, until the run is over', () => {
  const view = fold(GENERATION, room({ members: MEMBERS.slice(1) }));
  expect(goneRanks(view.run!, view.lobby)).toEqual([0]);
  expect(goneRanks({ ...view.run!, result: RESULT }, view.lobby)).toEqual([]);
});

test('a tab that nobody looks at is called by how far it is', () => {
  const training = fold(GRACE, room({ phase: 'RUNNING' }), GENERATION, stepEvent(119), state('RUNNING'));
  const sizes = { parameters: 1, gradientBytes: 4, bucketBytes: [4], totalSteps: 315, trainSamples: 1, testSamples: 1 };
  const view = reduce(training, { type: 'model', ...sizes });
  expect(titleOf(view, 'K7F3QX', true)).toBe('Step 120 of 315, training in the background · K7F-3QX · peergrad');
  expect(titleOf(view, 'K7F3QX', false)).toBe('K7F-3QX · peergrad');
  const done = fold(GRACE, GENERATION, state('WAITING'), { type: 'finished', result: RESULT });
  expect(titleOf(done, 'K7F3QX', true)).toBe('Finished · K7F-3QX · peergrad');
  expect(titleOf(initialView, null, true)).toContain('train one model');
});
