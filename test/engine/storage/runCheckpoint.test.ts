/** A run's state is converted to a checkpoint and back. */
import * as v from 'valibot';
import { expect, test } from 'vitest';
import { runStateFromCheckpoint, runStateToCheckpoint } from '../../../src/engine/storage/runCheckpoint.ts';
import type { RunState } from '../../../src/engine/storage/runState.ts';
import { CheckpointMeta } from '../../../src/formats/checkpoint.ts';
import type { StateArray } from '../../../src/formats/stateFile.ts';
import { parseJob } from '../../../src/spec/job.ts';
import { train } from '../train.ts';

const FIELDS = { batchSize: 4, maxSteps: 3, hashEvery: 1, optimizer: 'adam' };
const ABOUT = { id: 'one', room: 'K7F3QX', job: parseJob(FIELDS), savedAt: 1, worldSize: 2 };

async function stateAfterTraining(): Promise<{ state: RunState; hash: string }> {
  const snapshots: Promise<RunState>[] = [];
  const { results } = await train(2, FIELDS, {
    tamper: (replica, group) => {
      const dispose = replica.dispose.bind(replica);
      replica.dispose = () => {
        if (group.rank === 0) snapshots.push(replica.snapshot());
        dispose();
      };
    },
  });
  return { state: (await snapshots[0])!, hash: results[0]!.stateHash[0]! };
}

test('a state is restored unchanged, and the hash of the checkpoint is the state hash that ranks compare', async () => {
  const { state, hash } = await stateAfterTraining();
  const checkpoint = runStateToCheckpoint(state, ABOUT);
  expect(checkpoint.meta).toMatchObject({ ...ABOUT, step: 3, position: { epoch: 0, offset: 24 }, stateHash: hash });
  expect(checkpoint.meta.losses).toHaveLength(3);
  expect(v.parse(CheckpointMeta, checkpoint.meta)).toEqual(checkpoint.meta);
  expect(runStateFromCheckpoint(checkpoint)).toEqual({
    ...state,
    progress: { ...state.progress, appliedIn: 0, previousAppliedIn: 0 },
  });
});

test('arrays that do not form a state are rejected', async () => {
  const { state } = await stateAfterTraining();
  const { meta, arrays } = runStateToCheckpoint(state, ABOUT);
  const wrong: StateArray[][] = [[], arrays.slice(1), [...arrays, new Uint8Array(1)]];
  for (const each of wrong)
    expect(() => runStateFromCheckpoint({ meta, arrays: each })).toThrow(/another version of peergrad/);
});
