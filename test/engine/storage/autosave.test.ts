/** When a run is saved during training, and when its checkpoints are removed. */
import { beforeEach, expect, test } from 'vitest';
import { Autosave, MIN_AUTOSAVE_INTERVAL_MS } from '../../../src/engine/storage/autosave.ts';
import type { CheckpointMeta } from '../../../src/formats/checkpoint.ts';
import type { RunState } from '../../../src/engine/storage/runState.ts';
import { parseJob } from '../../../src/spec/job.ts';
import { StorageError } from '../../../src/util/errors.ts';
import { ManualClock } from '../../manualClock.ts';

const JOB = parseJob({ maxSteps: 100 });
const ORIGIN = { room: 'AAAAAA', job: JOB } as CheckpointMeta;

let clock: ManualClock;
/** Calls of the storage, as texts. */
let asked: string[];
let notes: string[];
let saved: number[];
let isFull: boolean;
let autosave: Autosave;

const storage = {
  async save(meta: CheckpointMeta): Promise<void> {
    if (isFull) throw new StorageError('This browser’s storage is full.');
    asked.push(`save ${meta.id}`);
    stored.push(meta);
  },
  list: () => Promise.resolve({ checkpoints: stored, damaged: [] }),
  async removeRun({ room }: Pick<CheckpointMeta, 'room' | 'job'>, upTo?: number): Promise<void> {
    asked.push(`remove ${room}${upTo === undefined ? '' : ` up to ${upTo}`}`);
  },
};
/** Whether another tab of this browser is currently saving or removing checkpoints. */
let isTaken: boolean;
let stored: CheckpointMeta[];

function autosaveFrom(origin: CheckpointMeta | null): Autosave {
  return new Autosave({
    ...{ room: 'K7F3QX', member: 'member-ada', job: JOB, clock, today: () => clock.now(), origin },
    openCheckpoints: () => Promise.resolve(storage),
    whileAlone: (task) => (isTaken ? Promise.resolve() : task()),
    onsaved: (step) => saved.push(step),
    onnote: (message) => notes.push(message),
  });
}

beforeEach(() => {
  clock = new ManualClock();
  [asked, notes, saved, stored, isFull, isTaken] = [[], [], [], [], false, false];
  autosave = autosaveFrom(null);
});

function run(step: number) {
  const state: RunState = {
    progress: {
      step,
      appliedIn: 1,
      previousAppliedIn: 1,
      position: { epoch: 0, offset: step },
      losses: [],
      evaluateEvery: 1,
      verdicts: [],
      trainedMs: 0,
    },
    replica: {
      order: [0],
      parameters: new Float32Array(1),
      buffers: new Float32Array(),
      optimizer: { name: 'adam', scalars: new Float64Array(1), slots: [] },
    },
  };
  return { worldSize: 2, snapshot: () => Promise.resolve(state) };
}

test('a run is saved regularly, and immediately on request', async () => {
  autosave.offer(run(20));
  await autosave.idle;
  autosave.offer(run(40));
  await autosave.idle;
  clock.advance(MIN_AUTOSAVE_INTERVAL_MS);
  autosave.offer(run(60));
  // At this time the first save is still in progress.
  autosave.save(run(61));
  await autosave.idle;
  autosave.save(run(62));
  await autosave.idle;
  expect(asked).toEqual(['20', '60', '62'].map((step) => `save K7F3QX-member-ada-${step}`));
  expect(saved).toEqual([20, 60, 62]);
});

test('nothing is saved before the first step or after the final step', async () => {
  autosave.save(run(0));
  await autosave.idle;
  autosave.save(run(100));
  await autosave.idle;
  expect(asked).toEqual([]);
});

test('the checkpoints of a finished run are removed when a save that is in progress has ended', async () => {
  autosave.save(run(20));
  autosave.discard(30);
  await autosave.idle;
  expect(asked).toEqual(['save K7F3QX-member-ada-20', 'remove K7F3QX']);
});

test('a tab neither saves nor removes checkpoints while another tab of the same browser saves', async () => {
  isTaken = true;
  autosave.save(run(20));
  autosave.discard(30);
  await autosave.idle;
  expect([asked, saved, notes]).toEqual([[], [], []]);
});

test('soon after another tab of its browser has saved, a tab saves only on request, and only a later step', async () => {
  const other = autosaveFrom(null);
  other.offer(run(20));
  await other.idle;
  clock.advance(MIN_AUTOSAVE_INTERVAL_MS / 2);
  autosave.offer(run(40));
  await autosave.idle;
  autosave.save(run(20));
  await autosave.idle;
  expect(saved).toEqual([20]);
  autosave.save(run(41));
  await autosave.idle;
  expect(saved).toEqual([20, 41]);
  clock.advance(MIN_AUTOSAVE_INTERVAL_MS);
  autosave.offer(run(60));
  await autosave.idle;
  expect(saved).toEqual([20, 41, 60]);
});

test('a run that starts again in the same room is saved even if the earlier run had more steps', async () => {
  autosave.save(run(90));
  await autosave.idle;
  clock.advance(MIN_AUTOSAVE_INTERVAL_MS);
  const next = autosaveFrom(null);
  next.offer(run(5));
  await next.idle;
  expect(saved).toEqual([90, 5]);
});

test('a resumed run removes its old checkpoint once it has saved a new one', async () => {
  autosave = autosaveFrom(ORIGIN);
  autosave.save(run(20));
  await autosave.idle;
  expect(asked).toEqual(['save K7F3QX-member-ada-20', 'remove AAAAAA up to 20']);
  autosave.discard(50);
  await autosave.idle;
  expect(asked.slice(2)).toEqual(['remove K7F3QX', 'remove AAAAAA up to 50']);
});

test('a run that is resumed in the same room removes no checkpoint of this room', async () => {
  autosave = autosaveFrom({ ...ORIGIN, room: 'K7F3QX' });
  autosave.save(run(20));
  await autosave.idle;
  expect(asked).toEqual(['save K7F3QX-member-ada-20']);
});

test('failing saves of a run are reported once and tried again', async () => {
  isFull = true;
  autosave.save(run(20));
  await autosave.idle;
  autosave.save(run(40));
  await autosave.idle;
  expect(notes).toEqual([
    'Training continues, but it cannot be saved and resumed later: This browser’s storage is full.',
  ]);
  isFull = false;
  autosave.save(run(60));
  await autosave.idle;
  expect(asked).toEqual(['save K7F3QX-member-ada-60']);
});
