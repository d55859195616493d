import { describe, expect, test } from 'vitest';
import { countTabsMissingToStart } from '../../../src/app/state/derive.ts';
import {
  describeRunForLobby,
  noteOnServedPairs,
  noteOnReadyMembers,
  whyHostCannotStart,
} from '../../../src/app/state/lobbyNotes.ts';
import type { LobbyView } from '../../../src/app/state/room.ts';
import type { RankState } from '../../../src/protocol/events.ts';
import { DEFAULT_JOB, parseJob } from '../../../src/spec/job.ts';
import { member } from '../events.ts';
import { fold, GRACE, lobby, MEMBERS, room, state } from './roomOfFour.ts';

describe('the start of a run', () => {
  const [ada] = MEMBERS;

  test('requires that the host is ready; a note names other tabs that are not ready', () => {
    const unready = [member('Ada'), member('Grace', false)];
    expect(whyHostCannotStart(lobby({}), ada!.member)).toBeNull();
    expect(whyHostCannotStart(lobby({ members: unready }), ada!.member)).toBeNull();
    expect(noteOnReadyMembers(lobby({ members: unready }))).toBe('Grace is not ready and will join later.');
    expect(noteOnReadyMembers(lobby({ members: unready, nodes: null }))).toBe(
      'Grace is not ready and would miss this run.',
    );
    const host = { members: [member('Ada', false), member('Grace')] };
    expect(whyHostCannotStart(lobby(host), ada!.member)).toContain('still getting ready');
    // If there are several hosts, each host has its own obstacles.
    expect(whyHostCannotStart(lobby(host), 'member-grace')).toBeNull();
    const table = lobby({ ...host, job: { ...DEFAULT_JOB, job: 'table', data: { kind: 'files' } } });
    expect(whyHostCannotStart(table, ada!.member)).toContain('Choose the data files');
    expect(whyHostCannotStart(table, ada!.member, { preview: null, problem: null })).toContain('getting ready');
    expect(whyHostCannotStart(table, ada!.member, { preview: null, problem: 'line 3' })).toContain('error above');
    expect(noteOnReadyMembers(lobby({ members: [member('Ada')] }))).toContain('alone');
  });

  test('requires the files that the host shares', () => {
    const file = { name: 'a', size: 3, hash: '0'.repeat(16) };
    const of = (files: (typeof file)[]) => parseJob({ job: 'mnist', data: { kind: 'shared', files } });
    const members = [member('Ada', false)];
    expect(whyHostCannotStart(lobby({ job: of([]), members }), ada!.member)).toContain('Choose the data files');
    expect(whyHostCannotStart(lobby({ job: of([file]), members }), ada!.member)).toContain('still getting ready');
  });

  test('requires a tab that trains if the host only watches', () => {
    const spectators = [{ member: 'wu', name: 'Wu' }];
    expect(whyHostCannotStart(lobby({ spectators, members: [] }), 'wu')).toContain('This tab only watches');
    expect(whyHostCannotStart(lobby({ spectators, members: [ada!] }), 'wu')).toBeNull();
    expect(noteOnReadyMembers(lobby({ spectators, members: [ada!] }))).toMatch(/^One tab can start alone/);
  });

  test('requires the minimum number of tabs of the room', () => {
    const few = lobby({ members: [ada!], nodes: { min: 2, max: 4 } });
    expect(whyHostCannotStart(few, ada!.member)).toBe('A run needs at least 2 tabs; 1 is ready.');
    expect(whyHostCannotStart({ ...few, job: parseJob({ strategy: 'parameter-server' }) }, ada!.member)).toBeNull();
  });

  test('comes with a note that says whether tabs may join later', () => {
    expect(noteOnReadyMembers(lobby({}))).toBe('All 4 tabs are ready. Tabs that arrive after the start join the run.');
    const later = 'All 4 tabs are ready. Tabs that arrive after the start can join when the run has ended.';
    expect(noteOnReadyMembers(lobby({ nodes: null }))).toBe(later);
    expect(noteOnReadyMembers(lobby({ job: parseJob({ strategy: 'parameter-server' }) }))).toBe(later);
  });

  test('requires a number of tabs that the algorithm can divide into groups', () => {
    const seven = Array.from({ length: 7 }, (_, i) => member(`Tab ${i}`));
    const of = (algorithm: string, strategy = 'ddp') =>
      whyHostCannotStart(lobby({ job: parseJob({ algorithm, strategy }), members: seven }), seven[0]!.member);
    expect(of('two-level')).toMatch(/equal size, but 7 tabs cannot be divided.* Choose another algorithm/);
    expect(of('ring')).toBeNull();
    expect(of('two-level', 'parameter-server')).toBeNull();
    const six = lobby({ job: parseJob({ algorithm: 'two-level' }), members: seven.slice(1) });
    expect(whyHostCannotStart(six, seven[1]!.member)).toBeNull();
  });

  test('is automatic if the room sets a number of tabs; countTabsMissingToStart returns how many more tabs must be ready', () => {
    expect(countTabsMissingToStart(lobby({}))).toBeNull();
    expect(countTabsMissingToStart(lobby({ startAt: 6 }))).toBe(2);
    expect(countTabsMissingToStart(lobby({ startAt: 2 }))).toBe(0);
  });
});

describe('the lobby of a room with a run', () => {
  test.each<[Partial<LobbyView>, RankState, string]>([
    [{ nodes: null }, 'WAITING', 'This room is training. You can join its next run.'],
    [{}, 'LINKING', 'Connecting. This tab will train in a moment.'],
    [{ phase: 'PAUSED', waitingFor: 1 }, 'WAITING', 'The run is paused. It resumes when 1 more tab can take part.'],
    [
      { members: [member('Ada'), member('Grace', false)] },
      'WAITING',
      'This room is training. You will join when this tab is ready.',
    ],
    [
      { nodes: { min: 1, max: 2 } },
      'WAITING',
      'This room is training. The run is full: you will join when a tab leaves.',
    ],
    [{}, 'WAITING', 'This room is training. You will join in a moment.'],
    [{ phase: 'SYNCING' }, 'WAITING', 'This room is getting ready to train. You will join in a moment.'],
    [{ phase: 'LINKING', nodes: null }, 'WAITING', 'This room is getting ready to train. You can join its next run.'],
    [{ phase: 'LINKING', nodes: null }, 'LINKING', 'Connecting. This tab will train in a moment.'],
    [{ phase: 'SYNCING', nodes: null }, 'SYNCING', 'This tab is getting ready. It will then train.'],
    [{ phase: 'SYNCING' }, 'SYNCING', 'This tab is getting ready. It will then train.'],
  ])('states when this tab will train (lobby: %o, state: %s)', (change, name, sentence) => {
    const view = fold(GRACE, state(name), room({ phase: 'RUNNING', ...change }));
    expect(describeRunForLobby(view, view.lobby!)).toBe(sentence);
  });

  test.each<[LobbyView['phase'], string]>([
    ['SYNCING', 'This room is getting ready to train. You will see the run in a moment.'],
    ['RUNNING', 'This room is training. You will see the run in a moment.'],
    ['PAUSED', 'The run of this room is paused. You will see the run in a moment.'],
  ])('states for a spectator what the room does in the phase %s', (phase, sentence) => {
    const spectators = [{ member: GRACE.member, name: 'Grace' }];
    const view = fold(GRACE, state('WAITING'), room({ phase, spectators, members: [member('Ada')] }));
    expect(describeRunForLobby(view, view.lobby!)).toBe(sentence);
  });
});

const served = (pairs: number, change: Partial<LobbyView> = {}, areAll = false): string | null =>
  noteOnServedPairs(lobby({ served: { pairs, areAll, bytesPerSecond: 1e6 }, ...change }));

describe('the note about links through the server', () => {
  test('is missing if no pair is known to need the server', () => {
    expect([noteOnServedPairs(lobby({})), served(0)]).toEqual([null, null]);
  });

  test('says how many pairs there are, how long the server needs for a step, and what helps', () => {
    const job = parseJob({ job: 'digits', model: 'mlp', hidden: 64 });
    // An mlp with 64 hidden units has 50 890 parameters. Each rank sends 6/4 of them.
    expect(served(2, { job })).toBe(
      'The data of 2 of 4 pairs of neighbours will go through the server. ' +
        'In each step, the server forwards 611 kB of gradients. This takes at least 611 ms, because all rooms share its rate of 1.0 MB/s. ' +
        'These tabs could not connect directly. A network without client isolation helps, or a TURN server (--turn).',
    );
    // The only pair of two tabs sends in both directions.
    expect(served(1, { job, members: MEMBERS.slice(0, 2) })).toMatch(
      /^The data of the two tabs will go through the server\. In each step, the server forwards 407 kB/,
    );
  });

  test('names the option if the server forwards the data of all pairs', () => {
    expect(served(4, {}, true)).toMatch(/^The data of all 4 pairs .*\(--server-links only\)\. Start it without/);
  });

  test('states no time for strategies that do not send the whole gradient in each step', () => {
    expect(served(2, { job: parseJob({ strategy: 'diloco' }) })).not.toContain('In each step');
    expect(served(2, { job: parseJob({ codec: 'powersgd' }) })).not.toContain('In each step');
  });
});
