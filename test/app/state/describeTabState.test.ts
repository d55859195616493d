import { describe, expect, test } from 'vitest';
import { isRoomTraining, ownRank } from '../../../src/app/state/derive.ts';
import { describeTabState } from '../../../src/app/state/describeTabState.ts';
import type { LobbyView } from '../../../src/app/state/room.ts';
import type { EngineEvent } from '../../../src/protocol/events.ts';
import { member, RESULT, stepEvent } from '../events.ts';
import { fold, GENERATION, GRACE, MEMBERS, room, state } from './roomOfFour.ts';

/** Returns the text of the state after these events. */
function textAfter(...events: EngineEvent[]): string {
  return describeTabState(fold(...events)).text;
}

function distributing(generation: number, bytesPerRank: number[]): EngineEvent {
  return { type: 'distribution', what: 'files', generation, total: 9, bytesPerRank };
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
    expect(textAfter(GENERATION, state('RUNNING', { connecting }))).toBe(
      'training; the next ring is being connected, because the members or their order changed',
    );
    expect(textAfter(GENERATION, state('RUNNING', { isServerAway: true }))).toContain(
      'the signaling server cannot be reached',
    );
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
    const unready: Partial<LobbyView> = { phase: 'RUNNING', members: [member('Ada'), member('Grace', false)] };
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
    expect(textAfter(...inRun, state('WAITING'), letGo)).toMatch(/^reconnecting: this tab lost its place/);
    expect(textAfter(...inRun, state('WAITING', { isServerAway: true }), room({}))).toContain(
      'the signaling server cannot be reached',
    );
  });

  test('describes the run of the other tabs if this tab only watches', () => {
    const watcher: EngineEvent = { type: 'admitted', member: 'wu', room: 'AAAAAA', hostKey: null };
    const spectators = [{ member: 'wu', name: 'Wu' }];
    const inRun = [watcher, GENERATION, stepEvent(0), state('WAITING')];
    expect(textAfter(watcher, state('WAITING'), room({ spectators }))).toBe('watching: no run yet');
    expect(textAfter(...inRun, room({ spectators, phase: 'RUNNING' }))).toBe('watching');
    expect(textAfter(...inRun, room({ spectators, phase: 'PAUSED', isPausedByHost: true }))).toBe('paused by the host');
    const view = fold(...inRun, room({ spectators, phase: 'RUNNING' }));
    expect([ownRank(view, view.run!), isRoomTraining(view)]).toEqual([null, true]);
    const trainer = fold(GRACE, GENERATION, state('WAITING'), room({ spectators, phase: 'RUNNING' }));
    expect([ownRank(trainer, trainer.run!), isRoomTraining(trainer)]).toEqual([0, false]);
  });

  test('is "stopped" after a failure of the run, and "finished" after its result', () => {
    const stopped: EngineEvent = { type: 'failed', name: 'PeergradError', message: 'x', fatal: false };
    expect(textAfter(GRACE, GENERATION, room({}), state('WAITING'), stopped)).toBe('stopped');
    const finished: EngineEvent = { type: 'finished', result: RESULT };
    expect(textAfter(GRACE, GENERATION, room({ phase: 'LINKING' }), state('WAITING'), finished)).toBe('finished');
  });
});
