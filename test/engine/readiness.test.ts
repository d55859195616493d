/** Tests of the pure function that decides when a tab announces itself, recovers or is out. */
import { describe, expect, test } from 'vitest';
import {
  nextReadiness,
  INITIAL_READINESS,
  errorScopeOf,
  type ReadinessEffect,
  type ReadinessEvent,
  type ReadinessState,
} from '../../src/engine/readiness.ts';
import type { RoomMessage } from '../../src/protocol/control.ts';
import { CodeLoadError } from '../../src/engine/loadCodeModule.ts';
import type { ReportedDevice } from '../../src/protocol/room.ts';
import { parseJob, type JobSpec } from '../../src/spec/job.ts';
import { DataError, DeviceError, DivergenceError, MismatchError, PeergradError } from '../../src/util/errors.ts';

const DEVICE: ReportedDevice = { backend: 'cpu', adapter: 'test' };
const MEMBER = 'ada';
const FILES = [{ name: 'own.csv', size: 100 }];
const DIGITS = parseJob({ job: 'digits' });
const TABLE = parseJob({ job: 'table', data: { kind: 'files' } });
const SHARED_TABLE = parseJob({ job: 'table', data: { kind: 'shared', files: [] } });

/**
 * The room as the server describes it. `isCounted`: whether the server counts this tab as
 * ready.
 */
function roomOf({
  job = DIGITS,
  isCounted = false,
  ...more
}: Partial<RoomMessage> & { isCounted?: boolean } = {}): RoomMessage {
  return {
    type: 'room',
    phase: 'FORMING',
    run: 0,
    generation: 0,
    hasTrained: false,
    hosts: [MEMBER],
    members: [{ member: MEMBER, name: 'Ada', device: isCounted ? DEVICE : null, browser: 1, rank: null }],
    spectators: [],
    job,
    startAt: null,
    nodes: { min: 1, max: 8 },
    isLocked: false,
    isPausedByHost: false,
    waitingFor: 0,
    ...more,
  };
}

function prepared(id: number, stateOfRun: number | null = null): ReadinessEvent {
  return { type: 'prepared', id, rank: { device: DEVICE, stateOfRun, isBehind: false } };
}

/** A tab's readiness. `take` passes an event to it and returns the effects. */
class Tab {
  state: ReadinessState = INITIAL_READINESS;

  take(event: ReadinessEvent): readonly ReadinessEffect[] {
    const { state, effects } = nextReadiness(this.state, event);
    this.state = state;
    return effects;
  }

  room(room: Parameters<typeof roomOf>[0] = {}): readonly ReadinessEffect[] {
    return this.take({ type: 'room', message: roomOf(room) });
  }

  files(files = FILES): readonly ReadinessEffect[] {
    return this.take({ type: 'files', files });
  }

  /** Reports that the preparation of the latest announcement is done. */
  prepared(stateOfRun: number | null = null): readonly ReadinessEffect[] {
    return this.take(prepared(this.announcement, stateOfRun));
  }

  inspected(isFit: boolean): readonly ReadinessEffect[] {
    return this.take({ type: 'inspected', id: this.state.inspection!.id, isFit });
  }

  get announcement(): number {
    return this.state.announcement!.id;
  }
}

/** A tab that the server has admitted. */
function admitted(isSpectator = false): Tab {
  const tab = new Tab();
  tab.take({ type: 'entered', isSpectator });
  tab.take({ type: 'admitted', member: MEMBER });
  return tab;
}

/** A tab that is counted as ready for run 1, which has begun. */
function inRun(job: JobSpec = DIGITS): Tab {
  const tab = admitted();
  if (job === TABLE) tab.files();
  tab.room({ job });
  if (job === TABLE) tab.inspected(true);
  tab.prepared();
  tab.room({ job, phase: 'RUNNING', run: 1, isCounted: true });
  return tab;
}

const typesOf = (effects: readonly ReadinessEffect[]): string[] => effects.map(({ type }) => type);

const ownError = (ErrorClass: typeof PeergradError): PeergradError =>
  new ErrorClass('This rank differs.', { rank: 1, divergent: [1] });

describe('the announcement that a tab is ready', () => {
  test('is made once, after the preparation', () => {
    const tab = admitted();
    expect(tab.room()).toMatchObject([{ type: 'prepare', id: tab.announcement }]);
    expect(tab.room()).toEqual([]);
    expect(tab.prepared(1)).toEqual([{ type: 'announce', rank: { device: DEVICE, stateOfRun: 1, isBehind: false } }]);
    expect(tab.room({ isCounted: true })).toEqual([]);
  });

  test('is not made by a spectator', () => {
    expect(admitted(true).room()).toEqual([]);
  });

  test('is made again after a new admission', () => {
    const tab = admitted();
    tab.room();
    const first = tab.announcement;
    expect(typesOf(tab.take({ type: 'admitted', member: MEMBER }))).toEqual(['prepare']);
    expect(tab.take(prepared(first))).toEqual([]);
    expect(typesOf(tab.prepared())).toEqual(['announce']);
  });

  test('is made again when the server no longer counts this rank as ready', () => {
    const tab = inRun();
    expect(typesOf(tab.room({ phase: 'RUNNING', run: 1 }))).toEqual(['prepare']);
  });

  test('is made during a run by a rank that the server does not count as ready', () => {
    const tab = admitted();
    const effects = tab.room({ phase: 'RUNNING', run: 3 });
    expect(effects).toMatchObject([{ type: 'prepare', room: { run: 3 } }]);
  });

  test('is not made again during a run by a rank that the server counts as ready', () => {
    expect(inRun().room({ phase: 'LINKING', run: 2, isCounted: true })).toEqual([]);
  });

  test('is dropped if the tab leaves the room during the preparation', () => {
    const tab = admitted();
    tab.room();
    const first = tab.announcement;
    tab.take({ type: 'left' });
    expect(tab.take(prepared(first))).toEqual([]);
    tab.take({ type: 'entered', isSpectator: false });
    expect(tab.take({ type: 'unprepared', id: first, error: new DataError('Too late.') })).toEqual([]);
    expect(tab.state.isOut).toBe(false);
  });
});

describe('chosen files', () => {
  test('are inspected before the tab announces that it is ready', () => {
    const tab = admitted();
    expect(tab.room({ job: TABLE })).toEqual([]);
    expect(tab.files()).toMatchObject([{ type: 'inspect', job: TABLE }]);
    expect(tab.room({ job: TABLE })).toEqual([]);
    expect(typesOf(tab.inspected(true))).toEqual(['prepare']);
  });

  test('that do not fit the job prevent the announcement', () => {
    const tab = admitted();
    tab.files();
    tab.room({ job: TABLE });
    expect(tab.inspected(false)).toEqual([]);
    expect(tab.room({ job: TABLE })).toEqual([]);
  });

  test('are inspected again if the target of the job changes', () => {
    const tab = admitted();
    tab.files();
    tab.room({ job: TABLE });
    const first = tab.state.inspection!.id;
    const other = { ...TABLE, target: 'kind' };
    expect(tab.room({ job: other })).toMatchObject([{ type: 'inspect', job: other }]);
    expect(tab.take({ type: 'inspected', id: first, isFit: true })).toEqual([]);
    expect(typesOf(tab.inspected(true))).toEqual(['prepare']);
  });

  test("are shared as soon as the tab learns that the room's data are shared", () => {
    const tab = admitted();
    expect(tab.files()).toEqual([]);
    expect(tab.room({ job: SHARED_TABLE })).toEqual([{ type: 'share', isRequested: false }]);
    expect(tab.room({ job: SHARED_TABLE })).toEqual([]);
  });

  test('are immediately shared in a room whose data are shared', () => {
    const tab = admitted();
    expect(tab.room({ job: SHARED_TABLE })).toEqual([]);
    expect(tab.files()).toEqual([{ type: 'share', isRequested: true }]);
  });

  test('let a tab that is out after an error take part again, and replace the prepared run', () => {
    const tab = admitted();
    tab.files();
    tab.room({ job: TABLE, phase: 'RUNNING', run: 1 });
    tab.inspected(true);
    const error = new DataError('Another column.');
    expect(tab.take({ type: 'unprepared', id: tab.announcement, error })).toEqual([
      { type: 'fail', error, isFatal: false },
    ]);
    expect(tab.room({ job: TABLE, phase: 'RUNNING', run: 1 })).toEqual([]);
    expect(typesOf(tab.files())).toEqual(['discard', 'inspect']);
    expect(typesOf(tab.inspected(true))).toEqual(['prepare']);
  });
});

describe('a tab that cannot load a part of its page', () => {
  const error = new CodeLoadError('Offline.');
  const LEFT = [{ type: 'fail', error, isFatal: true }, { type: 'leave' }];

  test('leaves the room instead of letting the others wait, when it prepares for the run', () => {
    const tab = admitted();
    tab.room();
    expect(tab.take({ type: 'unprepared', id: tab.announcement, error })).toEqual(LEFT);
  });

  test('leaves the room when it inspects its files, unless other files were chosen meanwhile', () => {
    const tab = admitted();
    tab.room({ job: TABLE });
    tab.files();
    const first = tab.state.inspection!.id;
    tab.files();
    expect(tab.take({ type: 'uninspected', id: first, error })).toEqual([]);
    expect(tab.take({ type: 'uninspected', id: tab.state.inspection!.id, error })).toEqual(LEFT);
  });
});

describe('a tab that is out after an error', () => {
  test('can take part again once the job has changed', () => {
    const tab = inRun();
    tab.take({ type: 'failed', error: ownError(DataError) });
    expect(tab.room({ phase: 'RUNNING', run: 1 })).toEqual([]);
    expect(typesOf(tab.room({ job: parseJob({ job: 'digits', seed: 2 }) }))).toEqual(['prepare']);
  });

  test('does not save a paused run, unlike a tab that trains', () => {
    const tab = inRun();
    expect(typesOf(tab.room({ phase: 'PAUSED', run: 1, isCounted: true }))).toEqual(['save']);
    const out = inRun();
    out.take({ type: 'failed', error: ownError(DataError) });
    expect(out.room({ phase: 'PAUSED', run: 1, isCounted: true })).toEqual([]);
  });
});

describe('a run that has ended', () => {
  test('is not prepared again until the server has described the room', () => {
    const tab = inRun(TABLE);
    expect(tab.take({ type: 'ended', run: 1 })).toEqual([]);
    tab.files();
    expect(tab.inspected(true)).toEqual([]);
    expect(typesOf(tab.room({ job: TABLE, run: 1, isCounted: true }))).toEqual(['prepare']);
  });

  test('does not prevent the preparation of the current run', () => {
    const tab = inRun();
    tab.room({ phase: 'LINKING', run: 2 });
    expect(tab.take({ type: 'ended', run: 1 })).toMatchObject([{ type: 'prepare', room: { run: 2 } }]);
  });
});

describe('a lost GPU', () => {
  test('is opened again before the tab announces itself again', () => {
    const tab = inRun();
    expect(typesOf(tab.take({ type: 'failed', error: new DeviceError('Lost.') }))).toEqual(['recover']);
    expect(tab.room({ phase: 'RUNNING', run: 1 })).toEqual([]);
    expect(typesOf(tab.take({ type: 'recovered' }))).toEqual(['prepare']);
  });

  test('is opened again after three losses in a run, and not after the fourth', () => {
    const tab = inRun();
    const error = new DeviceError('Lost.');
    const lose = (): string[] => {
      const effects = tab.take({ type: 'failed', error });
      tab.take({ type: 'recovered' });
      return typesOf(effects);
    };
    expect([lose(), lose(), lose()]).toEqual([['recover'], ['recover'], ['recover']]);
    expect(tab.take({ type: 'failed', error })).toEqual([{ type: 'fail', error, isFatal: true }, { type: 'leave' }]);
    expect(tab.files()).toEqual([]);
  });

  test('is opened again in the next run, even after three losses in this run', () => {
    const tab = inRun();
    for (let time = 1; time <= 3; time++) {
      tab.take({ type: 'failed', error: new DeviceError('Lost.') });
      tab.take({ type: 'recovered' });
    }
    tab.take({ type: 'ended', run: 1 });
    expect(typesOf(tab.take({ type: 'failed', error: new DeviceError('Lost.') }))).toEqual(['recover']);
  });

  test('ends the membership if it cannot be opened again', () => {
    const tab = inRun();
    tab.take({ type: 'failed', error: new DeviceError('Lost.') });
    expect(typesOf(tab.take({ type: 'unrecovered', error: new DeviceError('None.') }))).toEqual(['fail', 'leave']);
  });

  test('does not affect another room that the tab has entered since', () => {
    const tab = inRun();
    tab.take({ type: 'failed', error: new DeviceError('Lost.') });
    tab.take({ type: 'entered', isSpectator: false });
    expect(tab.take({ type: 'unrecovered', error: new DeviceError('None.') })).toEqual([]);
  });
});

describe('the scope of an error', () => {
  const othersDiffer = new PeergradError('Rank 0 differs.', { rank: 1, divergent: [0] });

  test.each([
    ['a lost GPU', new DeviceError('Lost.'), 'rank'],
    ['data that are missing on this rank', new DataError('A file is missing.'), 'rank'],
    ['data of this rank that differ', ownError(DataError), 'rank'],
    ['a model of this rank that differs', ownError(MismatchError), 'rank'],
    ['a state of this rank that differs', ownError(DivergenceError), 'generation'],
    ['a state of another rank that differs', othersDiffer, 'generation'],
    ['an unknown error', new Error('A bug.'), 'run'],
  ])('that is caused by %s (%s) is the %s', (_, error, scope) => {
    expect(errorScopeOf(inRun().state, error)).toBe(scope);
  });

  test('is the run if the host has distributed invalid data', () => {
    const manifest = [{ name: 'own.csv', size: 100, hash: '0'.repeat(16) }];
    const tab = admitted();
    tab.room({ job: { ...SHARED_TABLE, data: { kind: 'shared', files: manifest } } });
    expect(errorScopeOf(tab.state, new DataError('A damaged table.'))).toBe('run');
  });

  test('is the rank when the state of this rank diverges for the third time', () => {
    const tab = inRun();
    const error = ownError(DivergenceError);
    expect(tab.take({ type: 'failed', error })).toEqual([]);
    expect(tab.take({ type: 'failed', error })).toEqual([]);
    expect(errorScopeOf(tab.state, error)).toBe('rank');
    expect(tab.take({ type: 'failed', error })).toEqual([{ type: 'fail', error, isFatal: false }]);
    expect(tab.state.isOut).toBe(true);
  });
});
