import { expect, test } from 'vitest';
import { groupCheckpointsByRun } from '../../../src/app/state/savedRuns.ts';
import type { CheckpointMeta } from '../../../src/formats/checkpoint.ts';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';

function meta(id: string, room: string, seed = 1): CheckpointMeta {
  return {
    id,
    room,
    job: { ...DEFAULT_JOB, seed },
    savedAt: 0,
    step: 1,
    position: { epoch: 0, offset: 1 },
    evaluateEvery: 1,
    trainedMs: 0,
    verdicts: [],
    losses: [1],
    stateHash: '',
    worldSize: 1,
  };
}

test('checkpoints of the same room and job are listed as one run, the latest checkpoint first', () => {
  const list = [meta('a2', 'AAAAAA'), meta('b1', 'BBBBBB'), meta('a1', 'AAAAAA'), meta('other', 'AAAAAA', 2)];
  expect(groupCheckpointsByRun(list).map((run) => run.map(({ id }) => id))).toEqual([['a2', 'a1'], ['b1'], ['other']]);
});
