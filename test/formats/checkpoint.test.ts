/**
 * Tests that a checkpoint is restored from complete and unchanged bytes, and rejected otherwise.
 */
import { describe, expect, test } from 'vitest';
import {
  decodeCheckpoint,
  encodeCheckpoint,
  readCheckpointMeta,
  type CheckpointMeta,
} from '../../src/formats/checkpoint.ts';
import { looksLikeStateFile } from '../../src/formats/stateFile.ts';
import { parseJob } from '../../src/spec/job.ts';
import { DataError } from '../../src/util/errors.ts';

const META: CheckpointMeta = {
  id: 'K7F3QX-m-20',
  room: 'K7F3QX',
  job: parseJob({}),
  savedAt: 1_700_000_000_000,
  step: 20,
  worldSize: 4,
  position: { epoch: 1, offset: 640 },
  evaluateEvery: 5,
  verdicts: [{ step: 5, best: 0.5, bestStep: 4, since: 1 }],
  trainedMs: 0,
  losses: [2.5, 1 / 3],
  stateHash: '0123456789abcdef',
};
const ARRAYS = [Int32Array.of(1, 0), Float32Array.of(1.5, -2, 0.25), new Float32Array(), Float64Array.of(1 / 3)];
const BYTES = encodeCheckpoint(META, ARRAYS);

const refusalOf = async (bytes: Uint8Array<ArrayBuffer>): Promise<string> => {
  const error: unknown = await decodeCheckpoint('mine', new Blob([bytes])).catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(DataError);
  return (error as DataError).message;
};

describe('a checkpoint', () => {
  test('is the same after encoding and decoding', async () => {
    expect(await decodeCheckpoint('mine', new Blob([BYTES]))).toEqual({ meta: META, arrays: ARRAYS });
    expect(await readCheckpointMeta('mine', new Blob([BYTES]))).toEqual(META);
    expect(looksLikeStateFile(BYTES)).toBe(true);
  });

  test('is rejected if it is truncated at any byte', async () => {
    for (let end = 0; end < BYTES.length; end++) {
      expect(await refusalOf(BYTES.slice(0, end))).toMatch(
        /^mine is damaged \((it is cut off|it has \d+ bytes instead of)/,
      );
    }
  });

  test('is rejected if any byte of it has changed', async () => {
    for (let at = 0; at < BYTES.length; at++) {
      const changed = BYTES.slice();
      changed[at]! ^= 4;
      expect(await refusalOf(changed)).toMatch(/^mine is damaged/);
    }
  });
});
